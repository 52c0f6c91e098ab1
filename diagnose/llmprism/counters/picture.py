"""Two pictures of a diagnosis: ports by time ordered by job, and spectra of the jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmprism.counters.rhythm import autocorrelation, profile, smoothed
from prism_common.errors import Problem, UserError
from prism_common.files import made_by, replacing
from prism_common.quantities import duration

if TYPE_CHECKING:
    from llmprism.counters.diagnosing import CounterDiagnosis

_COLUMNS = 1200
_DPI = 110
_TALLEST_IN = 9.0
_CYCLES = 6


def _pyplot() -> Any:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        how = "pip install 'llmprism[pictures]'"
        raise UserError(Problem("pictures need matplotlib", "--picture", how)) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def write_timeline(result: CounterDiagnosis, path: Path) -> None:
    """Draw each port as a line of its rate over time, ordered by job and role.

    A line is bright where its port moves as much as at its busiest; ports without a job come last.
    """
    pyplot = _pyplot()
    order, bounds = _order(result)
    if not order.size:
        raise UserError(Problem("no port has the traffic of a job", str(path)))
    shares = _shares(result, order)
    figure, axes = pyplot.subplots(figsize=(12, min(_TALLEST_IN, 2 + order.size / 60)))
    span_s = result.curves.span_ns / 1e9
    axes.imshow(shares, aspect="auto", cmap="magma", extent=(0, span_s, order.size, 0),
                interpolation="nearest", vmin=0, vmax=1)  # fmt: skip
    middles = [(low + high) / 2 for _, low, high in bounds]
    axes.set_yticks(middles, [name for name, _, _ in bounds])
    for _, low, _ in bounds[1:]:
        axes.axhline(low, color="white", linewidth=0.8)
    axes.set_xlabel("time [s]")
    axes.set_title("Rate of each NIC (row), relative to its busiest moments")
    _save(pyplot, figure, path)


def write_spectra(result: CounterDiagnosis, path: Path) -> None:
    """Draw the autocorrelation of each job, with the length of a step that follows from it."""
    pyplot = _pyplot()
    count = max(1, result.jobs.count)
    figure, all_axes = pyplot.subplots(
        count, 1, figsize=(12, 1.3 * count + 0.6), squeeze=False, constrained_layout=True
    )
    for number in range(result.jobs.count):
        axes, rhythm = all_axes[number, 0], result.rhythms[number]
        rows = result.jobs.members(number)
        like = autocorrelation(smoothed(profile(result.curves, rows), result.curves))
        bin_s = result.curves.bin_ns / 1e9
        shown_s = min(_CYCLES * rhythm.period_ns / 1e9 or 30.0, like.size * bin_s / 2)
        size = max(2, int(shown_s / bin_s))
        axes.plot(np.arange(size) * bin_s, like[:size], linewidth=1.0)
        text = duration(rhythm.period_ns) if rhythm.period_ns else "unknown"
        if rhythm.period_ns:
            axes.axvline(rhythm.period_ns / 1e9, color="tab:red", linewidth=0.8)
        servers = len({result.curves.ports[row] for row in rows})
        axes.set_ylabel(f"job-{number}")
        axes.set_title(f"{servers} NICs, step {text}", fontsize=9, loc="left")
        axes.set_ylim(-1, 1.05)
    all_axes[-1, 0].set_xlabel("shift [s]")
    _save(pyplot, figure, path)


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


def _save(pyplot: Any, figure: Any, path: Path) -> None:
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in ("png", "svg", "pdf"):
        raise UserError(Problem(f"no picture can be a {kind!r}", str(path), "name a .png or .svg"))
    mark = {"png": "Software", "svg": "Creator", "pdf": "Creator"}[kind]
    metadata = {mark: made_by("llmprism")}
    with replacing(path) as partial:
        figure.savefig(partial, dpi=_DPI, format=kind, bbox_inches="tight", metadata=metadata)
    pyplot.close(figure)
