"""The defaults of live workers' options, for ``parse_args`` and for ``--help``.

Most come from the tables that Go generates. Some options have none of their own: what stands in for them is decided
when the workers start, and only told here.
"""

from __future__ import annotations

from typing import Any

from dynamo.mocker.fields import fields_of, table

_DECIDED_LATER = {
    "startup_time": "0",
    "response_replay_trace_path": "none",
    "reasoning": "none",
    "planner_profile_data": "none",
    "sglang_schedule_policy": "fifo",
    "sglang_page_size": "1",
    "sglang_max_prefill_tokens": "16384",
    "sglang_chunked_prefill_size": "8192",
    "sglang_clip_max_new_tokens": "4096",
    "sglang_schedule_conservativeness": "1",
    "trtllm_capacity_scheduler_policy": "guaranteed_no_evict",
    "gpu_memory_utilization": "0.9",
    "mem_fraction_static": "0.88",
    "free_gpu_memory_fraction": "0.9",
    "num_g2_blocks": "none",
    "num_g3_blocks": "none",
    "offload_batch_size": "32",
    **dict.fromkeys(("bandwidth_g1_to_g2_gbps", "bandwidth_g2_to_g1_gbps"), "14"),
    **dict.fromkeys(("bandwidth_g2_to_g3_gbps", "bandwidth_g3_to_g2_gbps"), "7"),
    **dict.fromkeys(("bandwidth_g2_to_g4_gbps", "bandwidth_g4_to_g2_gbps"), "4"),
    "aic_system": "h200_sxm",
    "aic_backend": "--engine-type",
    "aic_backend_version": "vllm 0.19.0, sglang 0.5.10, trtllm 1.3.0rc10",
    "aic_tp_size": "1",
    "aic_attention_dp_size": "1",
    "aic_nextn": "none",
    "aic_nextn_accept_rates": "0.85,0.3,0,0,0",
    **dict.fromkeys(("bootstrap_ports", "zmq_kv_events_ports", "zmq_replay_ports"), "none"),
}


def default_of(option: str) -> Any:
    """The default of an option, its own or that of the engine argument that it sets; None if it is decided later."""
    own = fields_of(None, "live_options")[option].arg_default
    argument = table("live_options")["engine_args"].get(option)
    found = fields_of(None)[argument].arg_default if own is None and argument is not None else own
    return None if found == "" or (option == "block_size" and found == 0) else found


def described(flag: str, text: str) -> str:
    """What ``--help`` says of an option: the text, which may name the default, else with the default behind it."""
    if "default" in text:
        return text
    option = flag.removeprefix("--").replace("-", "_")
    known = fields_of(None, "live_options")
    default = default_of(option) if option in known else None
    shown = _DECIDED_LATER.get(option) if default is None else f"{default}"
    return text if shown is None else f"{text} (default: {shown})"
