"""What /metrics says in the engines' own words, and how large a page of many workers is."""

from __future__ import annotations

import gzip
import re
import urllib.request
from pathlib import Path

import pytest
from livetools import get, make_model, post, records, until
from test_live import PROMPT, Workers, answer, generate, workers

SGLANG = ("--engine-type", "sglang", "--sglang-page-size", "16")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


def labels(w: Workers, name: str) -> dict[str, str]:
    """The labels of the only sample of that name."""
    (found,) = re.findall(rf"^{name}{{(.*)}} ", get(w.status + "/metrics")[1], re.MULTILINE)
    return dict(re.findall(r'(\w+)="([^"]*)"', found))


@pytest.mark.parametrize("caching", [True, False])
def test_tokens_of_vllm(tmp_path: Path, model: str, caching: bool) -> None:
    switch = f"--{'' if caching else 'no-'}enable-prefix-caching"
    with workers(tmp_path, "--model-path", model, "--block-size", "16", switch) as w:
        for _ in range(2):
            answer(post(w.url(), generate(5))[1])
        w.until_metric("vllm:generation_tokens_total", 10)
        w.until_metric("vllm:prompt_tokens_total", 2 * len(PROMPT))
        w.until_metric("vllm:prefix_cache_queries_total", 2 * len(PROMPT) * caching)
        w.until_metric("vllm:prefix_cache_hits_total", 32 * caching)  # two blocks of the second prompt
        config = labels(w, "vllm:cache_config_info")
        assert (config["block_size"], config["num_gpu_blocks"]) == ("16", "16384")
        assert config["enable_prefix_caching"] == str(caching)
        w.until_metric("vllm:cache_config_info", 1)


def test_tokens_of_sglang(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, *SGLANG) as w:
        for _ in range(2):
            answer(post(w.url(), generate(5))[1])
        w.until_metric("sglang:generation_tokens_total", 10)
        w.until_metric("sglang:prompt_tokens_total", 2 * len(PROMPT))
        w.until_metric("sglang:cached_tokens_total", 32)
        assert labels(w, "sglang:cached_tokens_total")["cache_source"] == "device"
        config = labels(w, "sglang:cache_config_info")
        assert (config["page_size"], config["num_pages"]) == ("16", "16384")
        w.until_metric("sglang:page_size", 16)
        w.until_metric("sglang:num_pages", 16384)
        w.until_metric("sglang:max_total_num_tokens", 16 * 16384)


def test_prefill_workers_count_tokens(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, "--disaggregation-mode", "prefill") as w:
        answer(post(w.url(), generate(5))[1])
        w.until_metric("vllm:prompt_tokens_total", len(PROMPT))
        w.until_metric("vllm:generation_tokens_total", 1)


def instances(w: Workers, count: int) -> list[str]:
    """The addresses of all workers, of which there are so many."""

    def there() -> list[str] | None:
        found = [r["transport"]["http"] for r in records(w.root) if r["endpoint"] == "generate"]
        return found if len(found) == count else None

    return until(there)


@pytest.mark.parametrize("engine", [(), SGLANG], ids=["vllm", "sglang"])
def test_histograms_of_many_workers_are_those_of_the_model(tmp_path: Path, model: str, engine: tuple[str, ...]) -> None:
    standard = ("--model-path", model, "--model-name", "tiny", "--num-workers", "3", *engine)
    prefix = "sglang:" if engine else "vllm:"
    with workers(tmp_path, *standard, "--max-worker-histograms", "2") as w:
        for url in instances(w, 3):
            answer(post(url, generate(5))[1])
        text = get(w.status + "/metrics")[1]
        assert not [line for line in text.splitlines() if "_bucket{" in line and "worker_id" in line]
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
            w.until_metric(f"{prefix}{name}_count", 3)
            assert labels(w, f"{prefix}{name}_count").keys() & {"worker_id", "dp_rank"} == set()
        assert "dynamo_component_errors_total{" not in text
        endpoints = set(re.findall(r'dynamo_endpoint="(\w+)"', text))
        assert endpoints == {"generate", "worker_kv_indexer_query_dp0", "worker_kv_query_source_dp0"}
        # Whatever a worker adds to the page: 1,000 of them stay below 5.6 MB, even with a model name of 80 letters.
        lines = [line for line in text.splitlines() if "worker_id=" in line]
        longest = sum(len(line) + 1 + (80 if "model_name=" in line else 0) for line in lines)
        assert longest / 3 < 5600
        running = [line for line in lines if line.startswith(("vllm:num_requests_running", "sglang:num_running_reqs"))]
        assert len(running) == 3


def test_histograms_of_ranks_count(tmp_path: Path, model: str) -> None:
    ranks = ("--num-workers", "2", "--data-parallel-size", "2")
    for most, each in [("4", True), ("3", False)]:
        folder = tmp_path / most
        folder.mkdir()
        with workers(folder, "--model-path", model, *ranks, "--max-worker-histograms", most) as w:
            text = get(w.status + "/metrics")[1]
            assert len(re.findall(r"^vllm:e2e_request_latency_seconds_count", text, re.MULTILINE)) == (4 if each else 2)
            assert ("dynamo_component_errors_total{" in text) == each


def test_pages_are_compressed_when_asked_for(tmp_path: Path, model: str) -> None:
    with workers(tmp_path, "--model-path", model, "--num-workers", "20") as w:
        request = urllib.request.Request(w.status + "/metrics", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            packed = response.read()
        plain = get(w.status + "/metrics")[1]
        assert len(packed) * 10 < len(plain)
        assert "vllm:num_requests_running" in gzip.decompress(packed).decode()
