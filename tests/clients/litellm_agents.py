# pip: litellm mcp
"""litellm: an answer, a stream, a structured answer, a forced tool call and its result."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prices are not asked for

import litellm

MODEL = "openai/builtin:bytes"


def checks(url: str) -> None:
    common = {"model": MODEL, "api_base": url + "/v1", "api_key": "any", "max_tokens": 300}
    talk = [{"role": "user", "content": "Is it warm in Rome?"}]
    assert litellm.completion(messages=talk, **common).choices[0].message.content
    parts = litellm.completion(messages=talk, stream=True, **common)
    assert "".join(part.choices[0].delta.content or "" for part in parts)
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema, "strict": True}}
    said = litellm.completion(messages=talk, response_format=form, **common).choices[0].message.content
    assert isinstance(json.loads(said)["city"], str)
    tools = [{"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": schema}}]
    asked = litellm.completion(messages=talk, tools=tools, tool_choice="required", **common).choices[0].message
    call = asked.tool_calls[0]
    assert isinstance(json.loads(call.function.arguments)["city"], str)
    talk += [asked.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "31 degrees"}]
    end = litellm.completion(messages=talk, tools=tools, **common).choices[0].message
    assert end.content
    assert not end.tool_calls


if __name__ == "__main__":
    checks(sys.argv[1])
