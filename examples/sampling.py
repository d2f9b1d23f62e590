"""The same prompt, greedy and drawn with several seeds."""

from litert_lm import Engine
from litert_lm.hub import resolve_model

PROMPT = "My favourite animal is the"


def main() -> None:
    with Engine(resolve_model("smollm2-135m-instruct")) as engine:
        greedy = engine.create_session().generate(
            PROMPT, temperature=0, max_new_tokens=12
        )
        print(f"greedy: {greedy.text!r}")
        for seed in range(3):
            drawn = engine.create_session().generate(
                PROMPT, temperature=0.8, top_p=0.95, seed=seed, max_new_tokens=12
            )
            print(f"seed {seed}: {drawn.text!r}")


if __name__ == "__main__":
    main()
