"""Hold a conversation: stream replies, go two ways from one point, save and load."""

import tempfile
from pathlib import Path

from litert_lm import Engine, SamplerConfig
from litert_lm.hub import resolve_model


def main() -> None:
    with (
        Engine(resolve_model("smollm2-135m-instruct")) as engine,
        tempfile.TemporaryDirectory() as folder,
    ):
        greedy = SamplerConfig(temperature=0.0)
        chat = engine.create_conversation(
            system_message="You answer in one short sentence.",
            sampler_config=greedy,
            max_output_tokens=40,
        )
        stream = chat.send_message_async("What is the capital of France?")
        for delta in stream:
            print(delta, end="", flush=True)
        print(f"\n[{stream.info.num_prefill_tokens} tokens read]")

        other = chat.clone()
        for each, question in (
            (chat, "And of Italy?"),
            (other, "What is it known for?"),
        ):
            reply = each.send_message(question)
            print(f"{reply}\n[{reply.info.num_prefill_tokens} tokens read]")

        path = Path(folder, "chat.safetensors")
        chat.save(path)
        loaded = engine.load_conversation(path, sampler_config=greedy)
        print(f"[{len(loaded.messages)} messages loaded]")
        print(loaded.send_message("Thank you!"))


if __name__ == "__main__":
    main()
