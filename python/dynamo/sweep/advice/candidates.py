"""What is valid: every deployment of a model on a number of GPUs, as keys that a point of a sweep sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dynamo._core import aic
from dynamo.sweep.advice.question import AUTO, BOTH, FP8, Question

# What is tried of each engine: sequences in a batch, and prompt tokens of a pass.
_SEQUENCES = (64, 256)
_TOKENS = (2048, 8192)
_LARGEST_TP = 8
_MIGRATIONS = 3
"""How often a request goes on elsewhere if its worker is lost."""
_BF16 = "bfloat16"
_DENSE_WORD = "moe_tp_size or moe_ep_size"
SHAPES = "engine.aic_shapes"
MOCKER = "dynamo"
"""The scheduler with the rules of Dynamo's mocker. Reports of its runs name no scheduler."""


class Candidate(NamedTuple):
    """One deployment."""

    name: str
    gpus: int
    worker: str
    """Its worker in words: candidates with equal ones have equal engines."""
    engine: Mapping[str, Any]
    """Keys that make the engine."""
    rest: Mapping[str, Any]
    """Keys that say how many workers there are, and the router."""

    def with_shapes(self, shapes: str) -> Candidate:
        """The same with an engine whose durations the AIC SDK is asked for by these shapes of passes."""
        return self._replace(engine={**self.engine, SHAPES: shapes})

    @property
    def sets(self) -> dict[str, Any]:
        """All keys that it sets."""
        return {**self.engine, **self.rest}

    @property
    def pools(self) -> tuple[int, ...]:
        """Workers of each pool."""
        if "num_workers" in self.rest:
            return (self.rest["num_workers"],)
        return (self.rest["num_prefill_workers"], self.rest["num_decode_workers"])

    @property
    def migrations(self) -> dict[str, int]:
        """The keys with which requests of a lost worker go on elsewhere; none where nginx may route, which cannot."""
        return (
            {"migration_limit": _MIGRATIONS} if len(self.pools) > 1 or self.rest["router_mode"] == "kv_router" else {}
        )


class Shape(NamedTuple):
    """How a worker spreads the model over its GPUs."""

    words: str
    gpus: int
    keys: Mapping[str, Any]
    splits: bool
    """Whether it may be one of two pools."""


def enumerate_all(question: Question) -> list[Candidate]:
    """All deployments with at most the GPUs of the question, in an order that only the question decides."""
    found: list[Candidate] = []
    for engine in question.engines:
        shapes = _shapes(question, engine)
        kv_types = _kv_types(question)  # of a model that is known by now
        for shape in shapes:
            for further in _variants(question, shape, kv_types):
                for sequences in _SEQUENCES:
                    for tokens in _TOKENS:
                        found += _of_worker(question, engine, further, sequences, tokens)
    return found


def _kv_types(question: Question) -> list[tuple[str, Mapping[str, Any]]]:
    """The data types of the KV cache that are tried, as words for other ones than engines take, and keys.

    With KV in BF16 attention is computed in BF16, too, whatever the weights are.
    """
    if not question.has_aic or (asked := question.kv_cache_dtype) is None:
        return [("", {})]
    fp8 = {"engine.aic_kv_cache_dtype": "fp8"}
    if aic.wants_fp8_kv(str(question.model)):
        return [("", fp8)]
    found: list[tuple[str, Mapping[str, Any]]] = []
    if asked in (AUTO, BOTH):
        attention = {} if "aic_fmha_dtype" in question.run["extra_engine_args"] else {"engine.aic_fmha_dtype": _BF16}
        found.append(("", {"engine.aic_kv_cache_dtype": _BF16, **attention}))
    if asked in (FP8, BOTH):
        found.append((", FP8 KV", fp8))
    return found


def _variants(question: Question, shape: Shape, kv_types: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Shape]:
    """A worker in each data type of KV, as it is, with host memory for KV blocks, with draft tokens, and with both."""
    variants = list(kv_types)
    if question.host_gb_per_gpu is not None:
        gb = question.host_gb_per_gpu * shape.gpus
        host = {"engine.host_cache_gb": gb}
        variants += [(f"{more}, {gb:g} GB host", {**given, **host}) for more, given in variants]
    if question.accept_rates is not None:
        drafts = len(question.accept_rates.split(","))
        keys = {"engine.aic_nextn": drafts, "engine.aic_nextn_accept_rates": question.accept_rates}
        words = f", {drafts} draft token{'s' if drafts > 1 else ''}"
        variants += [(more + words, {**given, **keys}) for more, given in variants]
    for words, given in variants:
        yield shape._replace(words=shape.words + words, keys={**shape.keys, **given})


