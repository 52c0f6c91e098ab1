"""Simulate, diagnose and score, and write the pages in results/reference.

    python -m evaluation reference captures    both methods on the committed real captures
    python -m evaluation reference scores      bundled scenarios, several seeds
    python -m evaluation reference timeline    an imported timeline compared with the measured one
    python -m evaluation reference workloads   published training runs: step times and bytes

This program computes every figure of those pages. The text is in ``evaluation/templates``.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd

from evaluation.paths import REFERENCE, ROOT, TEMPLATES
from evaluation.reference.captures import COLUMNS, export_rows, known_windows_error, steps_of_jobs
from llmprism.pipeline import diagnose
from prism_common.errors import Problem, UserError
from prism_sim.loading.loader import load
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.render.pages import render_page
from prism_sim.run_folder import Run
from prism_sim.scenario.words import did_you_mean
from prism_sim.score import score_run
from prism_sim.simulate import simulate, simulated

CAPTURES = ROOT / "tests" / "fixtures" / "captures"
LAB = ROOT / "tests" / "fixtures" / "lab"
METHODS = ("paper", "prism")
SEEDS = (1, 2, 3, 4, 5)


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


def scores() -> str:
    rows = []
    for name in ("tiny/clean", "tiny/quickstart", "tiny/pair"):
        results = [_scored(name, seed) for seed in SEEDS]
        rows.append([f"`{name}`", *(_mean_of(results, path) for path in SCORED)])
    head = ["scenario", "jobs", "pair types", "coverage", "step error", "DP-end error", "recall",
            "precision"]  # fmt: skip
    return page("scores", seeds=SEEDS, table=table(head, rows))


SCORED = (
    "jobs.accuracy",
    "pairs.accuracy",
    "timeline.coverage",
    "timeline.step_error_mean",
    "timeline.dp_end_error_mean",
    "faults.recall",
    "faults.precision",
)


def _scored(name: str, seed: int) -> dict[str, Any]:
    scenario = load(ROOT / "scenarios" / f"{name}.yaml", {"seed": seed})
    with simulated(scenario) as run:
        diagnose(run.flows, run.topology, method="paper").write(run.diagnosis_folder)
        return score_run(run).to_json()


def _mean_of(results: list[dict[str, Any]], path: str) -> str:
    part, name = path.split(".")
    values = [r[part][name] for r in results if r[part][name] is not None]
    if not values:
        return "-"
    return percent(mean(values)) if "error" in name else figure(mean(values))


def timeline() -> str:
    """Compare the published timeline of a job with a simulation that has its compute times."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "measured.yaml"
        path.write_text(TIMELINE_SCENARIO.format(file=MEASURED))
        run, level = Run(Path(temporary) / "run"), Run(Path(temporary) / "level")
        simulate(load(path), run)
        simulate(_level(run), level)
        spans, steps = run.truth("spans"), run.truth("steps")
        slower = _mean_step_ns(steps) / _mean_step_ns(level.truth("steps"))
        found = _diagnosed(run)
    ops = pd.read_parquet(MEASURED)
    start = ops["start_ts"].astype(float)
    measured = _parts(ops["optype"], ops["step"], start, start + ops["duration"], MEASURED_PASSES)
    kind, begin, end = spans["kind"], spans["start_ns"] / 1e9, spans["end_ns"] / 1e9
    ours = _parts(kind, spans["step"], begin, end, ("fwd", "bwd", "opt"))
    rows = []
    for part, true_s in measured.items():
        made_s = ours[part]
        share = abs(made_s - true_s) / measured["first forward to last update"]
        shown = [
            f"{1000 * value:.1f}"
            for value in (true_s.mean(), made_s.mean(), (made_s - true_s).mean())
        ]
        spread = [percent(float(share.mean())), percent(float(share.quantile(0.95)))]
        rows.append([part, *shown, *spread, percent(float(share.max()))])
    head = ["part", "measured, ms", "simulated, ms", "bias, ms", "mean error", "p95", "max"]
    return page("timeline", table=table(head, rows), slower=slower, found=found)


def _diagnosed(run: Run) -> str:
    """The findings of ``prism`` about a job, in a sentence."""
    found = diagnose(run.flows, run.topology).findings
    if found.empty:
        return "It finds nothing."
    named = [
        f"`{row.cause}`, {row.culprit}, steps {row.first_step} to {row.last_step}, which makes "
        f"steps {percent(json.loads(row.evidence)['step_share'])} longer than even work would"
        for row in found.itertuples()
    ]
    return f"Its findings: {'; '.join(named)}."


MEASURED = ROOT.parent / "shared" / "data" / "public" / "trace-ST.parquet"
MEASURED_PASSES = ("forward-compute", "backward-compute", "optimizer")
TIMELINE_SCENARIO = """\
cluster: {{servers: 8, gpus_per_server: 1, nics_per_server: 1, fabric: {{kind: rail}}}}
jobs:
  - name: measured
    model: {{layers: 8, hidden: 4096, heads: 32, vocab: 32000, sequence_length: 2048}}
    trace: {{kind: timeline, file: {file}}}
    overlap_gradients: false
    sync_embeddings: true
    gradient_norm: true
"""


def _level(run: Run) -> Scenario:
    """The scenario of ``run`` with the mean duration of its kind for every pass."""
    scenario = Scenario.model_validate(run.read_json(run.manifest)["scenario"])
    values = scenario.model_dump(mode="json")
    ((_, job),) = scenario.modelled
    assert job.timings is not None
    passes = np.array(job.timings.passes_ns)
    level = np.broadcast_to(np.rint(passes.mean((0, 1, 2, 4), keepdims=True)), passes.shape)
    values["jobs"][0]["trace"]["timings"]["passes_ns"] = level.astype(int).tolist()
    return Scenario.model_validate(values)


def _mean_step_ns(steps: pd.DataFrame) -> float:
    return float((steps["end_ns"] - steps["start_ns"]).mean())


def _parts(
    kind: pd.Series, step: pd.Series, start: pd.Series, end: pd.Series, passes: tuple[str, str, str]
) -> dict[str, pd.Series]:
    """Duration of each part of every step [s], in the order of the steps."""
    forward, backward, update = (kind == name for name in passes)
    first_forward = start[forward].groupby(step[forward]).min()
    last_backward = end[backward].groupby(step[backward]).max()
    last_update = end[update].groupby(step[update]).max()
    parts = {
        "first forward to last backward": last_backward - first_forward,
        "after the last backward": last_update - last_backward,
        "first forward to last update": last_update - first_forward,
    }
    return {name: part.reset_index(drop=True) for name, part in parts.items()}


def workloads() -> str:
    from evaluation.reference.workloads import values

    return page("workloads", **values())


TABLES: dict[str, Callable[[], str]] = {
    "captures": captures,
    "scores": scores,
    "timeline": timeline,
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
        if name == "timeline" and not MEASURED.exists():
            print(f"did not write timeline.md: {MEASURED} does not exist")
            continue
        text = TABLES[name]()
        (REFERENCE / f"{name}.md").write_text(text)
        print(f"wrote {(REFERENCE / f'{name}.md').relative_to(ROOT)}")
