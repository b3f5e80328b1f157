"""Tool calls as the official client package ``openai`` sees them: agents whose loops end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel, Field
from servetools import FAST, MODEL, serving

HELLO: list[Any] = [{"role": "user", "content": "Is it warm in Rome?"}]


class Weather(BaseModel):
    """Tells the weather."""

    city: str
    days: int = Field(ge=1, le=7)


class Now(BaseModel):
    """Tells the time."""


TOOLS: list[Any] = [pydantic_function_tool(Weather, name="weather"), pydantic_function_tool(Now, name="now")]
NAMED: Any = {"type": "function", "function": {"name": "weather"}}


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=url + "/v1", api_key="any", max_retries=0, timeout=300)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    with serving(tmp_path_factory.mktemp("tools"), *FAST, "--max-parallel-tool-calls", "3") as s, client_of(s.url) as c:
        yield c


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A model that calls a tool whenever it may."""
    with serving(tmp_path_factory.mktemp("eager"), *FAST, "--tool-call-probability", "1") as s, client_of(s.url) as c:
        yield c


def ask(client: OpenAI, messages: Any = HELLO, **options: Any) -> Any:
    return client.chat.completions.create(
        **{"model": MODEL, "messages": messages, "tools": TOOLS, "max_tokens": 300, **options}
    )


def checked(calls: Any) -> list[str]:
    """The names of calls, whose arguments are looked at."""
    for call in calls:
        {"weather": Weather, "now": Now}[call.function.name].model_validate_json(call.function.arguments)
    return [call.function.name for call in calls]


def test_required(client: OpenAI) -> None:
    counts, names = set(), set()
    for seed in range(12):
        choice = ask(client, tool_choice="required", seed=seed).choices[0]
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        called = checked(choice.message.tool_calls)
        counts.add(len(called))
        names |= set(called)
        (only,) = (
            ask(client, tool_choice="required", seed=seed, parallel_tool_calls=False).choices[0].message.tool_calls
        )
        checked([only])
    assert (counts, names) == ({1, 2, 3}, {"weather", "now"})


def test_named(client: OpenAI) -> None:
    answer = ask(client, tool_choice=NAMED)
    assert checked(answer.choices[0].message.tool_calls) == ["weather"]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 300


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_stream(client: OpenAI, choice: Any) -> None:
    for seed in range(5):
        whole = ask(client, tool_choice=choice, seed=seed).choices[0].message.tool_calls
        options = {"model": MODEL, "messages": HELLO, "tools": TOOLS, "max_tokens": 300}
        with client.chat.completions.stream(**options, tool_choice=choice, seed=seed) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion().choices[0].message.tool_calls
        assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
        assert final
        assert [(c.function.name, c.function.arguments) for c in final] == [
            (c.function.name, c.function.arguments) for c in whole
        ]
        assert all(isinstance(c.function.parsed_arguments, Weather | Now) for c in final)


def test_an_agent_ends(eager: OpenAI) -> None:
    messages, reasons = list(HELLO), [""]
    while reasons[-1] != "stop" and len(reasons) < 5:
        choice = ask(eager, messages, max_tokens=None).choices[0]
        reasons.append(choice.finish_reason)
        messages.append(choice.message)
        for call in choice.message.tool_calls or []:
            checked([call])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "31"})
    assert reasons[1:] == ["tool_calls", "stop"]
    assert messages[-1].content


def test_an_agent_of_responses_ends(eager: OpenAI) -> None:
    tools: list[Any] = [{"type": "function", "name": "weather", "parameters": Weather.model_json_schema()}]
    items: list[Any] = list(HELLO)
    first = eager.responses.create(model=MODEL, input=items, tools=tools, max_output_tokens=200)
    (call,) = first.output
    assert call.type == "function_call"
    assert Weather.model_validate_json(call.arguments)
    items += [call, {"type": "function_call_output", "call_id": call.call_id, "output": "31 degrees"}]
    assert eager.responses.create(model=MODEL, input=items, tools=tools).output_text


def test_streamed_response(client: OpenAI) -> None:
    tool = openai.pydantic_function_tool(Weather, name="weather")["function"]
    tools: list[Any] = [{"type": "function", **tool}]
    options: dict[str, Any] = {"model": MODEL, "input": HELLO, "tools": tools, "tool_choice": "required"}
    for seed in range(5):
        with client.responses.stream(**options, max_output_tokens=300, extra_body={"seed": seed}) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_response()
        assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= kinds
        assert {item.type for item in final.output} == {"function_call"}
        assert all(Weather.model_validate_json(item.arguments) for item in final.output if item.type == "function_call")


def test_recorded_session(tmp_path: Path) -> None:
    call = {"name": "weather", "arguments": {"city": "Rome", "days": 2}}
    rows = [{"prompt": "Is it", "tool_calls": [call, call]}, {"prompt": "31", "response": "Yes, it is warm."}]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mode = ("--response-mode", "recorded", "--response-file", str(file))
    with serving(tmp_path, *FAST, *mode) as s, client_of(s.url) as c:
        first = ask(c).choices[0]
        assert [json.loads(call.function.arguments) for call in first.message.tool_calls] == [call["arguments"]] * 2
        results = [{"role": "tool", "tool_call_id": c.id, "content": "31"} for c in first.message.tool_calls]
        assert ask(c, [*HELLO, first.message, *results]).choices[0].message.content == "Yes, it is warm."


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"tool_choice": "required", "tools": openai.omit}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "rain"}}}, "tool_choice"),
        (
            {
                "tool_choice": "required",
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "objekt"}}}],
            },
            "tools.0.function.parameters",
        ),
    ],
)
def test_what_is_refused(client: OpenAI, options: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, **options)
    assert error.value.param == param
