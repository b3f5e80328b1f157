# pip: langchain-openai langchain
"""langchain: structured output by all methods, a stream, and an agent with a tool."""

import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

MODEL = "builtin:bytes"


class City(BaseModel):
    """What is asked for."""

    name: str
    people: int


@tool
def weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"warm in {city}"


def checks(url: str) -> None:
    model = ChatOpenAI(model=MODEL, base_url=url + "/v1", api_key="any", max_tokens=300)
    for method in ("json_schema", "function_calling"):
        assert isinstance(model.with_structured_output(City, method=method).invoke("Which city?"), City), method
    assert "".join(part.content for part in model.stream("Hello"))
    talk = [HumanMessage("Is it warm in Rome?")]
    asked = model.bind_tools([weather], tool_choice="required").invoke(talk)
    call = asked.tool_calls[0]
    talk += [asked, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
    end = model.bind_tools([weather]).invoke(talk)
    assert end.content
    assert not end.tool_calls


if __name__ == "__main__":
    checks(sys.argv[1])
