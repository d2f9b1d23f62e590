"""Stream an answer and tell how fast it was."""

from litert_lm import Engine
from litert_lm.chat.template import render
from litert_lm.hub import resolve_model

PROMPT = "Explain in two sentences why leaves are green."


def main() -> None:
    with Engine(resolve_model("smollm2-135m-instruct")) as engine:
        messages = [{"role": "user", "content": PROMPT}]
        prompt = render(engine.config.jinja_template or "", messages)
        session = engine.create_session(apply_prompt_template=False)
        for chunk in session.generate_stream(prompt, max_new_tokens=60):
            print(chunk.text, end="", flush=True)
        info = session.get_benchmark_info()
        print(f"\n{info.last_decode_tokens_per_second:.1f} tokens/s")


if __name__ == "__main__":
    main()
