"""Ask a server that `litert-lm serve MODEL` has started; the address may be given."""

import sys

import grpc

from litert_lm.serve.schema import GenerateRequest, GenerateResponse, StoppingCriteria


def main() -> None:
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
    request = GenerateRequest(
        text="The sea is", stopping=StoppingCriteria(max_new_tokens=30)
    )
    with grpc.insecure_channel(address) as channel:
        generate = channel.unary_stream(
            "/vllm.Generate/GenerateStream",
            GenerateRequest.SerializeToString,
            GenerateResponse.FromString,
        )
        for message in generate(request):
            print(message.outputs.text, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
