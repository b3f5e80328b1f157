"""The argument classes, and that they and Go say the same."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
import pydoc
import typing
from typing import Any

import numpy as np
import pytest

import dynamo.llm
import dynamo.mocker
from dynamo._shell.fields import fields_of
from dynamo.mocker import MockEngineArgs, ReasoningConfig, SglangArgs
from dynamo.mocker.args import EngineFields
from dynamo.replay import run_synthetic_trace_replay


def test_defaults() -> None:
    args = MockEngineArgs()
    assert (args.engine_type, args.num_gpu_blocks, args.block_size) == ("vllm", 16384, 64)
    assert (args.max_num_seqs, args.max_num_batched_tokens, args.worker_type) == (256, 8192, "aggregated")
    assert (args.watermark, args.eviction_backend, args.preemption_mode) == (0.0, "lineage", "lifo")
    assert args.aic_tp_size is None
    assert args.to_json() == "{}"


@pytest.mark.parametrize(
    ("given", "block_size"),
    [
        ({}, 64),
        ({"block_size": 0}, 64),
        ({"block_size": 16}, 16),
        ({"engine_type": "sglang"}, 1),
        ({"engine_type": "trtllm"}, 32),
        ({"engine_type": "sglang", "sglang": SglangArgs(page_size=16)}, 16),
        ({"engine_type": "sglang", "sglang": {"page_size": 16}}, 16),
        ({"sglang": {"page_size": 16}}, 64),
    ],
)
def test_block_size_shows_the_default_of_the_engine(given: dict[str, Any], block_size: int) -> None:
    assert MockEngineArgs(**given).block_size == block_size


def test_only_what_was_given_is_kept() -> None:
    args = MockEngineArgs(max_num_seqs=None, speedup_ratio=2, num_gpu_blocks=np.int64(10))  # type: ignore[arg-type]
    assert json.loads(args.to_json()) == {"max_num_seqs": None, "speedup_ratio": 2.0, "num_gpu_blocks": 10}
    assert args.max_num_seqs is None
    assert repr(args) == "MockEngineArgs(max_num_seqs=None, speedup_ratio=2.0, num_gpu_blocks=10)"


def test_both_spellings_of_the_pool_size() -> None:
    args = MockEngineArgs(num_gpu_blocks_override=7)
    assert args.num_gpu_blocks == 7
    args.num_gpu_blocks = 9
    assert args.num_gpu_blocks == 9
    assert json.loads(args.to_json()) == {"num_gpu_blocks": 9}


@pytest.mark.parametrize(
    "given",
    [
        {"blok_size": 1},
        {"is_prefill": True},
        {"has_perf_model": 1},
        {"block_size": "16"},
        {"block_size": 16.0},
        {"block_size": None},
        {"block_size": True},
        {"enable_prefix_caching": 1},
        {"speedup_ratio": "fast"},
        {"speedup_ratio": None},
        {"preemption_mode": 1},
        {"sglang": 3},
        {"sglang": {"page": 3}},
        {"reasoning": SglangArgs()},
        {"reasoning": {"thinking_ratio": 0.5}},
    ],
)
def test_wrong_types_and_unknown_keywords(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(TypeError, match=name):
        MockEngineArgs(**given)


BAD_VALUES = [
    ({"max_num_seqs": 0}, "max_num_seqs: got 0, want an integer >= 1"),
    ({"num_gpu_blocks": -1}, "num_gpu_blocks: got -1, want an integer from 1 to 1073741824"),
    ({"speedup_ratio": -0.5}, "speedup_ratio: got -0.5, want a finite number >= 0"),
    ({"preemption_mode": "x"}, 'preemption_mode: got "x", want one of lifo, fifo'),
    ({"watermark": 1.0}, "watermark: got 1"),
    ({"bootstrap_port": 70000}, "bootstrap_port: got 70000"),
    ({"sglang": {"page_size": 0}}, "sglang.page_size: got 0"),
]


@pytest.mark.parametrize(("given", "message"), BAD_VALUES)
def test_values_out_of_range(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        MockEngineArgs(**given)


def test_numbers_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="speedup_ratio: got nan, want a finite number >= 0"):
        MockEngineArgs(speedup_ratio=math.nan)
    with pytest.raises(ValueError, match="startup_time: got -inf"):
        MockEngineArgs(startup_time=-math.inf)
    with pytest.raises(ValueError, match="num_gpu_blocks: got an integer of 16610 bits"):
        MockEngineArgs(num_gpu_blocks=10**5000)


def test_values_without_end() -> None:
    cycle: dict[str, Any] = {}
    cycle["capacity_scheduler_policy"] = cycle
    with pytest.raises((TypeError, ValueError), match="trtllm"):
        MockEngineArgs(trtllm=cycle)


def test_text_that_is_not_utf_8() -> None:
    with pytest.raises(ValueError, match=r"aic_backend: .*UTF-8"):
        MockEngineArgs(aic_backend="\udcff")


def test_all_range_errors_come_together() -> None:
    with pytest.raises(ValueError, match=r"max_num_seqs: got 0.*; dp_size: got 0"):
        MockEngineArgs(max_num_seqs=0, dp_size=0)


def test_constructor_choices_are_lower_case() -> None:
    with pytest.raises(ValueError, match="FIFO"):
        MockEngineArgs(preemption_mode="FIFO")
    assert MockEngineArgs.from_json('{"preemption_mode": "FIFO"}').preemption_mode == "fifo"


def test_one_choice_may_be_in_capitals() -> None:
    assert MockEngineArgs(kv_transfer_timing_mode="Full_Prompt").kv_transfer_timing_mode == "full_prompt"


def test_positional_arguments() -> None:
    args = MockEngineArgs("vllm", 100, 16, None, 4096)
    assert json.loads(args.to_json()) == {
        "engine_type": "vllm",
        "num_gpu_blocks": 100,
        "block_size": 16,
        "max_num_seqs": None,
        "max_num_batched_tokens": 4096,
    }
    assert MockEngineArgs("vllm", speedup_ratio=2.0).speedup_ratio == 2.0
    with pytest.raises(TypeError, match="engine_type: got two values"):
        MockEngineArgs("vllm", engine_type="vllm")
    with pytest.raises(TypeError, match="positional"):
        MockEngineArgs(*[None] * 100)


def test_the_signature_lists_the_fields() -> None:
    parameters = inspect.signature(MockEngineArgs).parameters
    assert list(parameters)[:3] == ["engine_type", "num_gpu_blocks", "block_size"]
    assert set(parameters) == set(EngineFields.__annotations__)
    assert parameters["max_num_seqs"].default == 256
    assert parameters["num_gpu_blocks_override"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "engine_type: Literal['vllm', 'sglang', 'trtllm'] = 'vllm'" in pydoc.render_doc(
        MockEngineArgs, renderer=pydoc.plaintext
    )


def test_type_hints_can_be_resolved() -> None:
    for function in (MockEngineArgs.__init__, MockEngineArgs.with_overrides, ReasoningConfig.__init__):
        assert typing.get_type_hints(function)


SAME_TEXTS = [
    *(json.dumps(given) for given, _ in BAD_VALUES),
    '{"max_num_seqs": 0, "speedup_ratio": -1}',
    '{"blok_size": 1}',
    '{"entirely_else": 1}',
    '{"sglang": {"page": 1}}',
    '{"block_size": 16.0}',
    '{"block_size": "16"}',
    '{"block_size": null}',
    '{"enable_prefix_caching": 1}',
    '{"engine_type": "tensorrt"}',
    '{"bootstrap_port": -1}',
    '{"reasoning": {"start_thinking_token_id": 1, "end_thinking_token_id": 2}}',
    '{"reasoning": 5}',
    "[]",
    "null",
]


@pytest.mark.parametrize("text", SAME_TEXTS)
def test_python_and_go_say_the_same(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    from dynamo.replay.main import main

    with pytest.raises(ValueError, match=r".") as from_python:
        MockEngineArgs.from_json(text)
    synthetic = ["--input-tokens", "20", "--output-tokens", "3", "--request-count", "5", "--extra-engine-args"]
    assert main([*synthetic, text]) == 2
    assert str(from_python.value) in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"block_size": 16} true', '{"block_size": 16, "block_size": 32}', '{"speedup_ratio": NaN}', "[" * 10**5],
)
def test_bad_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        MockEngineArgs.from_json(text)


def test_legacy_worker_types() -> None:
    assert MockEngineArgs.from_json('{"is_prefill": true}').is_prefill()
    assert MockEngineArgs.from_json('{"is_decode": true}').worker_type == "decode"
    assert MockEngineArgs(worker_type="decode").is_decode()
    assert not MockEngineArgs().is_prefill()


def test_json_round_trip() -> None:
    args = MockEngineArgs(
        block_size=16,
        sglang=SglangArgs(page_size=16),
        reasoning=ReasoningConfig(1, 2, 0.5),
        aic_mtp_seed=2**64 - 1,
        trtllm={"capacity_scheduler_policy": "guaranteed_no_evict"},
    )
    again = MockEngineArgs.from_json(args.to_json())
    assert again == args
    assert again.aic_mtp_seed == 2**64 - 1
    assert again.sglang.page_size == 16
    assert again.reasoning == ReasoningConfig(start_thinking_token_id=1, end_thinking_token_id=2, thinking_ratio=0.5)


def test_copies_are_independent() -> None:
    args = MockEngineArgs(block_size=16, sglang={"page_size": 16})
    for twin in (args.copy(), copy.copy(args), copy.deepcopy(args), pickle.loads(pickle.dumps(args))):
        assert twin == args
        twin.num_gpu_blocks = 5
        assert twin != args
    assert args.num_gpu_blocks == 16384


def test_with_overrides() -> None:
    args = MockEngineArgs(block_size=16, num_gpu_blocks=100)
    changed = args.with_overrides(num_gpu_blocks=50, worker_type="prefill", enable_prefix_caching=None, aic_tp_size=4)  # type: ignore[arg-type]
    assert (changed.block_size, changed.num_gpu_blocks, changed.worker_type, changed.aic_tp_size) == (
        16,
        50,
        "prefill",
        4,
    )
    assert args.num_gpu_blocks == 100
    with pytest.raises(ValueError, match="num_gpu_blocks"):
        args.with_overrides(num_gpu_blocks=0)


def test_what_can_be_set() -> None:
    args = MockEngineArgs()
    args.enable_prefix_caching = False
    args.worker_type = "decode"
    args.aic_tp_size = 8
    args.gpu_memory_utilization = 0.5
    assert not args.enable_prefix_caching
    with pytest.raises(AttributeError):
        args.block_size = 16
    with pytest.raises(AttributeError):
        args.nonsense = 1
    with pytest.raises(ValueError, match="num_gpu_blocks"):
        args.num_gpu_blocks = 0
    with pytest.raises(TypeError, match="num_gpu_blocks"):
        args.num_gpu_blocks = 1.5


def test_equality_is_of_meaning() -> None:
    assert MockEngineArgs() == MockEngineArgs(block_size=64, num_gpu_blocks=None, preemption_mode="lifo")
    assert MockEngineArgs() != MockEngineArgs(block_size=32)
    assert MockEngineArgs() != {}
    assert SglangArgs() == SglangArgs(page_size=None)


def test_unknown_attributes() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = MockEngineArgs().nonsense
    assert not hasattr(MockEngineArgs(), "_nonsense")
    assert "block_size" in dir(MockEngineArgs())


def test_the_typed_keywords_are_those_of_the_table() -> None:
    assert set(EngineFields.__annotations__) == set(fields_of(None)) - {"is_prefill", "is_decode", "has_perf_model"}


def test_both_modules_have_the_classes() -> None:
    for name in ("MockEngineArgs", "ReasoningConfig", "SglangArgs"):
        assert getattr(dynamo.llm, name) is getattr(dynamo.mocker, name)


def test_arguments_reach_the_engine() -> None:
    small = run_synthetic_trace_replay(200, 8, 20, extra_engine_args=MockEngineArgs(max_num_seqs=1))
    large = run_synthetic_trace_replay(200, 8, 20, extra_engine_args=MockEngineArgs(max_num_seqs=None))
    assert small["duration_ms"] > large["duration_ms"]


@pytest.mark.parametrize(
    ("fields", "rates"),
    [
        ({}, None),
        ({"aic_nextn": 2}, "0.85,0.3"),
        ({"aic_nextn": 3, "aic_nextn_accept_rates": "1,0.5"}, "1,0.5,0"),
        ({"aic_nextn": 2, "aic_nextn_accept_rates": " "}, "0.85,0.3"),
        ({"aic_nextn": 1, "aic_nextn_accept_rates": "0.50 , 0.25"}, "0.5"),
        ({"aic_nextn": 5, "aic_nextn_accept_rates": "1e-7,.5,1e-20,1."}, "0.0000001,0.5,0.00000000000000000001,1,0"),
    ],
)
def test_accept_rates_are_padded(fields: dict[str, Any], rates: str | None) -> None:
    args = MockEngineArgs(**fields)
    assert args.aic_nextn_accept_rates == rates
    assert args.copy().aic_nextn_accept_rates == rates
    assert MockEngineArgs.from_json(json.dumps(fields)).aic_nextn_accept_rates == rates


def test_padded_rates_mean_the_same() -> None:
    short = MockEngineArgs(aic_nextn=3, aic_nextn_accept_rates="1,0.5")
    assert short == MockEngineArgs(aic_nextn=3, aic_nextn_accept_rates="1.0,0.50,0")
    assert short.with_overrides(aic_nextn=4).aic_nextn_accept_rates == "1,0.5,0,0"


def test_two_sizes_of_a_page() -> None:
    message = "^sglang.page_size: got 16, want the same as block_size, 8$"
    sglang: dict[str, Any] = {"engine_type": "sglang", "sglang": SglangArgs(page_size=16)}
    with pytest.raises(ValueError, match=message):
        MockEngineArgs(block_size=8, **sglang)
    with pytest.raises(ValueError, match=message):
        MockEngineArgs.from_json('{"engine_type": "sglang", "block_size": 8, "sglang": {"page_size": 16}}')
    args = MockEngineArgs(**sglang)
    with pytest.raises(ValueError, match=message):
        args.with_overrides(block_size=8)
    assert args.block_size == MockEngineArgs(block_size=16, **sglang).block_size == 16
    assert MockEngineArgs(block_size=8, sglang=SglangArgs(page_size=16)).block_size == 8  # vLLM does not look at it
