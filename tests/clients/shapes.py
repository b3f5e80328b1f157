# pip: aiohttp
"""What vllm bench serve and lm-eval send, and what they read of the answers."""

import asyncio
import json
import math
import sys
from typing import Any

import aiohttp

MODEL = "builtin:bytes"


async def bench_serve(session: aiohttp.ClientSession, url: str) -> None:
    """The backends openai, openai-chat and openai-embeddings of vllm bench serve: streams whose usage is counted."""
    common = {"model": MODEL, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.0}
    completion = common | {
        "prompt": "x " * 64,
        "max_tokens": 16,
        "logprobs": None,
        "ignore_eos": True,
        "repetition_penalty": 1.0,
    }
    content = [{"type": "text", "text": "x " * 64}]
    chat = common | {
        "messages": [{"role": "user", "content": content}],
        "max_completion_tokens": 16,
        "ignore_eos": True,
    }
    for path, body in (("/v1/completions", completion), ("/v1/chat/completions", chat)):
        texts, usage, done = 0, {}, False
        headers = {"Authorization": "Bearer any", "x-request-id": "bench-0"}
        async with session.post(url + path, json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                data = line.decode().strip().removeprefix("data: ")
                if not data or data.startswith(":"):
                    continue
                if data == "[DONE]":
                    done = True
                    continue
                part = json.loads(data)
                if part.get("choices"):
                    choice = part["choices"][0]
                    texts += bool(choice.get("text") or choice.get("delta", {}).get("content"))
                elif part.get("usage"):
                    usage = part["usage"]
        assert done
        assert texts >= 1
        assert usage["completion_tokens"] == 16, usage
    async with session.post(
        url + "/v1/embeddings", json={"model": MODEL, "input": "x", "encoding_format": "float"}
    ) as answer:
        found = await answer.json()
        assert found["usage"]["prompt_tokens"] > 0
        assert abs(math.fsum(x * x for x in found["data"][0]["embedding"]) - 1) < 1e-6


async def lm_eval(session: aiohttp.ClientSession, url: str) -> None:
    """The model local-completions of lm-eval: likelihoods of prompts by echo, of tokens and of texts, and answers."""
    async with session.post(url + "/tokenize", json={"model": MODEL, "prompt": "The sky is blue"}) as answer:
        tokens = (await answer.json())["tokens"]
    for prompts in ([tokens, tokens[:5]], ["The sky is blue", "The"]):
        body: dict[str, Any] = {
            "prompt": prompts,
            "model": MODEL,
            "max_tokens": 1,
            "logprobs": 1,
            "seed": 1234,
            "echo": True,
        }
        async with session.post(url + "/v1/completions", json=body) as answer:
            found = await answer.json()
        assert [choice["index"] for choice in found["choices"]] == [0, 1]
        for choice in found["choices"]:
            probabilities = choice["logprobs"]
            assert probabilities["token_logprobs"][0] is None
            scored, best = probabilities["token_logprobs"][1:-1], probabilities["top_logprobs"][1:-1]
            assert len(scored) >= 2
            for token, top in zip(scored, best, strict=True):
                assert token <= 0
                assert max(top.values()) >= token
    until = {"prompt": ["Q: x"], "model": MODEL, "max_tokens": 32, "temperature": 0.0, "stop": ["\n\n"], "seed": 1234}
    async with session.post(url + "/v1/completions", json=until) as answer:
        assert (await answer.json())["choices"][0]["text"]
    chat = {
        "messages": [{"role": "user", "content": "Q: x"}],
        "model": MODEL,
        "max_tokens": 32,
        "temperature": 0.0,
        "seed": 1234,
    }
    async with session.post(url + "/v1/chat/completions", json=chat | {"stop": ["\n\n", "Q:"]}) as answer:
        assert (await answer.json())["choices"][0]["message"]["content"]


async def checks(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        await bench_serve(session, url)
        await lm_eval(session, url)


if __name__ == "__main__":
    asyncio.run(checks(sys.argv[1]))
