"""The OpenAI-compatible server as the official client package ``openai`` sees it."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from livetools import until
from openai import AsyncOpenAI, DefaultHttpxClient, OpenAI
from servetools import FAST, MODEL, SLOW, Server, serving

HELLO: list[Any] = [{"role": "user", "content": "Hello, what is a token?"}]
SCRIPTS = "naïve Ωμέγα Привет مرحبا שלום नमस्ते 你好 こんにちは 안녕 สวัสดี 👩‍🚀 🇪🇺"


def client_of(server: Server, **options: Any) -> OpenAI:
    return OpenAI(**{"base_url": server.url + "/v1", "api_key": "any", "max_retries": 0, "timeout": 300, **options})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers behind the router that looks for cached prefixes, with two adapters."""
    arguments = ("--num-workers", "2", "--router-mode", "kv", "--block-size", "16", "--lora-modules", "sql,poems")
    with serving(tmp_path_factory.mktemp("server"), *FAST, *arguments, "--max-model-len", "4096") as s:
        yield s


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    with client_of(server) as c:
        yield c


@pytest.fixture(scope="module")
def echoing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that says what it is told."""
    with serving(tmp_path_factory.mktemp("echo"), *FAST, "--response-mode", "echo") as s:
        yield s


@pytest.fixture(scope="module")
def echo(echoing: Server) -> Iterator[OpenAI]:
    with client_of(echoing) as c:
        yield c


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose answers are never complete while a test runs."""
    with serving(tmp_path_factory.mktemp("slow"), *SLOW, "--max-queue", "1", "--max-num-seqs", "1") as s:
        yield s


def chat(client: OpenAI, messages: Any = HELLO, **options: Any) -> Any:
    return client.chat.completions.create(**{"model": MODEL, "messages": messages, "max_tokens": 20, **options})


def complete(client: OpenAI, prompt: Any = "Once upon a time", **options: Any) -> Any:
    return client.completions.create(**{"model": MODEL, "prompt": prompt, "max_tokens": 20, **options})


def joined(stream: Any) -> str:
    return "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)


# Chats.


def test_chat(client: OpenAI) -> None:
    answer = chat(client)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == MODEL
    (choice,) = answer.choices
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "length", "assistant")
    assert choice.message.content
    assert choice.message.refusal is None
    assert not choice.message.tool_calls


def test_usage_adds_up(client: OpenAI) -> None:
    usage = chat(client, max_tokens=33).usage
    assert usage.completion_tokens == 33
    assert usage.prompt_tokens > len(HELLO[0]["content"])
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_streamed_chat_says_the_same(client: OpenAI) -> None:
    assert joined(chat(client, seed=4, stream=True)) == chat(client, seed=4).choices[0].message.content


def test_parts_of_a_stream(client: OpenAI) -> None:
    chunks = list(chat(client, stream=True))
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert (set(reasons[:-1]), reasons[-1]) == ({None}, "length")
    assert all(chunk.usage is None for chunk in chunks)


def test_stream_with_usage(client: OpenAI) -> None:
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 20


def test_stream_with_running_usage(client: OpenAI) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    counts = [chunk.usage.completion_tokens for chunk in chat(client, stream=True, stream_options=options)]
    assert counts == sorted(counts)
    assert counts[-1] == 20


def test_several_answers(client: OpenAI) -> None:
    answer = chat(client, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 3
    assert answer.usage.completion_tokens == 60


def test_several_streamed_answers(client: OpenAI) -> None:
    texts = ["", "", ""]
    for chunk in chat(client, n=3, stream=True, seed=9):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in chat(client, n=3, seed=9).choices]


def test_helper_that_puts_streams_together(client: OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=HELLO, seed=5) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_completion()  # an error unless the answer has stopped by itself
    assert {"chunk", "content.delta", "content.done"} <= set(kinds)
    assert whole.choices[0].message.content == chat(client, seed=5, max_tokens=None).choices[0].message.content


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"max_tokens": 7}, 7),
        ({"max_tokens": None, "max_completion_tokens": 9}, 9),
        ({"max_tokens": 50, "max_completion_tokens": 9}, 9),
        ({"max_tokens": None}, 16),
    ],
)
def test_number_of_tokens(client: OpenAI, options: dict[str, Any], count: int) -> None:
    assert chat(client, **options).usage.completion_tokens == count


