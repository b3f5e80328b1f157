# pip: instructor
"""instructor: objects in the modes TOOLS, JSON and JSON_SCHEMA, and lists of them."""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel

MODEL = "builtin:bytes"


class Address(BaseModel):
    """A part of what is asked for."""

    street: str
    number: int


class Person(BaseModel):
    """What is asked for."""

    name: str
    age: int
    addresses: list[Address]


def checks(url: str) -> None:
    plain = OpenAI(base_url=url + "/v1", api_key="any")
    messages = [{"role": "user", "content": "Who is it?"}]
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(plain, mode=mode)
        found = client.chat.completions.create(
            model=MODEL, messages=messages, response_model=Person, max_retries=1, max_tokens=600
        )
        assert isinstance(found, Person), mode


if __name__ == "__main__":
    checks(sys.argv[1])
