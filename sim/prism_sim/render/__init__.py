"""Figures, report and trace of a run: pure functions of the saved run.

:mod:`~prism_sim.render.figures` draws, :mod:`~prism_sim.render.report` makes the page,
:mod:`~prism_sim.render.trace` the Perfetto trace, :mod:`~prism_sim.render.table` the table on the
terminal. Nothing here computes a result or reads anything but the run folder.
"""

from __future__ import annotations

from collections.abc import Callable

from prism_sim.run_folder import Run

Progress = Callable[[float, str], None]
"""Receives the fraction done in [0, 1] and a description of the present work."""


def render_run(run: Run, progress: Progress | None = None) -> None:
    """Write ``trace.json``, ``report.html`` and ``figures/*.png`` of ``run``.

    Parts that the run does not have (truth, diagnosis, score) are reported as missing.
    """
    from llmprism.page import reading

    with reading.reading_once():
        _render(run, progress or _ignore)


def _render(run: Run, report: Progress) -> None:
    from llmprism.page.tables import Tables
    from prism_sim.render.figures import FIGURES
    from prism_sim.render.logged import failures
    from prism_sim.render.paint import write_png
    from prism_sim.render.report import render_report
    from prism_sim.render.trace import render_trace

    report(0.0, "writing the trace")
    tables = Tables.of(run.folder)
    logged = failures(run)
    render_trace(run, tables=tables, logged=logged)
    drawn = {}
    for place, (name, picture) in enumerate(FIGURES.items()):
        report(0.25 + 0.5 * place / len(FIGURES), f"drawing: {picture.title.lower()}")
        drawn[name] = picture.draw(run)
        write_png(drawn[name], run.folder / "figures" / f"{name}.png")
    report(0.75, "writing the report")
    render_report(run, drawn, tables, logged)
    report(1.0, "rendered")


def _ignore(fraction: float, what: str) -> None:
    """Report no progress."""
    del fraction, what


__all__ = ["Progress", "render_run"]