def test_an_answer_of_standard_length_stops_by_itself(client: OpenAI) -> None:
    assert chat(client, max_tokens=None).choices[0].finish_reason == "stop"


def test_seeds(client: OpenAI) -> None:
    texts = [chat(client, seed=seed, max_tokens=50).choices[0].message.content for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_instructions_and_earlier_turns_are_part_of_the_prompt(client: OpenAI) -> None:
    short = chat(client).usage.prompt_tokens
    turns = [{"role": "system", "content": "Be kind."}, *HELLO, {"role": "assistant", "content": "A unit."}, *HELLO]
    assert chat(client, turns).usage.prompt_tokens > 2 * short


def test_parts_of_text(client: OpenAI) -> None:
    parts = [{"type": "text", "text": "Hello, what"}, {"type": "text", "text": " is a token?"}]
    assert chat(client, [{"role": "user", "content": parts}]).usage.prompt_tokens == chat(client).usage.prompt_tokens


def test_tools_may_be_given(client: OpenAI) -> None:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
    (choice,) = chat(client, tools=tools, tool_choice="auto").choices
    assert choice.message.content
    assert not choice.message.tool_calls


def test_cached_tokens(client: OpenAI) -> None:
    long = [{"role": "user", "content": "The same long question, asked twice. " * 20}]
    counts = [chat(client, long).usage.prompt_tokens_details.cached_tokens for _ in range(2)]
    assert counts[0] == 0
    assert 600 < counts[1] < chat(client, long).usage.prompt_tokens
    assert counts[1] % 16 == 0


def test_salts_have_caches_of_their_own(client: OpenAI) -> None:
    long = [{"role": "user", "content": "A question that one tenant asks. " * 20}]
    for salt in ("a", "b"):
        usage = chat(client, long, extra_body={"cache_salt": salt}).usage
        assert usage.prompt_tokens_details.cached_tokens == 0
    assert chat(client, long, extra_body={"cache_salt": "a"}).usage.prompt_tokens_details.cached_tokens > 0


def test_request_ids_come_back(client: OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=HELLO, max_tokens=2, extra_headers={"X-Request-Id": "my-request-7"}
    )
    assert raw.headers["x-request-id"] == "my-request-7"
    assert raw.parse()._request_id == "my-request-7"


def test_each_answer_has_an_id(client: OpenAI) -> None:
    assert len({answer for _ in range(5) for answer in (chat(client).id, chat(client)._request_id)}) == 10


# What is said.


def test_every_script_comes_back(echo: OpenAI) -> None:
    messages = [{"role": "user", "content": SCRIPTS}]
    assert chat(echo, messages, max_tokens=None).choices[0].message.content == SCRIPTS


def test_no_character_is_broken_in_a_stream(echo: OpenAI) -> None:
    chunks = list(chat(echo, [{"role": "user", "content": SCRIPTS}], max_tokens=None, stream=True))
    assert joined(chunks) == SCRIPTS
    assert "\N{REPLACEMENT CHARACTER}" not in joined(chunks)


def test_an_answer_that_is_cut_off(echo: OpenAI) -> None:
    (choice,) = chat(echo, [{"role": "user", "content": "abcdefgh"}], max_tokens=3).choices
    assert (choice.message.content, choice.finish_reason) == ("abc", "length")


@pytest.mark.parametrize("stop", ["three", ["nothing", "three", "five"]])
@pytest.mark.parametrize("stream", [False, True])
def test_stop_sequences(echo: OpenAI, stop: Any, stream: bool) -> None:
    answer = complete(echo, "one two three four five", stop=stop, stream=stream, max_tokens=100)
    parts = list(answer) if stream else [answer]
    assert "".join(part.choices[0].text for part in parts) == "one two "
    assert parts[-1].choices[0].finish_reason == "stop"
    assert parts[-1].choices[0].stop_reason == "three"


def test_fewest_tokens_come_before_stops(echo: OpenAI) -> None:
    answer = complete(echo, "a stop b stop c", stop="stop", max_tokens=100, extra_body={"min_tokens": 8})
    assert answer.choices[0].text == "a stop b "


def test_ends_may_be_ignored(echo: OpenAI) -> None:
    answer = complete(echo, "abc", max_tokens=8, extra_body={"ignore_eos": True})
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 8)


