"""Draw several answers to one prompt, read once, and tell how likely each is."""

import math

from litert_lm import Engine
from litert_lm.hub import resolve_model

PROMPT = "The best thing about the sea is"


def main() -> None:
    with Engine(resolve_model("smollm2-135m-instruct")) as engine:
        response = engine.generate(
            PROMPT,
            num_sequences=3,
            temperature=0.8,
            seed=1,  # answer i starts at seed + i
            max_new_tokens=12,
            stop_strings=["."],
            output_logprobs=True,
            output_candidates=2,
        )
        for output in response.outputs:
            print(f"{math.fsum(output.logprobs):7.2f} {PROMPT}{output.text}.")
        first = response.outputs[0].candidate_tokens[0]
        others = [engine.detokenize([candidate.id]) for candidate in first]
        print("Instead of its first word it might have said:", others)


if __name__ == "__main__":
    main()
