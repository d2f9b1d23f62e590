"""Ask a server that `litert-lm serve MODEL` has started; its address may be given.

Needs what the extra `grpc` installs, as the server does.
"""

import sys

import grpc

from litert_lm.serve.schema import GenerateRequest, GenerateResponse, StoppingCriteria

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
request = GenerateRequest(text="The sea is", stopping=StoppingCriteria(ignore_eos=True))
with grpc.insecure_channel(address) as channel:
    generate_stream = channel.unary_stream(
        "/vllm.Generate/GenerateStream",
        GenerateRequest.SerializeToString,
        GenerateResponse.FromString,
    )
    line_end = ""
    try:
        for message in generate_stream(request):
            print(message.outputs.text, end="", flush=True)
            line_end = "\n"
    except grpc.RpcError as error:
        sys.exit(f"{line_end}{address}: {error.details().rstrip('.')}.")
print()
