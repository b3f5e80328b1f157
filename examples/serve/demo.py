"""Starts an OpenAI-compatible server with simulated engines, and shows what it does and how to point clients at it."""

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

COMMAND = [sys.executable, "-m", "dynamo.mocker", "--standalone", "--num-workers", "2", "--router-mode", "kv"]
SHOWN = ("vllm:num_requests_", "vllm:kv_cache_usage_perc", "vllm:prefix_cache_", "vllm:generation_tokens_total")


@contextmanager
def server():
    """The URL of a server that runs until the end of the block."""
    process = subprocess.Popen([*COMMAND, "--http-port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if "url=" in line:
                yield line.split("url=")[1].split()[0]
                break
        else:
            sys.exit(process.wait() or 1)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def post(url, **body):
    """The answer to a request, line by line."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=60)


def main():
    """Shows what the server does."""
    with server() as url:
        print(f"$ python -m dynamo.mocker --standalone --num-workers 2 --router-mode kv\nserving at {url}\n")
        question = {"role": "user", "content": "What does a token cost? " * 20}
        for turn in ("first request", "the same again: most of its prompt is in the cache"):
            print(f"POST /v1/chat/completions, streamed; {turn}:")
            options = {"max_tokens": 60, "stream": True, "stream_options": {"include_usage": True}}
            with post(f"{url}/v1/chat/completions", messages=[question], **options) as answer:
                for line in answer:
                    data = line.decode().removeprefix("data: ").strip()
                    if not data.startswith("{"):
                        continue
                    part = json.loads(data)
                    for choice in part["choices"]:
                        print(choice["delta"].get("content", ""), end="", flush=True)
                    if part.get("usage"):
                        print(f"\nusage: {part['usage']}\n")
        print("GET /metrics:")
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as page:
            for line in page.read().decode().splitlines():
                if line.startswith(SHOWN):
                    print(line)
        print(f"""
Point the openai package at it, here at the port that it has by default:

    from openai import OpenAI

    client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="any")
    answer = client.chat.completions.create(
        model="builtin:bytes", messages=[{{"role": "user", "content": "Hello"}}], max_tokens=20
    )
    print(answer.choices[0].message.content)

docs/serve.md has all options. The server of this demonstration, {url}, ends now.""")


if __name__ == "__main__":
    main()
