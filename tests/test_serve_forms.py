"""Structured outputs as the official client package ``openai`` sees them, checked by another validator."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import jsonschema
import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel, Field
from servetools import FAST, MODEL, serving

HELLO: list[Any] = [{"role": "user", "content": "Where does the sun shine?"}]
TINY = Path(__file__).parents[1] / "examples" / "models" / "tiny"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    with serving(tmp_path_factory.mktemp("forms"), *FAST) as s, client_of(s.url) as c:
        yield c


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """The same with a tokenizer whose tokens have several bytes."""
    model = ("--model-path", str(TINY), "--model-name", MODEL)
    with serving(tmp_path_factory.mktemp("tiny"), *FAST, *model) as s, client_of(s.url) as c:
        yield c


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=url + "/v1", api_key="any", max_retries=0, timeout=300)


class Sky(enum.Enum):
    CLEAR = "clear"
    CLOUDY = "cloudy"


class Place(BaseModel):
    city: str
    country: str | None
    population: int = Field(ge=0, le=40_000_000)


class Report(BaseModel):
    place: Place
    sky: Sky
    kind: Literal["daily", "weekly"]
    temperatures: list[float] = Field(min_length=1, max_length=7)
    notes: list[str]
    next: Report | None


def valid(text: str, schema: dict[str, Any]) -> None:
    value = json.loads(text)
    checker = jsonschema.validators.validator_for(schema)
    checker(schema, format_checker=checker.FORMAT_CHECKER).validate(value)


def ask(client: OpenAI, **options: Any) -> Any:
    return client.chat.completions.create(**{"model": MODEL, "messages": HELLO, "max_tokens": 200, **options})


@pytest.mark.parametrize("seed", range(5))
def test_parse(client: OpenAI, seed: int) -> None:
    answer = client.chat.completions.parse(
        model=MODEL, messages=HELLO, response_format=Report, seed=seed, max_tokens=400
    )
    assert isinstance(answer.choices[0].message.parsed, Report)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage
    assert answer.usage.completion_tokens == 400


def test_parse_without_a_limit(tiny: OpenAI) -> None:
    answer = tiny.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Report)
    assert answer.choices[0].message.parsed


def test_streamed_parse(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=HELLO, response_format=Place, seed=1, max_tokens=100
    ) as stream:
        parts = [event.delta for event in stream if event.type == "content.delta"]
        whole = stream.get_final_completion()
    assert whole.choices[0].message.parsed == Place.model_validate_json("".join(parts))


def test_parsed_response(client: OpenAI) -> None:
    answer = client.responses.parse(model=MODEL, input="Where?", text_format=Place, max_output_tokens=100)
    assert answer.output_parsed
    assert answer.output_parsed.city


def test_any_object(client: OpenAI) -> None:
    texts = {ask(client, response_format={"type": "json_object"}, seed=s).choices[0].message.content for s in range(5)}
    assert len(texts) == 5
    assert all(isinstance(json.loads(text), dict) for text in texts)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": "integer", "minimum": -5, "multipleOf": 3}, "minItems": 3, "uniqueItems": True},
    {"type": "string", "pattern": r"^\d{3}-[A-F]+$", "maxLength": 40},
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"leaf": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}},
        "type": "object",
        "patternProperties": {"^n_": {"$ref": "#/definitions/leaf"}},
        "required": ["n_1", "n_2"],
    },
    {"oneOf": [{"type": "integer", "exclusiveMinimum": 7}, {"type": "string", "minLength": 3}, {"type": "null"}]},
    {
        "allOf": [
            {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}, "required": ["at"]},
            {"properties": {"mail": {"type": "string", "format": "email"}}, "required": ["mail"]},
        ],
        "not": {"required": ["other"]},
    },
    {"type": "object", "additionalProperties": {"enum": ["ä", 2, None, [1, {"b": True}]]}, "minProperties": 2},
    {"type": "array", "prefixItems": [{"const": "first"}, {"type": "number"}], "items": False, "minItems": 2},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("seed", range(4))
def test_schemas(client: OpenAI, tiny: OpenAI, schema: dict[str, Any], seed: int) -> None:
    for c in (client, tiny):
        described = {"type": "json_schema", "json_schema": {"name": "any", "schema": schema}}
        choice = ask(c, response_format=described, seed=seed).choices[0]
        valid(choice.message.content, schema)
        assert choice.finish_reason == "stop"
        extra = {"structured_outputs": {"json": schema}}
        completion = c.completions.create(model=MODEL, prompt="x", max_tokens=200, seed=seed, extra_body=extra)
        valid(completion.choices[0].text, schema)


PATTERN = r"[a-f0-9]{8}(-\w+)*"


@pytest.mark.parametrize("extra", [{"structured_outputs": {"regex": PATTERN}}, {"guided_regex": PATTERN}])
def test_regular_expressions(client: OpenAI, extra: dict[str, Any]) -> None:
    answer = ask(client, extra_body=extra)
    assert re.fullmatch(PATTERN, answer.choices[0].message.content)
    assert answer.usage.completion_tokens == 200


@pytest.mark.parametrize("extra", [{"structured_outputs": {"choice": ["yes", "no"]}}, {"guided_choice": ["yes", "no"]}])
def test_choices(client: OpenAI, extra: dict[str, Any]) -> None:
    said = {ask(client, extra_body=extra, seed=seed).choices[0].message.content for seed in range(12)}
    assert said == {"yes", "no"}


def test_number_of_tokens(tiny: OpenAI) -> None:
    """With a real tokenizer the text has nearly as many tokens as are asked for, never more."""
    schema = {"type": "object", "properties": {"story": {"type": "string"}}, "required": ["story"]}
    described = {"type": "json_schema", "json_schema": {"name": "story", "schema": schema}}
    for most in (40, 150, 400):
        answer = ask(tiny, response_format=described, max_tokens=most)
        assert 0.9 * most <= answer.usage.completion_tokens <= most
        assert answer.choices[0].finish_reason == "stop"


def test_an_object_that_has_no_room(client: OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Report, max_tokens=20)


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"structured_outputs": {"json": {"type": "objekt"}}}, "structured_outputs.json"),
        ({"structured_outputs": {"grammar": 'root ::= "a"'}}, "structured_outputs.grammar"),
        ({"guided_grammar": 'root ::= "a"'}, "guided_grammar"),
        ({"guided_regex": "("}, "guided_regex"),
    ],
)
def test_what_is_refused(client: OpenAI, extra: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, extra_body=extra)
    assert error.value.param == param
    assert param in str(error.value)
