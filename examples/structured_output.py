"""Have a model fill in a JSON form: every answer fits the schema."""

import json

from litert_lm import Engine
from litert_lm.hub import resolve_model

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "is_capital": {"type": "boolean"},
    },
    "required": ["city", "is_capital"],
    "additionalProperties": False,
}


def main() -> None:
    with Engine(resolve_model("smollm2-135m-instruct")) as engine:
        session = engine.create_session()
        response = session.generate(
            "Name a city in France, as JSON.", json=SCHEMA, max_new_tokens=60
        )
        print(json.loads(response.text))
        # One of a few texts, without any grammar to write.
        answer = session.generate("Is it warm there?", choice=["yes", "no"])
        print(answer.text)


if __name__ == "__main__":
    main()
