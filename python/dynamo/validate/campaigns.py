"""What the benchmarks of the silicon table ran, one function per rule.

The table has two campaigns. The scripts of InferenceX are published (SemiAnalysisAI/InferenceX, benchmarks/, as of the
date of a run); "script" below means them. Of the gap campaign only the table is known. Where the table's columns
contradict a script, the script is right: what ran is replayed, not what the table says.
"""

from __future__ import annotations

from dynamo.validate.checkpoints import is_dense
from dynamo.validate.measurement import Length, Measurement, Parallelism, Refusal

_BLACKWELL = ("b200_sxm", "b300_sxm", "gb200", "gb300")
_HOPPER = ("h100_sxm", "h200_sxm")
# What both campaigns measured.
MODELS = ("DeepSeek", "GLM-5", "Kimi-K2", "Llama-3.1", "MiniMax-M2", "Qwen3", "gpt-oss")
# Most clients of both campaigns send this many requests each. With 4 the burst at the start weighs 2.5 times too much.
REQUESTS_PER_CLIENT = 10
# Tokens of the server for each of the client, of DeepSeek with Transformers 5: a prompt of 7,140 arrived as 35,921
# (InferenceX, pull request 937).
_SERVER_TOKENS = 35_921 / 7_140


def refuse_what_is_not_replayed(row: Measurement) -> None:
    """Raises Refusal for rows whose measurement cannot be told, or cannot be true."""
    if row.mode != "agg":
        row.refuse_unknown_workers()
        raise Refusal("disaggregated: replayed with --splits")
    if row.concurrency is None:
        raise Refusal("concurrency unknown")
    if row.concurrency == 512 and "gpt-oss" in row.model and row.system == "h100_sxm":
        raise Refusal("contradicts itself: by its TTFT and TPOT about 100 of 512 clients were served at a time")
    if hides_speculation(row):
        raise Refusal("speculative decoding, which the table does not mark")


def hides_speculation(row: Measurement) -> bool:
    """Reports whether a row was run with multi-token prediction, unmarked.

    Of the scripts of Qwen3.5 FP8 with SGLang 0.5.9 on Blackwell, only the one with MTP ran on four GPUs without expert
    parallelism; plain runs had tp 4 with ep 4, or tp 8.
    """
    spread = (row.parallelism.tp, row.parallelism.moe_ep)
    return (
        (row.model, row.precision, row.version) == ("Qwen/Qwen3.5-397B-A17B", "fp8", "0.5.9")
        and spread == (4, 1)
        and row.system in _BLACKWELL
    )


def lengths(row: Measurement) -> tuple[Length, Length]:
    """Returns the lengths of prompt and answer: InferenceX draws both from [0.8 L, L] (script); gap fixes them, which
    fits its rows best.

    vLLM's clients of gap are spread out, as nothing keeps them together: SGLang computes new prompts before anything
    else, vLLM beside running answers. Varied lengths of answers stand in for the jitter of clients.
    """
    isl, osl = _tokens(row.isl), _tokens(row.osl)
    if _was_tokenized_otherwise(row):
        isl = round(isl * _SERVER_TOKENS)
    if row.source == "gap" and row.engine == "vllm":
        return isl, f"uniform({int(0.8 * osl)},{int(1.2 * osl)})"
    if row.source == "gap":
        return isl, osl
    return f"uniform({int(0.8 * isl)},{isl})", f"uniform({int(0.8 * osl)},{osl})"


def had_cold_start(row: Measurement) -> bool:
    """Reports whether the first requests of a row waited until kernels were fetched and compiled.

    Clients of InferenceX warm engines up since the end of January 2026 (pull request 480), and SGLang compiles kernels
    of DeepSeek when they are first used: prompts of 1,024 tokens had a TTFT of 7 to 9 s with 32 clients or more, in
    2026 of 0.5 s. vLLM does that before it takes requests.
    """
    unwarmed = row.source == "inferencex" and row.facts.get("measured", "2026-02") < "2026-02"
    return unwarmed and row.engine == "sglang" and "DeepSeek" in row.model


def requests(row: Measurement, clients: int) -> int:
    """Returns how many requests all clients sent; GLM-5 on H200 has a script of its own, with half as many."""
    return clients * (5 if "GLM" in row.model and row.system in _HOPPER else REQUESTS_PER_CLIENT)


