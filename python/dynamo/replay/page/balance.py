"""How evenly a run used its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo.replay.figures import Figures

MOST_WORKERS = 64
"""With more, those with the most and with the least tokens are listed."""
_POOLS = (("prefill_worker_idx", "prefill worker"), ("decode_worker_idx", "worker"))


def table(report: Figures) -> str:
    """Returns what each worker had to do, and how far the busiest is from the mean."""
    found = [text for column, name in _POOLS if (text := _pool(report, column, name))]
    return "\n".join(found) or "<p class=none>No request reached a worker.</p>"


def _pool(report: Figures, column: str, name: str) -> str:
    import numpy as np

    rows = report.requests
    worker = rows[column]
    here = worker >= 0
    if not here.any():
        return ""
    split = column == "decode_worker_idx" and (rows["prefill_worker_idx"] >= 0).any()
    computes, emits = not split, column == "decode_worker_idx"
    count, worker = int(worker.max()) + 1, worker[here]
    sums = {
        "requests": np.bincount(worker, minlength=count),
        "prompt": np.bincount(worker, weights=rows["input_length"][here], minlength=count),
        "reused": np.bincount(worker, weights=np.maximum(rows["reused_input_tokens"][here], 0), minlength=count),
        "output": np.bincount(worker, weights=rows["output_length"][here], minlength=count),
    }
    load = sums["output" if emits else "prompt"]
    most = float(load.max()) or 1.0
    title = "decode worker" if split else name
    heads = [title, "requests"]
    heads += ["prompt tokens", "reused"] if computes else []
    heads += ["output tokens"] if emits else []
    head = "".join(f"<th scope=col class={'text' if not at else 'number'}>{text}</th>" for at, text in enumerate(heads))
    body = "".join(_row(at, sums, computes, emits, load[at] / most) for at in _listed(load))
    what = "output tokens" if emits else "prompt tokens"
    return (
        f"<p>{_verdict(load, title, what)}</p>\n"
        f'<div class="scroll" tabindex="0"><table class="balance"><thead><tr>{head}<th scope=col>share</th></tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _listed(load: Any) -> list[int]:
    if len(load) <= MOST_WORKERS:
        return list(range(len(load)))
    order = load.argsort(kind="stable").tolist()
    return sorted([*order[: MOST_WORKERS // 2], *order[-(MOST_WORKERS // 2) :]])


def _row(at: int, sums: dict[str, Any], computes: bool, emits: bool, share: float) -> str:
    prompt = sums["prompt"][at]
    cells = [f"{sums['requests'][at]:,}"]
    cells += [f"{prompt:,.0f}", f"{100 * sums['reused'][at] / prompt:.1f} %" if prompt else "–"] if computes else []
    cells += [f"{sums['output'][at]:,.0f}"] if emits else []
    data = "".join(f"<td>{cell}</td>" for cell in cells)
    return f"<tr><td class=text>{at}</td>{data}<td><meter max=1 value={share:.3f}></meter></td></tr>\n"


def _verdict(load: Any, title: str, what: str) -> str:
    if len(load) < 2:
        return f"One {title} did everything."
    mean = float(load.mean()) or 1.0
    left = f"; {len(load) - MOST_WORKERS:,} in the middle are not listed" if len(load) > MOST_WORKERS else ""
    return (
        f"{len(load):,} {title}s. The busiest had {float(load.max()) / mean:.2f} times the mean of {what},"
        f" the idlest {float(load.min()) / mean:.2f} times{left}."
    )
