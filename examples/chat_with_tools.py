"""Let a model call a Python function, and hold another reply to a JSON schema."""

import json

from litert_lm import Engine, ResponseFormat, SamplerConfig, ToolEventHandler
from litert_lm.hub import resolve_model

#: The default model was not trained on tools; this names the dialect of many that were.
TEMPLATE = """\
{% for m in messages %}<|im_start|>{{ m.role }}
{% if loop.first %}{% for t in tools or [] %}{{ t | tojson }}
{% endfor %}{% endif %}{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{{ c.function | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def population(city: str) -> dict:
    """Number of people who live in a city.

    Args:
        city: its name.
    """
    return {"city": city, "people": 2_100_000}


class Shown(ToolEventHandler):
    def approve_tool_call(self, tool_call: dict) -> bool:
        print("call:", json.dumps(tool_call["function"]))
        return True

    def process_tool_response(self, tool_response: dict) -> dict:
        return tool_response


def main() -> None:
    options = {"sampler_config": SamplerConfig(temperature=0.0)}
    with Engine(resolve_model("smollm2-135m-instruct")) as engine:
        chat = engine.create_conversation(
            tools=[population],
            tool_event_handler=Shown(),
            chat_template=TEMPLATE,
            max_output_tokens=60,
            **options,
        )
        question = "How many people live in Paris?"
        print("reply:", chat.send_message(question, tool_choice="population"))

        schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Paris"]}}}
        schema |= {"required": ["city"], "additionalProperties": False}
        form = ResponseFormat.json(json.dumps(schema))
        chat = engine.create_conversation(**options)
        reply = chat.send_message("Capital of Italy?", response_format=form)
        print("json:", json.loads(str(reply)))


if __name__ == "__main__":
    main()
