"""Simulate, diagnose and score, and write the pages in results/reference.

    python -m evaluation reference captures    both methods on the committed real captures
    python -m evaluation reference workloads   published training runs: step times and bytes

This program computes every figure of those pages. The text is in ``evaluation/templates``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from evaluation.paths import REFERENCE, ROOT, TEMPLATES
from evaluation.reference.captures import COLUMNS, export_rows, known_windows_error, steps_of_jobs
from llmprism.pipeline import diagnose
from prism_common.errors import Problem, UserError
from prism_sim.render.markdown import table
from prism_sim.render.pages import render_page
from prism_sim.run_folder import Run
from prism_sim.scenario.words import did_you_mean
from prism_sim.score import score_run

CAPTURES = ROOT / "tests" / "fixtures" / "captures"
LAB = ROOT / "tests" / "fixtures" / "lab"
METHODS = ("paper", "prism")


def figure(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def score_capture(case: Path, flows: str, folder: Path, method: str) -> dict[str, Any]:
    """Score one method on one capture, in a copy of its folder.

    ``known_windows`` is the DP-end error of a reader that knows the truth; ``beyond_host_work`` the
    step error beyond what host work explains, of the job in which it is largest.
    """
    shutil.copytree(case, folder)
    shutil.copy(case / flows, folder / "flows.parquet")
    run = Run(folder)
    diagnose(run.flows, run.topology, method=method).write(run.diagnosis_folder)
    jobs = [job["beyond_host_work"] for job in steps_of_jobs(run)]
    return {
        **score_run(run).to_json(),
        "known_windows": known_windows_error(run),
        "beyond_host_work": max((error for error in jobs if error is not None), default=None),
    }


def capture_folders() -> list[Path]:
    """All committed captures: the given ones, then those of the lab."""
    return [*sorted(CAPTURES.glob("*/")), *sorted(LAB.glob("*/"))]


def capture_rows(cases: Iterable[Path], method: str) -> list[list[str]]:
    """Rows of the page: each capture at two idle gaps."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for case in cases:
            for gap, flows in (("5 ms", "flows.parquet"), ("2 ms", "flows_gap2ms.parquet")):
                s = score_capture(case, flows, Path(temporary) / f"{case.name}-{gap}", method)
                rows.append(_capture_row(case.name, gap, s))
    return rows


def captures() -> str:
    folders = capture_folders()
    tables = {method: table(CAPTURE_COLUMNS, capture_rows(folders, method)) for method in METHODS}
    return page("captures", **tables, exports=table(COLUMNS, export_rows(folders)))


CAPTURE_COLUMNS = (
    "capture", "idle gap", "set aside", "jobs exact", "pair types", "without refinement",
    "coverage", "step error", "step error, all", "beyond host work", "DP-end error",
    "with known windows", "faults found", "precision",
)  # fmt: skip


def _capture_row(name: str, gap: str, s: dict[str, Any]) -> list[str]:
    jobs, pairs, timeline, faults = (s[k] for k in ("jobs", "pairs", "timeline", "faults"))
    intake = s["meta"]["intake"]
    return [
        f"`{name}`",
        gap,
        f"{intake['rows'] - intake['kept']} of {intake['rows']}",
        f"{jobs['exact']} of {jobs['true']}",
        figure(pairs["accuracy"]),
        figure(pairs["accuracy_unrefined"]),
        figure(timeline["coverage"]),
        percent(timeline["step_error_mean"]),
        percent(timeline["step_error_all_mean"]),
        percent(s["beyond_host_work"]),
        percent(timeline["dp_end_error_mean"]),
        percent(s["known_windows"]),
        f"{faults['detected']} of {faults['injected']}",
        figure(faults["precision"]),
    ]


def workloads() -> str:
    from evaluation.reference.workloads import values

    return page("workloads", **values())


TABLES: dict[str, Callable[[], str]] = {
    "captures": captures,
    "workloads": workloads,
}


def page(name: str, **values: Any) -> str:
    """The page from the template of this name with ``values``."""
    return render_page(TEMPLATES, name, **values)


def write(names: Sequence[str]) -> None:
    """Write the pages with these names; all if there are none.

    Raises
    ------
    UserError : there is no such page.
    """
    for name in names:
        if name not in TABLES:
            raise UserError(Problem(f"there is no page {name!r}", name, did_you_mean(name, TABLES)))
    for name in names or TABLES:
        text = TABLES[name]()
        (REFERENCE / f"{name}.md").write_text(text)
        print(f"wrote {(REFERENCE / f'{name}.md').relative_to(ROOT)}")