def _of_worker(question: Question, engine: str, shape: Shape, sequences: int, tokens: int) -> Iterator[Candidate]:
    """All numbers of such workers, in one pool and in two, behind each router."""
    words = f"{engine} {shape.words}, {sequences} sequences, {tokens} tokens"
    # Draft tokens are a part of the rules of Dynamo's mocker only, and what is compared has the same rules.
    scheduler = engine if question.accept_rates is None else MOCKER
    keys: dict[str, Any] = {"engine.engine_type": engine, "engine.scheduler": scheduler, **shape.keys}
    keys["engine.max_num_seqs"] = sequences
    keys["engine.sglang.chunked_prefill_size" if engine == "sglang" else "engine.max_num_batched_tokens"] = tokens
    if question.has_aic:
        keys["engine.aic_backend"] = engine
    most = question.gpus // shape.gpus
    for count in range(1, most + 1):
        for router in ("round_robin", "kv_router") if count > 1 else ("round_robin",):
            name = f"{count} x {words}" + (f", {router}" if count > 1 else "")
            yield Candidate(name, count * shape.gpus, words, keys, {"num_workers": count, **_front(router, keys)})
    if not shape.splits:
        return
    for prefill in range(1, most):
        for decode in range(1, most - prefill + 1):
            for router in ("round_robin", "kv_router"):
                name = f"{prefill} prefill + {decode} decode x {words}, {router}"
                rest = {
                    "topology": "disagg",
                    "num_prefill_workers": prefill,
                    "num_decode_workers": decode,
                    "router_mode": router,
                }
                yield Candidate(name, (prefill + decode) * shape.gpus, words, keys, rest)


def _front(router: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The router, which chooses the data-parallel ranks of workers, too, where Dynamo's frontend does."""
    ranks = router == "kv_router" and "engine.dp_size" in keys
    return {"router_mode": router, **({"engine.dp_routing": "router"} if ranks else {})}


def _shapes(question: Question, engine: str) -> list[Shape]:
    """How a worker may spread the model over GPUs: within a node, and whole nodes for ranks of attention."""
    splits = engine == "vllm"  # SGLang's own scheduler has one pool only
    if not question.has_aic:
        return [Shape("1 GPU", 1, {}, splits)]
    widths = [1 << power for power in range(10) if 1 << power <= question.gpus]
    node = question.gpus_per_node
    experts = _has_experts(question, engine)
    shapes = []
    for width in widths:
        if width <= min(node, _LARGEST_TP):
            if not experts:
                shapes.append(Shape(f"TP {width}", width, {"engine.aic_tp_size": width}, splits))
                continue
            for words, tp, ep in (("", width, 1), (f" EP {width}", 1, width)):
                keys = {
                    "engine.aic_tp_size": width,
                    "engine.aic_moe_tp_size": tp,
                    "engine.aic_moe_ep_size": ep,
                }
                if width > 1 or not words:
                    shapes.append(Shape(f"TP {width}{words}", width, keys, splits))
        if experts and width > 1 and (width <= node or width % node == 0):
            ranks = "engine.dp_size" if engine == "vllm" else "engine.aic_attention_dp_size"
            keys = {"engine.aic_tp_size": 1, ranks: width, "engine.aic_moe_tp_size": 1, "engine.aic_moe_ep_size": width}
            shapes.append(Shape(f"DP {width} EP {width}", width, keys, False))
    return shapes


def _has_experts(question: Question, engine: str) -> bool:
    """Whether the model is a mixture of experts. Raises ValueError if the SDK knows no such model, system or engine."""
    asked = {
        "backend": engine,
        "system": question.system,
        "version": _DEFAULTS[engine],
        "version_given": False,
        "model": question.model,
        "attention_dp_size": 1,
    }
    answer = json.loads(aic.answer(json.dumps({"open": {**asked, "tp_size": 1}})))
    if "error" not in answer:
        return bool(answer["experts"])
    if _DENSE_WORD in answer["error"]:
        return True
    raise ValueError(answer["error"].replace("aic_model_path", "model").replace("aic_system", "system"))


# What gocore/aic asks for unless a version is given; the SDK may take another one.
_DEFAULTS = {"vllm": "0.19.0", "sglang": "0.5.10"}
