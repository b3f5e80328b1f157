"""What the durations of a run are of, and how far such durations were from measured ones: the same words everywhere.

They are made of ``provenance["durations"]`` of a report (gocore/job/durations.go), one object for each pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Durations = Sequence[Mapping[str, Any]]

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
# For whose tokens ranks in lockstep compute expert layers.
_EXPERTS = {
    "all_ranks": "expert layers for the tokens of all ranks",
    "slowest_rank": "a pass of ranks as long as that of the slowest alone",
}
# Whose error a figure has, by the end of its name. No regular expressions: each would be compiled at the start of every
# command.
_KINDS = (
    ("ttft", ("_ttft_ms",)),
    ("tpot", ("_tpot_ms", "_itl_ms", "_token_gap_ms", "output_token_throughput_per_user")),
    ("larger", ("_e2e_latency_ms",)),
)
_OF_TPOT = "tok_s_per_user"


class Errors(NamedTuple):
    """Median errors of simulated means against measured ones, as parts of these."""

    ttft: float
    tpot: float
    measurements: int

    def of(self, figure: str) -> float | None:
        """Returns the error of a figure, None where none is known. A whole latency has the larger one."""
        kind = next((kind for kind, ends in _KINDS if figure.endswith(ends)), "tpot" if figure == _OF_TPOT else None)
        parts = {"ttft": self.ttft, "tpot": self.tpot, "larger": max(self.ttft, self.tpot)}
        return None if kind is None else parts[kind]


def of(report: Mapping[str, Any]) -> Durations:
    """Returns what a report says of its durations, nothing if it is of an older release."""
    found: Durations = report.get("provenance", {}).get("durations", ())
    return found


def line(found: Durations) -> str:
    """Returns what durations are of in one line, ``""`` if nothing is known of it."""
    if not found:
        return ""
    each = [_pool(pool) for pool in found]
    if len(set(each)) == 1:
        return f"durations: {each[0]}"
    return "durations: " + "; ".join(f"of {pool['pool']}: {text}" for pool, text in zip(found, each, strict=True))


def _pool(pool: Mapping[str, Any], *, in_words: bool = False) -> str:
    source = _source(pool)
    parts = [f"predictions of AIConfigurator's SDK ({source})" if in_words and "system" in pool else source]
    if (experts := pool.get("experts")) is not None:
        parts.append(_EXPERTS.get(experts, experts))
    if (used := pool.get("calibration")) is not None:
        measured = f", measured in {used['measured_in'].upper()}" if "measured_in" in used else ""
        kernels = f", kernels: {used['kernels']}" if "kernels" in used else ""
        entry = f"calibration {used['profile']} ({used['level']}{measured}{kernels})"
        parts.append(_correction(used) if in_words else entry)
    if pool.get("knobs"):
        parts.append("knobs of your own")
    if (ratios := pool.get("speedup")) is not None:
        words = [f"{ratio:g} times as fast" for ratio in ratios]
        parts.append(words[0] if ratios[0] == ratios[1] else f"prefill {words[0]}, decode {words[1]}")
    return "; ".join(parts)


def _correction(used: Mapping[str, Any]) -> str:
    """What a calibration rests on, for readers who do not know its levels."""
    measured = f", which were in {used['measured_in'].upper()}" if "measured_in" in used else ""
    about = f"{used['measurements']} measurements of {_FITTED.get(used['level'], used['level'])}{measured}"
    kernels = f", with durations of other kernels ({used['kernels']})" if "kernels" in used else ""
    return f"corrected by {about} (calibration {used['profile']}){kernels}"


def _source(pool: Mapping[str, Any]) -> str:
    """Where durations come from, without what changes them."""
    if "system" in pool:
        precision = pool.get("precision", "")
        shown = f" {precision.upper()}" if precision and precision not in pool["model"].lower() else ""
        backend = f"{ENGINES.get(pool['backend'], pool['backend'])} {pool['backend_version']}"
        return f"AIC {pool['aic_release']}, {pool['system']}, {pool['model']}{shown}, {backend}"
    if "profile" in pool:
        return f"measured table {pool['profile']}"
    names = {"polynomial": "built-in polynomial, of no particular GPU", "fixed": "fixed, as given"}
    return names.get(pool["timing_model"], f"timing model {pool['timing_model']}")


def errors(found: Durations) -> Errors | None:
    """Returns the measured error of such durations, None if there is none."""
    if len(found) != 1 or (error := found[0].get("measured_error")) is None:
        return None
    return Errors(error["ttft"], error["tpot"], error["measurements"])


def error_line(found: Durations) -> str:
    """Returns the measured error in one line; for durations of AIC also that none is known, ``""`` for all others."""
    known = errors(found)
    if known is None:
        return "measured error: not known of this deployment" if any("system" in pool for pool in found) else ""
    text = (
        f"measured error of TTFT here {100 * known.ttft:.0f} %, TPOT {100 * known.tpot:.0f} %"
        f" ({known.measurements} rows, median)"
    )
    rules = found[0]["measured_error"]["scheduler"]
    if found[0]["scheduler"].partition("-")[0] != rules:  # of whatever release
        text += f", by {ENGINES.get(rules, rules)}'s own rules, which this run does not follow"
    return text


# What measurements are of, by the level of what is expected.
_KIN = {
    "model": "this model on this GPU",
    "kin": "this model on all GPUs",
    "gpu": "all models on this GPU",
    "engine": "all models of this engine",
}


def _expected(found: Durations) -> Mapping[str, Any] | None:
    """Returns where measurements are to be expected; None with two pools, or if nothing is known."""
    return found[0].get("expected") if len(found) == 1 else None


def expected_line(found: Durations) -> str:
    """Returns where measurements are to be expected in one line, ``""`` if nothing is known."""
    if (expected := _expected(found)) is None:
        return ""
    spans = [f"{metric.upper()} {expected[metric][0]:.2f} to {expected[metric][1]:.2f}" for metric in ("ttft", "tpot")]
    about = f"{_KIN[expected['level']]}, {expected['measurements']} rows"
    return f"80 % of measurements are expected at {' and '.join(spans)} times the simulated one ({about})"


def hand_off_line(found: Durations) -> str:
    """Returns how long the KV between two pools takes in one line, ``""`` with one pool."""
    link = next((pool["hand_offs"] for pool in found if "hand_offs" in pool), None)
    if link is None:
        return ""
    if "ms_per_block" in link:
        return f"hand-offs of KV: {link['ms_per_block']:g} ms per block"
    size, bandwidth = link["bytes_per_token"], link["bandwidth_gb_s"]
    if not size or bandwidth <= 0:
        return "hand-offs of KV: take no time"
    assumed = link.get("assumed", [])
    of_model = " (of the model)" if "kv_bytes_per_token" in assumed else ""
    not_given = " (assumed)" if "kv_transfer_bandwidth" in assumed else ""
    return f"hand-offs of KV: {size:,} bytes of a token{of_model}, {bandwidth:g} GB/s{not_given}"


# The same of what a calibration was fitted to: an entry of a level is used where none of those before fits.
_FITTED = {
    "model": "this model on this GPU",
    "kin": "this model on other GPUs or in other precisions",
    "gpu": "other models on this GPU",
    "engine": "this engine on other GPUs",
}


def caveat(found: Durations) -> str:
    """Returns how far measured latencies may be from simulated ones, in half a sentence."""
    if (known := errors(found)) is not None:
        return (
            f"measured latencies were {100 * known.ttft:.0f} % (TTFT) and {100 * known.tpot:.0f} % (time between "
            f"tokens) off in the median of {known.measurements} measurements"
        )
    if (expected := _expected(found)) is not None:
        first, gaps = (f"{expected[metric][0]:.2f} to {expected[metric][1]:.2f}" for metric in ("ttft", "tpot"))
        return (
            f"80 % of measured latencies are expected at {first} times the simulated TTFT and {gaps} times the "
            "simulated time between tokens"
        )
    return "how far measured latencies are from simulated ones is not known"


def in_words(found: Durations) -> list[str]:
    """Returns whose durations these are, and how far off they may be, for readers who do not know this program."""
    each = {pool["pool"]: _pool(pool, in_words=True) for pool in found}
    if len(set(each.values())) == 1:
        each = {"": next(iter(each.values()))}
    said = [f"durations of passes{f' of {name}' if name else ''}: {text}" for name, text in each.items()]
    rest = caveat(found)
    if errors(found) is None and (expected := _expected(found)) is not None:
        about = f"{expected['measurements']} measurements of {_KIN[expected['level']]}"
        rest += f". That is from {about}; none is of this very deployment"
    return [text for text in (*said, hand_off_line(found), rest) if text]


def lines(found: Durations) -> list[str]:
    """Returns all these lines, as far as there are any."""
    return [text for text in (line(found), hand_off_line(found), error_line(found), expected_line(found)) if text]
