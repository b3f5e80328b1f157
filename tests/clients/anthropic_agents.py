# pip: anthropic
"""The anthropic library: messages, a stream, and a tool whose result ends the talk."""

import sys

from anthropic import Anthropic

MODEL = "builtin:bytes"


def checks(url: str) -> None:
    client = Anthropic(base_url=url, api_key="any")
    talk = [{"role": "user", "content": "Is it warm in Rome?"}]
    assert client.messages.create(model=MODEL, max_tokens=20, messages=talk).content[0].text
    with client.messages.stream(model=MODEL, max_tokens=20, messages=talk) as stream:
        assert "".join(stream.text_stream)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"name": "weather", "description": "Tells it.", "input_schema": schema}]
    asked = client.messages.create(
        model=MODEL, max_tokens=200, messages=talk, tools=tools, tool_choice={"type": "tool", "name": "weather"}
    )
    call = next(part for part in asked.content if part.type == "tool_use")
    assert isinstance(call.input["city"], str)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "31 degrees"}
    talk += [{"role": "assistant", "content": asked.content}, {"role": "user", "content": [result]}]
    end = client.messages.create(model=MODEL, max_tokens=20, messages=talk, tools=tools)
    assert end.content[0].type == "text"
    assert end.stop_reason != "tool_use"


if __name__ == "__main__":
    checks(sys.argv[1])
