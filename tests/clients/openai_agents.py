# pip: openai
"""The openai library: structured answers, forced tool calls, and an agent that ends."""

import json
import sys

from openai import OpenAI
from pydantic import BaseModel

MODEL = "builtin:bytes"


class City(BaseModel):
    """What is asked for."""

    name: str
    people: int


def checks(url: str) -> None:
    client = OpenAI(base_url=url + "/v1", api_key="any")
    messages = [{"role": "user", "content": "Which city?"}]
    parsed = client.chat.completions.parse(model=MODEL, messages=messages, response_format=City, max_tokens=300)
    assert isinstance(parsed.choices[0].message.parsed, City)
    response = client.responses.parse(model=MODEL, input="Which city?", text_format=City, max_output_tokens=300)
    assert isinstance(response.output_parsed, City)
    any_object = {"type": "json_object"}
    said = client.chat.completions.create(model=MODEL, messages=messages, response_format=any_object, max_tokens=300)
    assert isinstance(json.loads(said.choices[0].message.content), dict)
    tools = [{"type": "function", "function": {"name": "look", "parameters": City.model_json_schema()}}]
    for choice in ("required", {"type": "function", "function": {"name": "look"}}):
        talk = list(messages)
        asked = client.chat.completions.create(
            model=MODEL, messages=talk, tools=tools, tool_choice=choice, max_tokens=300
        )
        call = asked.choices[0].message.tool_calls[0]
        City.model_validate_json(call.function.arguments)
        talk += [asked.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "found"}]
        end = client.chat.completions.create(model=MODEL, messages=talk, tools=tools, max_tokens=20)
        assert end.choices[0].message.content
        assert not end.choices[0].message.tool_calls


if __name__ == "__main__":
    checks(sys.argv[1])
