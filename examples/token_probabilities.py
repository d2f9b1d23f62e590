"""How likely the model finds each token of its own answer."""

import math

from litert_lm import Engine
from litert_lm.hub import resolve_model


def main() -> None:
    with Engine(resolve_model("smollm2-135m-instruct")) as engine:
        response = engine.create_session().generate(
            "Monday, Tuesday,", max_new_tokens=10, temperature=0, output_logprobs=True
        )
        output = response.outputs[0]
        for token_id, logprob in zip(output.token_ids, output.logprobs, strict=True):
            text = engine.detokenize([token_id])
            print(f"{text!r:14} {math.exp(logprob):6.1%}")


if __name__ == "__main__":
    main()
