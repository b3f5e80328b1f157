"""Names of ai-dynamo that this package lacks, each with what does its work here."""

from __future__ import annotations

_CAPACITY = (
    "the highest rate that keeps a service level is found by dynamo.sweep with load: find_max_rate (docs/sweeps.md)"
)
_PREDICTIONS = "durations are predicted for MockEngineArgs(aic_backend=..., aic_system=..., aic_model_path=...)"

INSTEAD = {
    "AicEngineConfig": _PREDICTIONS,
    "AisPerfConfig": "AicPerfConfig has the GPUs for which the router predicts prompts",
    "EngineCapacity": _CAPACITY,
    "EngineCapacityRequest": _CAPACITY,
    "EnginePerfLimits": "MockEngineArgs(max_num_batched_tokens=..., max_num_seqs=..., num_gpu_blocks=...) sets them",
    "OptimizationTarget": "the objectives of dynamo.sweep say what is optimized (docs/sweeps.md)",
    "RustEnginePerfModel": _PREDICTIONS,
    "RustEnginePerfOptions": _PREDICTIONS,
}
"""What there is in place of each."""


def missing(module: str, name: str) -> ImportError:
    """Returns the error of an import of such a name."""
    return ImportError(f"{name} of ai-dynamo is not part of dynosim: {INSTEAD[name]}", name=module)
