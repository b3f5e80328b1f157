"""How a measured row becomes a replay: a test per rule."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dynamo.calibrate import targets
from dynamo.validate import campaigns, mapping
from dynamo.validate.checkpoints import checkpoint
from dynamo.validate.mapping import Rules, replay_of
from dynamo.validate.measurement import ClosedLoop, Measurement, Parallelism, Recorded, Refusal, Requests

ROW = Measurement(
    id="row",
    source="inferencex",
    file="table.csv",
    engine="vllm",
    version="0.18.0",
    model="MiniMaxAI/MiniMax-M2.5",
    system="h200_sxm",
    precision="fp8",
    parallelism=Parallelism(4, 1, 4, 1),
    concurrency=32,
    isl=1024,
    osl=8192,
)
QWEN: dict[str, Any] = {"engine": "sglang", "version": "0.5.9", "model": "Qwen/Qwen3.5-397B-A17B"}
DEEPSEEK: dict[str, Any] = {**QWEN, "model": "deepseek-ai/DeepSeek-V3"}
GLM: dict[str, Any] = {**QWEN, "model": "zhipuai/GLM-5"}


WORKERS = {"prefill_num_workers": "1", "decode_num_workers": "3"}


def row(**changes: Any) -> Measurement:
    return dataclasses.replace(ROW, **changes)


@pytest.mark.parametrize(
    ("changes", "stated", "ran"),
    [
        ({}, (64, 1, 8, 8), (8, 1, 1, 8)),
        ({}, (16, 1, 4, 4), (4, 1, 1, 4)),
        ({}, (4, 1, 2, 2), (4, 1, 2, 2)),
        ({}, (4, 4, 1, 16), (1, 4, 1, 4)),
        ({}, (2, 2, 1, 4), (1, 2, 1, 2)),
        ({"system": "h100_sxm"}, (4, 4, 1, 16), (4, 1, 1, 4)),
        ({"model": "moonshotai/Kimi-K2.5", "precision": "fp4"}, (4, 1, 1, 16), (4, 1, 1, 4)),
        ({"source": "gap"}, (4, 1, 4, 2), (4, 2, 4, 2)),
        ({"model": "meta-llama/Llama-3.1-70B"}, (8, 1, 8, 8), (8, 1, 1, 1)),
        ({}, (4, 1, 4, 1), (4, 1, 4, 1)),
        ({}, (8, 1, 8, 1), (8, 1, 1, 8)),
        ({"precision": "fp4"}, (8, 1, 8, 1), (8, 1, 8, 1)),
        ({"engine": "sglang"}, (8, 1, 8, 1), (8, 1, 8, 1)),
        ({"system": "b200_sxm", "version": "0.17.0"}, (2, 1, 2, 1), (2, 1, 1, 2)),
        ({"system": "b200_sxm", "version": "0.19.0"}, (2, 1, 2, 1), (2, 1, 2, 1)),
        ({**DEEPSEEK, "system": "b200_sxm", "precision": "fp4"}, (4, 1, 4, 1), (4, 1, 1, 4)),
        ({**DEEPSEEK, "system": "b200_sxm"}, (4, 1, 4, 1), (4, 1, 4, 1)),
    ],
)
def test_parallelism(changes: dict[str, Any], stated: tuple[int, ...], ran: tuple[int, ...]) -> None:
    assert campaigns.parallelism(row(parallelism=Parallelism(*stated), **changes)) == Parallelism(*ran)


def test_an_engine_of_more_gpus_than_a_node_has_is_refused() -> None:
    with pytest.raises(Refusal, match="aggregated on 32 GPUs"):
        replay_of(row(parallelism=Parallelism(32, 1, 32, 1)))


@pytest.mark.parametrize(
    ("changes", "cache"),
    [
        ({}, ""),
        ({"system": "b200_sxm", "version": "0.17.0"}, ""),
        ({"system": "b200_sxm", "version": "0.19.0"}, "fp8"),
        ({"model": "meta-llama/Llama-3.1-70B"}, "fp8"),
        ({"model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm"}, "fp8"),
        ({"model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm", "parallelism": Parallelism(2)}, ""),
        ({"model": "openai/gpt-oss-120b", "precision": "fp4"}, ""),
        ({"model": "openai/gpt-oss-120b", "precision": "fp4", "system": "b200_sxm"}, "fp8"),
        ({**QWEN, "precision": "bf16"}, ""),
        (QWEN, "fp8"),
        (DEEPSEEK, "bfloat16"),
        ({**DEEPSEEK, "system": "b200_sxm"}, "fp8"),
        (GLM, "bfloat16"),
        ({**GLM, "system": "b300_sxm"}, "fp8"),
        ({"source": "gap", "model": "meta-llama/Llama-3.1-70B"}, ""),
    ],
)
def test_data_type_of_the_cache(changes: dict[str, Any], cache: str) -> None:
    assert campaigns.kv_cache(row(**changes)) == cache


def test_engines_have_the_cache_of_the_script() -> None:
    assert replay_of(row(**DEEPSEEK)).engine["aic_kv_cache_dtype"] == "bfloat16"
    assert "aic_kv_cache_dtype" not in replay_of(row()).engine


def test_lengths_are_drawn_as_the_scripts_drew_them() -> None:
    assert campaigns.lengths(row()) == ("uniform(819,1024)", "uniform(6553,8192)")
    assert campaigns.lengths(row(source="gap", engine="sglang")) == (1024, 8192)
    assert campaigns.lengths(row(source="gap")) == (1024, "uniform(6553,9830)")


def test_servers_with_another_tokenizer_had_longer_prompts() -> None:
    longer = {**DEEPSEEK, "version": "0.5.10.post1", "facts": {"measured": "2026-04-17"}}
    assert campaigns.lengths(row(**longer)) == ("uniform(4121,5152)", "uniform(6553,8192)")
    others: list[dict[str, Any]] = [
        {"version": "0.5.9"},
        {"version": "0.5.100"},
        {"facts": {"measured": "2026-05-22"}},
        {"model": QWEN["model"]},
        {"engine": "vllm"},
    ]
    for changes in others:
        assert campaigns.lengths(row(**{**longer, **changes}))[0] == "uniform(819,1024)"


def test_ten_requests_per_client() -> None:
    assert replay_of(row()).workload == ClosedLoop(32, 320, "uniform(819,1024)", "uniform(6553,8192)")
    assert campaigns.requests(row(**{**GLM, "system": "b200_sxm"}), 32) == 320
    assert campaigns.requests(row(**GLM), 32) == 160


@pytest.mark.parametrize(
    ("changes", "prompts"),
    [
        ({"model": "nvidia/Llama-3.1-8B-Instruct-FP8", "source": "gap"}, 100),
        ({"model": "nvidia/Llama-3.1-8B-Instruct-FP8"}, 0),
        ({"model": "nvidia/Llama-3.1-8B-Instruct-FP8", "source": "gap", "engine": "sglang"}, 0),
        ({"model": "Qwen/Qwen3-32B", "source": "gap"}, 0),
    ],
)
def test_clients_that_choose_from_few_prompts_meet_a_prefix_cache(changes: dict[str, Any], prompts: int) -> None:
    replay = replay_of(row(**changes))
    assert isinstance(replay.workload, ClosedLoop)
    assert replay.workload.prompts == prompts
    assert replay.engine.get("enable_prefix_caching", False) is (prompts > 0)


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, 8192),
        ({"source": "gap"}, 8192),
        ({"system": "b200_sxm", "version": "0.19.0"}, 2048),
        ({"system": "b200_sxm", "version": "0.19.0", "isl": 8192}, 16384),
    ],
)
def test_batched_tokens(changes: dict[str, Any], tokens: int) -> None:
    assert campaigns.batched_tokens(row(**changes)) == tokens


def test_limits_of_ranks_add_up() -> None:
    engine = replay_of(row(parallelism=Parallelism(4, 4, 1, 16))).engine
    assert (engine["aic_attention_dp_size"], engine["max_num_batched_tokens"], engine["max_num_seqs"]) == (
        4,
        32768,
        4096,
    )


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({}, None),
        (QWEN, None),
        ({**QWEN, "model": "deepseek-ai/DeepSeek-R1"}, 0.82),
        ({**QWEN, "model": "deepseek-ai/DeepSeek-R1", "precision": "fp4"}, 0.85),
        ({**DEEPSEEK, "system": "b200_sxm"}, 0.95),
        ({**DEEPSEEK, "system": "b200_sxm", "parallelism": Parallelism(8, 1, 8, 1)}, 0.82),
        ({**QWEN, "model": "zhipuai/GLM-5"}, 0.85),
        ({"model": "deepseek-ai/DeepSeek-R1"}, None),
    ],
)
def test_pools_are_estimated_as_the_engine_does(changes: dict[str, Any], share: float | None) -> None:
    engine = replay_of(row(**changes)).engine
    assert (engine["kv_pool_estimate"], engine.get("mem_fraction_static")) == ("engine", share)
    assert "kv_pool_estimate" not in replay_of(row(**{**changes, "model": "another"})).engine
    measured = Rules(engine={"planner_profile_data": "durations.npz"})
    assert not {"kv_pool_estimate", "mem_fraction_static"} & replay_of(row(**changes), measured).engine.keys()


def test_limits_of_sglang() -> None:
    engine = replay_of(row(**QWEN, precision="fp4", system="b200_sxm")).engine
    assert engine["max_num_seqs"] == 256
    chunk = {"chunked_prefill_size": 32768, "max_prefill_tokens": 32768}
    assert engine["sglang"] == {**chunk, "ignore_eos": True, "scheduler_recv_interval": 30}
    engine = replay_of(row(**QWEN, precision="bf16", system="b200_sxm")).engine
    assert (engine["max_num_seqs"], engine["sglang"]["chunked_prefill_size"]) == (128, 32768)
    for changes, tokens in (
        ({"precision": "fp8", "system": "b200_sxm", "version": "0.5.9"}, 32768),
        ({"precision": "fp8", "system": "b300_sxm", "version": "0.5.10.post1"}, 16384),
        ({"precision": "fp8", "system": "h200_sxm", "version": "0.5.9"}, 16384),
        ({"model": "zai-org/GLM-5", "precision": "fp8", "system": "h200_sxm"}, 8192),
        ({"model": "zai-org/GLM-5", "precision": "fp8", "system": "b200_sxm"}, 32768),
        ({"model": "deepseek-ai/DeepSeek-V3", "precision": "fp4", "system": "b200_sxm"}, 16384),
        ({**DEEPSEEK, "system": "b200_sxm"}, 8192),
        ({**DEEPSEEK, "system": "b200_sxm", "parallelism": Parallelism(8, 1, 8, 1)}, 32768),
    ):
        assert campaigns.sglang_chunk(row(**{**QWEN, **changes})) == tokens, changes
    assert replay_of(row(**DEEPSEEK, system="b300_sxm")).engine["max_num_seqs"] == 32


@pytest.mark.parametrize(
    ("changes", "clients", "interval"),
    [
        ({"model": "zhipuai/GLM-5", "system": "b200_sxm"}, 16, None),
        ({"system": "b300_sxm"}, 15, 10),
        ({"system": "b300_sxm"}, 16, 30),
        ({"system": "b200_sxm", "precision": "fp4"}, 4, 30),
        ({"system": "b300_sxm", "precision": "fp4"}, 4, 10),
        ({"system": "b300_sxm", "precision": "fp8", "version": "0.5.10.post1"}, 64, 10),
        ({"system": "b300_sxm", "precision": "fp8", "model": "deepseek-ai/DeepSeek-V3"}, 64, 10),
        ({"system": "h200_sxm"}, 64, None),
        ({"system": "b200_sxm", "source": "gap"}, 64, None),
    ],
)
def test_receive_interval_of_the_scripts(changes: dict[str, Any], clients: int, interval: int | None) -> None:
    measured = row(**{**QWEN, "precision": "bf16", **changes}, concurrency=clients)
    assert replay_of(measured).engine["sglang"].get("scheduler_recv_interval") == interval
    asked = Rules(engine={"sglang": {"scheduler_recv_interval": 7}})
    assert replay_of(measured, asked).engine["sglang"]["scheduler_recv_interval"] == 7
    assert "scheduler_recv_interval" not in replay_of(measured, Rules(own_scheduler=False)).engine["sglang"]


def test_deepseek_on_sglang_computes_attention_in_bf16() -> None:
    replay = replay_of(row(**DEEPSEEK))
    assert replay.engine["aic_fmha_dtype"] == "bfloat16"
    assert replay.stand_ins == ("DeepSeek on SGLang: attention in bf16 for FP8",)


def test_fits_do_not_look_at_cold_starts() -> None:
    """Clients warmed engines up since January 2026: before that, requests waited for kernels of DeepSeek on SGLang."""
    cold = {**DEEPSEEK, "facts": {"measured": "2025-11-10"}}
    replay = replay_of(row(**cold))
    assert not targets.is_comparable(replay)
    warm: list[dict[str, Any]] = [
        {**cold, "engine": "vllm"},
        {**cold, "facts": {"measured": "2026-03-25"}},
        DEEPSEEK,
        {},
    ]
    for others in warm:
        assert targets.is_comparable(replay_of(row(**others)))
    assert not targets.is_comparable(replay_of(row(concurrency=256)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mode": "disagg"}, "number of workers unknown"),
        (
            {"mode": "disagg", "facts": {"prefill_num_workers": "1", "decode_num_workers": "3"}},
            "replayed with --splits",
        ),
        ({"concurrency": None}, "concurrency unknown"),
        ({"model": "openai/gpt-oss-120b", "system": "h100_sxm", "concurrency": 512}, "contradicts itself"),
        ({**QWEN, "system": "b200_sxm", "parallelism": Parallelism(4, 1, 4, 1)}, "speculative decoding"),
    ],
)
def test_refusals(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        replay_of(row(**changes))


SPLIT = {
    **{"prefill_num_workers": "2", "prefill_tp_size": "4", "prefill_attention_dp_size": "1"},
    **{"prefill_moe_tp_size": "1", "prefill_moe_ep_size": "4"},
    **{"decode_num_workers": "1", "decode_tp_size": "1", "decode_attention_dp_size": "8"},
    **{"decode_moe_tp_size": "1", "decode_moe_ep_size": "8"},
}


SPLITS = Rules(splits=True)


def split_of(facts: dict[str, str], rules: Rules = SPLITS, **changes: Any) -> Any:
    return replay_of(row(mode="disagg", facts={**SPLIT, **facts}, **changes), rules)


def test_a_split() -> None:
    """Each pool has its own parallelism; limits hold for each rank."""
    replay = split_of({})
    assert (replay.split.prefill_workers, replay.split.decode_workers) == (2, 1)
    prefill, decode = replay.split.prefill, replay.engine
    assert (prefill["worker_type"], decode["worker_type"]) == ("prefill", "decode")
    assert (prefill["aic_tp_size"], prefill["aic_moe_ep_size"], prefill["aic_attention_dp_size"]) == (4, 4, 1)
    assert (decode["aic_tp_size"], decode["aic_moe_ep_size"], decode["aic_attention_dp_size"]) == (1, 8, 8)
    assert (prefill["max_num_batched_tokens"], decode["max_num_batched_tokens"]) == (8192, 8 * 8192)
    assert prefill["scheduler"] == decode["scheduler"] == "vllm"
    assert replay.workload == ClosedLoop(32, 320, "uniform(819,1024)", "uniform(6553,8192)")
    assert replay.stand_ins == (
        "limits of the workers and the link between them: defaults of the engine, and of hand-offs",
    )


def test_a_split_by_the_rules_of_the_mocker() -> None:
    for replay in (split_of({}, Rules(False, splits=True)), split_of({}, **QWEN)):
        assert "scheduler" not in {**replay.split.prefill, **replay.engine}
    changed = split_of({}, Rules(engine={"max_num_seqs": 7}, splits=True))
    assert changed.split.prefill["max_num_seqs"] == changed.engine["max_num_seqs"] == 7


def test_deepseek_on_sglang_is_replayed_as_a_split() -> None:
    replay = split_of({}, **{**QWEN, "model": "deepseek-ai/DeepSeek-V3"})
    assert replay.stand_ins[1:] == ("DeepSeek on SGLang: attention in bf16 for FP8, with a KV cache in bf16",)
    assert replay.engine["aic_kv_cache_dtype"] == replay.split.prefill["aic_fmha_dtype"] == "bfloat16"


def test_experts_of_many_ranks_are_not_cut() -> None:
    replay = split_of({"decode_moe_tp_size": "8", "decode_moe_ep_size": "1"})
    assert (replay.engine["aic_moe_tp_size"], replay.engine["aic_moe_ep_size"]) == (1, 8)


@pytest.mark.parametrize(
    ("facts", "changes", "reason"),
    [
        ({"decode_num_workers": ""}, {}, "number of workers unknown"),
        ({"decode_num_workers": "none"}, {}, "decode_num_workers is 'none'"),
        ({"prefill_tp_size": "0"}, {}, "prefill_tp_size is '0'"),
        ({"prefill_moe_ep_size": "2"}, {}, "prefill workers of 4 x 1 GPUs with experts on 1 x 2"),
        ({}, {"concurrency": None}, "concurrency unknown"),
        ({}, {"source": "aiperf"}, "pools are not replayed"),
    ],
)
def test_refused_splits(facts: dict[str, str], changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        split_of(facts, **changes)


def test_splits_leave_single_pools_out() -> None:
    with pytest.raises(Refusal, match="not a split into prefill and decode workers"):
        replay_of(row(), SPLITS)


def test_stand_ins_are_listed_and_keep_the_memory_of_the_gpu() -> None:
    replay = replay_of(row(system="b300_sxm", version="0.19.0"))
    assert replay.stand_ins == ("MiniMax FP8 on b300_sxm: plain FP8 kernels of b200_sxm for block-wise ones",)
    assert replay.engine["aic_system"] == "b200_sxm"
    assert replay.pool is not None
    assert replay.pool["aic_system"] == "b300_sxm"
    assert "kv_pool_estimate" not in replay.engine
    assert replay_of(row(precision="fp4")).stand_ins == ()


GPT_OSS: dict[str, Any] = {"model": "openai/gpt-oss-120b", "precision": "fp4", "system": "b200_sxm"}
LLAMA: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "system": "b200_sxm"}


@pytest.mark.parametrize(
    ("changes", "kernels"),
    [
        ({}, {"aic_gemm_dtype": "fp8"}),
        ({"system": "h100_sxm"}, {"aic_gemm_dtype": "fp8"}),
        ({"system": "b200_sxm"}, {"aic_gemm_dtype": "fp8", "aic_moe_dtype": "fp8"}),
        ({"precision": "fp4"}, {}),
        (
            {**GPT_OSS, "parallelism": Parallelism(1, 1, 1, 1)},
            {"aic_backend": "trtllm", "aic_moe_dtype": "w4a8_mxfp4_mxfp8"},
        ),
        ({**GPT_OSS, "parallelism": Parallelism(8, 1, 8, 1)}, {}),
        (LLAMA, {"aic_backend": "sglang"}),
        ({**LLAMA, "precision": "fp4"}, {}),
        ({**LLAMA, "system": "h200_sxm"}, {}),
        (DEEPSEEK, {"aic_fmha_dtype": "bfloat16"}),
    ],
)
def test_kernels_that_stand_in(changes: dict[str, Any], kernels: dict[str, str]) -> None:
    """They are part of the engine, and the KV pool stays that of the engine that was measured."""
    replay = replay_of(row(**changes))
    assert replay.kernels == kernels
    assert replay.engine | kernels == replay.engine
    own = replay.pool or replay.engine
    assert own["aic_backend"] == replay.measurement.engine
    assert replay_of(row(**changes), Rules(engine={"planner_profile_data": "durations.npz"})).kernels == {}


def test_checkpoints_decide_the_data_types() -> None:
    assert checkpoint("meta-llama/Llama-3.1-70B", "fp4") == ("meta-llama/Meta-Llama-3.1-70B", {"gemm": "nvfp4"})
    assert checkpoint("openai/gpt-oss-120b", "fp4") == ("openai/gpt-oss-120b", {})


def test_engine_arguments_win_member_by_member() -> None:
    rules = Rules(engine={"max_num_seqs": 7, "sglang": {"chunked_prefill_size": 512}})
    engine = replay_of(row(**QWEN, precision="bf16"), rules).engine
    assert engine["max_num_seqs"] == 7
    assert engine["sglang"] == {"chunked_prefill_size": 512, "max_prefill_tokens": 32768, "ignore_eos": True}


def test_rules_of_the_mocker() -> None:
    assert replay_of(row()).engine["scheduler"] == "vllm"
    engine = replay_of(row(**QWEN, precision="bf16"), Rules(own_scheduler=False)).engine
    assert "scheduler" not in engine
    assert "ignore_eos" not in engine["sglang"]


REQUESTS = Requests(isl=[10, 20, 30], osl=[1, 2, 3], ttft_ms=[1.0, 2.0, 3.0], tpot_ms=[1.0, 1.0, 1.0])
RECORDED = dataclasses.replace(ROW, source="vllm-bench", system="", requests=REQUESTS, concurrency=None)


def test_runs_of_llmservingsim_were_synchronous() -> None:
    requests = Requests([10], [2], [1.0], [1.0], [0.0])
    served = row(source="llmservingsim", concurrency=None, requests=requests)
    assert replay_of(served).engine["async_scheduling"] is False
    assert replay_of(served, Rules(engine={"async_scheduling": True})).engine["async_scheduling"] is True
    assert "async_scheduling" not in replay_of(served, Rules(own_scheduler=False)).engine
    assert "async_scheduling" not in replay_of(row()).engine


@pytest.mark.parametrize(
    ("changes", "rules", "ranks", "limit"),
    [
        ({}, Rules(), 2, 128),
        ({"parallelism": Parallelism(4, 1, 4, 1)}, Rules(), None, 128),
        ({}, Rules(own_scheduler=False), None, 256),
        ({}, Rules(engine={"scheduler": "dynamo"}), None, 256),
        ({"model": "Qwen/Qwen3-8B"}, Rules(), None, 256),
        ({"source": "vllm-bench"}, Rules(), None, 256),
    ],
)
def test_ranks_of_llmservingsim_are_simulated(
    changes: dict[str, Any], rules: Rules, ranks: int | None, limit: int
) -> None:
    about = {
        "source": "llmservingsim",
        "concurrency": None,
        "requests": Requests([10], [2], [1.0], [1.0], [0.0]),
        "engine_args": {"max_num_seqs": 128, "max_num_batched_tokens": 2048},
        "parallelism": Parallelism(1, 2, 1, 2),
    }
    engine = replay_of(row(**about | changes), rules).engine
    assert (engine.get("dp_size"), engine["max_num_seqs"]) == (ranks, limit)


def test_arrivals_are_drawn_for_a_rate_only() -> None:
    rules = Rules(engine={"engine_type": "vllm"})
    replay = replay_of(dataclasses.replace(RECORDED, request_rate=100.0), rules)
    assert isinstance(replay.workload, Recorded)
    arrivals = list(replay.workload.requests.arrival_ms)
    assert arrivals[0] == 0
    assert arrivals == sorted(arrivals)
    assert "Poisson" in replay.stand_ins[0]
    again = replay_of(dataclasses.replace(RECORDED, request_rate=100.0), rules)
    assert isinstance(again.workload, Recorded)
    assert list(again.workload.requests.arrival_ms) == arrivals


def test_a_closed_loop_of_recorded_lengths() -> None:
    replay = replay_of(dataclasses.replace(RECORDED, concurrency=2), Rules(engine={"engine_type": "vllm"}))
    assert replay.workload == Recorded(REQUESTS, 2)


def test_nothing_is_guessed_about_gpus() -> None:
    with pytest.raises(Refusal, match=r"which model ran on which GPU: put deployment\.json"):
        replay_of(dataclasses.replace(RECORDED, concurrency=2))


def test_a_budget_below_the_running_requests() -> None:
    """vLLM's own scheduler refuses it; a recorded engine ran no more sequences than its budget has tokens."""
    engine = {"engine_type": "vllm", "max_num_batched_tokens": 64, "max_num_seqs": 128}
    assert mapping._scheduler(engine, Rules()) == {"scheduler": "vllm", "max_num_seqs": 64}