def test_recorded_answers(tmp_path: Path) -> None:
    recording = tmp_path / "answers.jsonl"
    recording.write_text(json.dumps({"prompt": "What is 6 times 7", "response": '{"answer": 42}'}) + "\n")
    with serving(tmp_path, *FAST, "--response-mode", "recorded", "--response-file", str(recording)) as s:
        messages = [{"role": "user", "content": "What is 6 times 7, please?"}]
        answer = chat(client_of(s), messages, max_tokens=None, response_format={"type": "json_object"})
        assert json.loads(answer.choices[0].message.content) == {"answer": 42}
        assert chat(client_of(s), HELLO).choices[0].message.content


def test_reasoning(tmp_path: Path) -> None:
    marks = {"start_thinking_token_id": 60, "end_thinking_token_id": 62, "thinking_ratio": 0.5}
    with serving(tmp_path, *FAST, "--reasoning", json.dumps(marks)) as s:
        answer = chat(client_of(s), max_tokens=40)
        assert answer.choices[0].message.reasoning_content
        assert answer.choices[0].message.content
        assert answer.usage.completion_tokens_details.reasoning_tokens == 20
        deltas = [chunk.choices[0].delta for chunk in chat(client_of(s), max_tokens=40, stream=True)]
        thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        assert thought == answer.choices[0].message.reasoning_content


# Responses.


def test_response(client: OpenAI) -> None:
    answer = client.responses.create(model=MODEL, input="Hello", instructions="Be kind.", max_output_tokens=20)
    assert answer.object == "response"
    assert answer.output_text
    assert answer.usage.output_tokens == 20


