"""Score texts as continuations of a context, and pick the likeliest."""

from litert_lm import Engine
from litert_lm.hub import resolve_model

CONTEXT = "The capital of France is"
CHOICES = [" Paris", " London", " a small village"]


def main() -> None:
    with Engine(resolve_model("smollm2-135m-instruct")) as engine:
        session = engine.create_session(apply_prompt_template=False)
        session.run_prefill([CONTEXT])
        scores = {text: session.run_text_scoring([text]).scores[0] for text in CHOICES}
        for text, score in sorted(scores.items(), key=lambda item: -item[1]):
            print(f"{score:8.2f}  {CONTEXT}{text}")


if __name__ == "__main__":
    main()
