"""A picture of a diagnosis: ports by time, ordered by job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_common.errors import Problem, UserError
from prism_common.files import made_by, replacing

if TYPE_CHECKING:
    from llmprism.counters.diagnosing import CounterDiagnosis

_COLUMNS = 1200
_DPI = 110
_TALLEST_IN = 9.0


def write_timeline(result: CounterDiagnosis, path: Path) -> None:
    """Draw each port as a line of its rate over time, ordered by job and role.

    A line is bright where its port moves as much as at its busiest; ports without a job come last.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        how = "pip install 'llmprism[pictures]'"
        raise UserError(Problem("pictures need matplotlib", "--picture", how)) from error
    order, bounds = _order(result)
    if not order.size:
        raise UserError(Problem("no port has the traffic of a job", str(path)))
    shares = _shares(result, order)
    figure = Figure(figsize=(12, min(_TALLEST_IN, 2 + order.size / 60)))
    axes = figure.subplots()
    span_s = result.curves.span_ns / 1e9
    axes.imshow(shares, aspect="auto", cmap="magma", extent=(0, span_s, order.size, 0),
                interpolation="nearest", vmin=0, vmax=1)  # fmt: skip
    middles = [(low + high) / 2 for _, low, high in bounds]
    axes.set_yticks(middles, [name for name, _, _ in bounds])
    for _, low, _ in bounds[1:]:
        axes.axhline(low, color="white", linewidth=0.8)
    axes.set_xlabel("time [s]")
    axes.set_title("Rate of each NIC (row), relative to its busiest moments")
    _save(figure, path)


def _order(result: CounterDiagnosis) -> tuple[Any, list[tuple[str, int, int]]]:
    """Ports in the order of the picture, and the rows of each job."""
    order: list[int] = []
    bounds = []
    sums = result.curves.moved.sum(axis=(1, 2))
    for job in [*range(result.jobs.count), -1]:
        rows = np.flatnonzero((result.jobs.job == job) & (result.jobs.busy | (job >= 0)))
        if rows.size:
            name = f"job-{job}" if job >= 0 else "no job"
            bounds.append((name, len(order), len(order) + rows.size))
            order += rows[np.argsort(-sums[rows], kind="stable")].tolist()
    return np.array(order, np.int64), bounds


def _shares(result: CounterDiagnosis, order: Any) -> Any:
    """Rates relative to the 95th percentile of each port, shape (ports, columns)."""
    traffic = result.curves.exchanged(order)
    width = max(1, -(-traffic.shape[1] // _COLUMNS))
    count = traffic.shape[1] // width
    rates = traffic[:, : count * width].reshape(order.size, count, width).sum(axis=2)
    top = np.quantile(rates, 0.98, axis=1, keepdims=True)
    return np.clip(rates / np.maximum(top, 1e-9), 0, 1)


def _save(figure: Any, path: Path) -> None:
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in ("png", "svg", "pdf"):
        raise UserError(Problem(f"no picture can be a {kind!r}", str(path), "name a .png or .svg"))
    mark = {"png": "Software", "svg": "Creator", "pdf": "Creator"}[kind]
    metadata = {mark: made_by("llmprism")}
    with replacing(path) as partial:
        figure.savefig(partial, dpi=_DPI, format=kind, bbox_inches="tight", metadata=metadata)