def test_streamed_response_says_the_same(client: OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="Hello", max_output_tokens=20, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    whole = client.responses.create(model=MODEL, input="Hello", max_output_tokens=20)
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text


def test_responses_are_not_kept(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        client.responses.create(model=MODEL, input="Hello", previous_response_id="resp_1")


# Completions.


def test_completion(client: OpenAI) -> None:
    answer = complete(client)
    assert (answer.object, answer.model, answer.usage.completion_tokens) == ("text_completion", MODEL, 20)
    assert (answer.choices[0].text != "", answer.choices[0].finish_reason) == (True, "length")


def test_streamed_completion_says_the_same(client: OpenAI) -> None:
    parts = complete(client, stream=True, seed=3)
    assert "".join(part.choices[0].text for part in parts) == complete(client, seed=3).choices[0].text


def test_prompt_of_tokens(client: OpenAI) -> None:
    tokens = list(b"Once upon a time")
    assert complete(client, tokens).usage.prompt_tokens == len(tokens)
    text = complete(client, extra_body={"add_special_tokens": False}, seed=1).choices[0].text
    assert complete(client, tokens, seed=1).choices[0].text == text


@pytest.mark.parametrize("prompts", [["one", "two", "three"], [[111, 110, 101], [116, 119, 111], [116]]])
def test_several_prompts(client: OpenAI, prompts: Any) -> None:
    answer = complete(client, prompts, n=2, extra_body={"add_special_tokens": False})
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert answer.usage.prompt_tokens == sum(len(prompt) for prompt in prompts)
    assert answer.usage.completion_tokens == 120


@pytest.mark.parametrize("stream", [False, True])
def test_echo_of_the_prompt(client: OpenAI, stream: bool) -> None:
    answer = complete(client, echo=True, stream=stream)
    parts = list(answer) if stream else [answer]
    assert "".join(part.choices[0].text for part in parts).startswith("Once upon a time")


# Models and adapters.


def test_models_are_listed(client: OpenAI) -> None:
    models = {model.id: model for model in client.models.list()}
    assert {MODEL, "sql", "poems"} <= set(models)
    assert models["sql"].parent == MODEL
    assert models[MODEL].max_model_len == 4096


def test_one_model(client: OpenAI) -> None:
    assert client.models.retrieve(MODEL).object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


def test_adapters_answer_by_their_names(client: OpenAI) -> None:
    assert chat(client, model="sql").model == "sql"
    assert {chunk.model for chunk in chat(client, model="poems", stream=True)} == {"poems"}


def test_adapters_have_caches_of_their_own(client: OpenAI) -> None:
    long = [{"role": "user", "content": "A question for several adapters. " * 20}]
    for model in (MODEL, "sql", "poems"):
        assert chat(client, long, model=model).usage.prompt_tokens_details.cached_tokens == 0
    assert chat(client, long, model="sql").usage.prompt_tokens_details.cached_tokens > 0


def test_adapters_come_and_go(client: OpenAI) -> None:
    body = {"lora_name": "new", "lora_path": "/adapters/new"}
    client.post("/load_lora_adapter", cast_to=str, body=body)
    with pytest.raises(openai.BadRequestError, match="already"):
        client.post("/load_lora_adapter", cast_to=str, body=body)
    assert chat(client, model="new").model == "new"
    assert client.models.retrieve("new").root == "/adapters/new"
    client.post("/unload_lora_adapter", cast_to=str, body={"lora_name": "new"})
    with pytest.raises(openai.NotFoundError):
        chat(client, model="new")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A client of a server with two models, of which one has a slash in its name."""
    models = [{"model_name": "org/large", "response_mode": "echo"}, {"model_name": "small", "engine_type": "sglang"}]
    folder = tmp_path_factory.mktemp("several")
    with serving(folder, *FAST, "--models", json.dumps(models)) as s, client_of(s) as c:
        yield c


@pytest.mark.parametrize("model", ["org/large", "small"])
def test_several_models(several: OpenAI, model: str) -> None:
    assert several.models.retrieve(model).id == model
    answer = chat(several, model=model)
    assert answer.model == model
    assert (answer.choices[0].message.content == HELLO[0]["content"][:20]) == (model == "org/large")


def test_one_of_several_models_must_be_named(several: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="org/large, small"):
        chat(several, model="")


# Errors.

IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}]


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "no role"}]}, "messages"),
        ({"messages": IMAGE}, "messages.0.content"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"stop": [""]}, "stop"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"extra_body": {"min_tokens": 21}}, "min_tokens"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_chats(client: OpenAI, options: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **options)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    assert param in str(caught.value)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"prompt": [[1, -1]]}, "prompt"),
        ({"prompt": [999999]}, "prompt"),
        ({"logprobs": 21}, "logprobs"),
        ({"best_of": 4}, "best_of"),
        ({"suffix": "the end"}, "suffix"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_completions(client: OpenAI, options: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, **options)
    assert caught.value.param == param


@pytest.mark.parametrize(("words", "most"), [(5000, 20), (10, 4096)])
def test_what_does_not_fit_the_model(client: OpenAI, words: int, most: int) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, "word " * words, max_tokens=most)
    assert caught.value.code == "context_length_exceeded"
    assert "4096" in str(caught.value)


@pytest.mark.parametrize("call", [chat, complete])
def test_unknown_model(client: OpenAI, call: Callable[..., Any]) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        call(client, model="gpt-unknown")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert MODEL in str(caught.value)


def test_unknown_path(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.moderations.create(input="text")


def test_keys(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# of the team\nsecret-2\n")
    with serving(tmp_path, *FAST, "--api-key", "secret-1", "--api-key-file", str(tmp_path / "keys")) as s:
        for key in ("wrong", "secret-", "secret-11"):
            with pytest.raises(openai.AuthenticationError) as caught:
                chat(client_of(s, api_key=key))
            assert caught.value.code == "invalid_api_key"
        for key in ("secret-1", "secret-2"):
            assert chat(client_of(s, api_key=key)).choices


def inject(folder: Path, *faults: dict[str, Any]) -> Any:
    return serving(folder, *FAST, "--inject-errors", json.dumps(faults))


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, openai.InternalServerError), (429, openai.RateLimitError), (403, openai.PermissionDeniedError)],
)
def test_errors_on_purpose(tmp_path: Path, status: int, error: type[openai.APIStatusError]) -> None:
    with inject(tmp_path, {"share": 1, "status": status, "message": "out of luck", "retry_after_s": 3}) as s:
        with pytest.raises(error, match="out of luck") as caught:
            chat(client_of(s))
        assert caught.value.response.headers["retry-after"] == "3"


def test_the_client_tries_again(tmp_path: Path) -> None:
    with inject(tmp_path, {"share": 0.5, "status": 503}) as s:
        with client_of(s, max_retries=30) as c:
            assert all(chat(c).choices for _ in range(5))
        until(lambda: s.metric("dynosim_http_errors_total") > 0)


def test_a_broken_stream(tmp_path: Path) -> None:
    with inject(tmp_path, {"share": 1, "break_after_tokens": 5}) as s:
        with pytest.raises(Exception, match=r"(?i)incomplete|closed|reset|connection"), client_of(s) as c:
            list(chat(c, stream=True, max_tokens=2000))
        s.until_idle()


def test_a_delay(tmp_path: Path) -> None:
    with inject(tmp_path, {"share": 1, "delay_ms": 3_600_000}) as s:
        with pytest.raises(openai.APITimeoutError):
            chat(client_of(s, timeout=1))
        s.until_idle()


# Clients that go away, and many at once.


def test_a_full_queue(slow: Server) -> None:
    async def run() -> None:
        async with AsyncOpenAI(base_url=slow.url + "/v1", api_key="any", max_retries=0, timeout=300) as c:
            calls = [asyncio.create_task(c.completions.create(model=MODEL, prompt="x", max_tokens=2000))]
            await asyncio.to_thread(slow.until_metric, "vllm:num_requests_running", 1)
            calls.append(asyncio.create_task(c.completions.create(model=MODEL, prompt="y", max_tokens=2000)))
            await asyncio.to_thread(slow.until_metric, "vllm:num_requests_waiting", 1)
            with pytest.raises(openai.RateLimitError) as caught:
                await c.completions.create(model=MODEL, prompt="z", max_tokens=2000)
            assert caught.value.code == "rate_limit_exceeded"
            assert int(caught.value.response.headers["retry-after"]) >= 1
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(run())
    slow.until_idle()


def test_closing_a_stream_frees_its_blocks(slow: Server) -> None:
    with client_of(slow) as c:
        stream = chat(c, stream=True, max_tokens=2000)
        assert next(iter(stream)).choices
        until(lambda: slow.metric("vllm:kv_cache_usage_perc") > 0)
        stream.close()
        slow.until_idle()


def test_a_client_that_has_waited_long_enough(slow: Server) -> None:
    with pytest.raises(openai.APITimeoutError):
        chat(client_of(slow, timeout=1), max_tokens=2000)
    slow.until_idle()


def test_a_task_that_is_cancelled(slow: Server) -> None:
    async def run() -> None:
        async with AsyncOpenAI(base_url=slow.url + "/v1", api_key="any", timeout=300) as c:
            call = asyncio.create_task(c.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2000))
            await asyncio.to_thread(slow.until_metric, "vllm:num_requests_running", 1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(run())
    slow.until_idle()


@pytest.mark.parametrize("stream", [False, True])
def test_five_hundred_at_once(echoing: Server, stream: bool) -> None:
    """All get their own answers."""

    async def ask(c: AsyncOpenAI, prompt: str) -> str:
        answer: Any = await c.completions.create(model=MODEL, prompt=prompt, max_tokens=50, stream=stream)
        if not stream:
            return str(answer.choices[0].text)
        return "".join([part.choices[0].text async for part in answer])

    async def run(prompts: list[str]) -> list[str]:
        async with AsyncOpenAI(base_url=echoing.url + "/v1", api_key="any", max_retries=0, timeout=300) as c:
            return list(await asyncio.gather(*(ask(c, prompt) for prompt in prompts)))

    prompts = [f"question {number}" for number in range(500)]
    assert asyncio.run(run(prompts)) == prompts
    echoing.until_idle()


def test_tls(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    files = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with serving(tmp_path, *FAST, *files) as s:
        assert s.url.startswith("https://")
        with DefaultHttpxClient(verify=context_for(tmp_path / "cert.pem")) as trusting:
            assert joined(chat(client_of(s, http_client=trusting), stream=True))
        with pytest.raises(openai.APIConnectionError):
            chat(client_of(s))


def make_certificate(folder: Path) -> None:
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*words.split(), *names], cwd=folder, check=True, capture_output=True)


def context_for(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))