def _was_tokenized_otherwise(row: Measurement) -> bool:
    """Reports whether the server of a row made more tokens of a prompt than its client.

    The image of SGLang 0.5.10 has Transformers 5, whose tokenizer of DeepSeek splits text otherwise. SGLang works
    around it, the client of InferenceX did not before May 2026 (InferenceX, pull requests 937 and 1502).
    """
    image = (row.engine, row.version.partition(".post")[0]) == ("sglang", "0.5.10")
    mended = row.source != "inferencex" or row.facts.get("measured", "2026-05") >= "2026-05"
    return image and "DeepSeek" in row.model and not mended


def prompts(row: Measurement) -> int:
    """Returns how many prompts the clients chose from, 0 if all were different.

    vLLM's Llama-8B of gap answered more prompt tokens than one GPU can compute, so it hit the prefix cache. With the
    100 prompts that AIPerf and GenAI-Perf generate unless more are asked for (--num-dataset-entries) TPOT is as
    measured. The same model of SGLang hit nothing.
    """
    return 100 if row.source == "gap" and row.engine == "vllm" and "Llama-3.1-8B" in row.model else 0


def parallelism(row: Measurement) -> Parallelism:
    """Returns what ran, with tp x dp = moe_tp x moe_ep GPUs; the table multiplies where it should divide (script)."""
    stated = row.parallelism
    if stated.attention_dp > 1:
        return _with_attention_dp(row)
    if is_dense(row.model):
        return Parallelism(tp=stated.tp)
    experts = stated.moe_tp * stated.moe_ep
    if row.source == "inferencex" and stated.moe_tp > 1 and stated.moe_ep > 1 and stated.tp == experts:
        return _with_both_for_experts(stated)
    if row.source == "gap" and experts != stated.tp:
        # Qwen3-235B: twice as many GPUs for experts as for attention, so attention has a replica on each half.
        return Parallelism(stated.tp, max(1, experts // stated.tp), stated.moe_tp, stated.moe_ep)
    if row.source == "inferencex" and stated.moe_tp == 1 and stated.tp > 1 and stated.moe_ep == stated.tp**2:
        return Parallelism(stated.tp, 1, 1, stated.tp)  # tp 4, ep 16 is TP 4 with EP 4
    if _hides_expert_parallelism(row):
        return Parallelism(stated.tp, 1, 1, stated.tp)
    if stated.tp > 16:
        raise Refusal(f"aggregated on {stated.tp} GPUs: not one engine")
    return Parallelism(stated.tp, 1, stated.moe_tp, stated.moe_ep)


def corrected_parallelism(row: Measurement) -> Parallelism | None:
    """Returns what ran if the columns of a row have more GPUs than that, or spread experts otherwise; else None.

    The same engine stands in other rows with the right columns, or with other wrong ones.
    """
    if row.mode != "agg":
        return None
    try:
        ran = parallelism(row)
    except Refusal:
        return None
    stated = row.parallelism
    fewer = ran.tp * ran.attention_dp < stated.tp * stated.attention_dp
    return ran if fewer or ran.moe_ep != stated.moe_ep else None


def _with_attention_dp(row: Measurement) -> Parallelism:
    """tp 4, dp 4, ep 16 is vLLM with TP 1 on four ranks that share the experts."""
    stated = row.parallelism
    if row.system == "h100_sxm":
        # The script for H100 has no data parallelism, and the rows equal those of tp 4, ep 4.
        return Parallelism(stated.tp, 1, 1, stated.tp)
    return Parallelism(1, stated.attention_dp, 1, stated.attention_dp)


def _with_both_for_experts(stated: Parallelism) -> Parallelism:
    """tp 64, moe_tp 8, ep 8 is TP 8 with EP 8; tp 16, moe_tp 4, ep 4 is TP 4 with EP 4."""
    if stated.moe_tp == stated.moe_ep == 2:
        return Parallelism(stated.tp, 1, 2, 2)
    return Parallelism(stated.moe_tp, 1, stated.moe_tp // stated.moe_ep, stated.moe_ep)


def _hides_expert_parallelism(row: Measurement) -> bool:
    """Reports whether experts were on all GPUs of a row that the table has with tensor parallelism alone.

    MiniMax FP8 on vLLM: it cannot divide experts by 8, 1,536 columns in blocks of 128 (recipes of vLLM for MiniMax; the
    script has it since InferenceX, pull request 869), and with release 0.17 the script for B200 always had it
    (pull request 757). DeepSeek FP4 on B200: what the scripts were started with (nvidia-master.yaml).
    """
    stated = row.parallelism
    if row.source != "inferencex" or stated.moe_tp != stated.tp:
        return False
    if row.engine == "vllm" and "MiniMax" in row.model and row.precision == "fp8":
        return stated.tp == 8 or (row.system == "b200_sxm" and row.version == "0.17.0")
    return row.engine == "sglang" and "DeepSeek" in row.model and (row.system, row.precision) == ("b200_sxm", "fp4")


def kv_cache(row: Measurement) -> str:
    """Returns the data type of the KV cache, "" for that of the checkpoint.

    SGLang keeps it in bf16 on Hopper unless its flag says otherwise (SGLang, issues 3995 and 11989), but the SDK takes
    FP8 for latent attention.
    """
    if _has_fp8_cache(row):
        return "fp8"
    return "bfloat16" if row.engine == "sglang" and _is_deepseek_or_glm(row) else ""


def _has_fp8_cache(row: Measurement) -> bool:
    """Reports whether the engine was set to keep KV in FP8 (script)."""
    if row.source == "gap" or row.precision in ("bf16", "int4"):
        return False
    if row.engine == "sglang":
        return not (row.system in _HOPPER and _is_deepseek_or_glm(row))
    if "MiniMax" in row.model:
        return row.system in _BLACKWELL and row.version not in ("0.15.1", "0.16.0", "0.17.0")
    if "70B" in row.model:
        return not (row.system == "h100_sxm" and row.parallelism.tp == 2)
    return row.system in _BLACKWELL


def _is_deepseek_or_glm(row: Measurement) -> bool:
    return "DeepSeek" in row.model or "GLM" in row.model


def batched_tokens(row: Measurement) -> int:
    """Returns vLLM's max_num_batched_tokens for one rank: of the script, or the default for servers on these GPUs.

    Nothing documents gap's, but less than that is not possible: Qwen3-32B answered 128 clients with 128 tokens each to
    prompts of 4,096, so 4,096 prompt tokens came with each pass, and TTFT says that none waited.
    """
    if "MiniMax" in row.model and row.system in _BLACKWELL and row.version == "0.19.0":
        return 2 * _tokens(row.isl)
    return 8192


def vllm_running(row: Measurement, clients: int) -> int:
    """Returns vLLM's max_num_seqs for one rank: the number of clients where the script says so, otherwise its
    default.
    """
    told = (row.system in _HOPPER and ("70B" in row.model or "gpt-oss" in row.model)) or "Kimi" in row.model
    return clients if told else 1024


def sglang_chunk(row: Measurement) -> int:
    """Returns SGLang's chunked_prefill_size for one rank (script; its default for gap and, on H200, for GLM-5)."""
    if row.source == "gap" or ("GLM" in row.model and row.system in _HOPPER):
        return 8192
    if "Qwen3.5" in row.model and row.precision == "fp8":
        return 16384 if row.system in _HOPPER or row.version != "0.5.9" else 32768
    if _fills_four(row):
        return 8192
    return 16384 if row.precision == "fp4" and "DeepSeek" in row.model else 32768


def sglang_running(row: Measurement) -> int:
    """Returns SGLang's max_running_requests (script)."""
    if row.source == "gap":
        return 1024
    if _fills_four(row):
        return 32
    return 128 if row.system in _BLACKWELL and not _has_more_rows(row) else 256


def memory_share(row: Measurement) -> float | None:
    """Returns SGLang's mem_fraction_static where its script sets another one than the engine would; None elsewhere."""
    if row.engine != "sglang" or not _is_deepseek_or_glm(row):
        return None
    if _fills_four(row):
        return 0.95
    return 0.82 if "DeepSeek" in row.model and row.precision == "fp8" else 0.85


def receive_interval(row: Measurement, clients: int) -> int:
    """Returns SGLang's scheduler_recv_interval: how many passes go by before it looks for new requests (script,
    Blackwell).

    The scripts of GLM-5 do not set it.
    """
    if row.source == "gap" or row.system not in _BLACKWELL or "GLM" in row.model:
        return 1
    if "Qwen3.5" in row.model and row.precision == "fp4" and row.system == "b200_sxm":
        return 30
    if "Qwen3.5" in row.model and row.precision == "fp8" and row.version == "0.5.10.post1":
        return 10
    return 10 if clients < 16 or _fills_four(row) else 30


def _fills_four(row: Measurement) -> bool:
    """Reports whether a row is DeepSeek FP8 on four GPUs of Blackwell, which its weights nearly fill: the scripts have
    other limits for it.
    """
    spread = row.parallelism
    return "DeepSeek" in row.model and row.precision == "fp8" and row.system in _BLACKWELL and spread.tp == 4


def _has_more_rows(row: Measurement) -> bool:
    """Reports whether a script on Blackwell lets more than 128 requests run."""
    return ("Qwen3.5" in row.model and row.precision != "bf16") or row.precision == "fp4"


def _tokens(length: Length | None) -> int:
    assert isinstance(length, int), "the silicon table states lengths as numbers"
    return length
