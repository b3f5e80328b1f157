# pip: llama-index-llms-openai-like
"""llama-index: a chat, a stream, and an object by a function call."""

import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

MODEL = "builtin:bytes"


class City(BaseModel):
    """What is asked for."""

    name: str
    people: int


def checks(url: str) -> None:
    model = OpenAILike(
        model=MODEL,
        api_base=url + "/v1",
        api_key="any",
        is_chat_model=True,
        is_function_calling_model=True,
        max_tokens=300,
    )
    talk = [ChatMessage(role="user", content="Which city?")]
    assert model.chat(talk).message.content
    assert "".join(part.delta or "" for part in model.stream_chat(talk))
    assert isinstance(model.as_structured_llm(City).chat(talk).raw, City)


if __name__ == "__main__":
    checks(sys.argv[1])
