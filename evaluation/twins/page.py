"""Simulate the twins of real captures, compare them, and write the page.

    python -m evaluation twins

This program computes the figures of ``results/reference/twins.md``. The text is in
``evaluation/templates``, with the tables of investigations that are finished.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evaluation.paths import REFERENCE, ROOT, TEMPLATES
from evaluation.twins import lab_twins, likeness
from evaluation.twins.likeness import BARE, CONTROL, DATA, GAPS_MS, Observation
from llmprism.pipeline import diagnose
from prism_sim.loading.loader import load
from prism_sim.render.markdown import table
from prism_sim.render.pages import render_page
from prism_sim.run_folder import Run
from prism_sim.score import score_run
from prism_sim.simulate import simulate

LIMITS_MS = (1, 2, 5)
KINDS = ("allreduce", "all_reduce")
"""Name of an all-reduce in the truth of the captures, and in that of the simulator."""


def windows(run: Run) -> pd.DataFrame:
    """Times in which all ranks of a stage take part in an all-reduce, in order of their end.

    Columns: job, pp, step, number in the step (from 0), start and end [ns]. The all-reduces of a
    step run one after another, so each starts after the end of the one before it.
    """
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin(KINDS)].merge(run.truth("ranks")[["job", "rank", "pp"]])
    spans = spans.sort_values("end_ns")
    own = spans.groupby(["job", "rank", "step"])
    spans["number"] = own.cumcount()
    spans["start_ns"] = spans[["start_ns"]].assign(before=own["end_ns"].shift()).max(axis=1)
    by = spans.groupby(["job", "pp", "step", "number"], as_index=False)
    return by.agg(start_ns=("start_ns", "max"), end_ns=("end_ns", "min"))


def silences(run: Run, flows: pd.DataFrame) -> pd.DataFrame:
    """Mean number of silences above 1, 2 and 5 ms for each all-reduce and connection.

    ``flows`` come from :func:`likeness.read`, with an idle gap of at most 1 ms. There is a row for
    each job, stage, number of the all-reduce and role of the pair.
    """
    stage_of = run.truth("ranks").set_index("address")["pp"]
    dp = flows[flows["role"].str.startswith("dp")]
    rows = []
    spans = dict(list(windows(run).groupby(["job", "pp", "number"])))
    for (job, role, _), own in dp.groupby(["job", "role", "pair"]):
        busiest = own.groupby(["src_port", "dst_port"])["payload"].transform("sum")
        own = own[busiest == busiest.max()].sort_values("start_ns")
        stage = stage_of[own["src"].iloc[0]]
        for (owner, pp, number), found in spans.items():
            if (owner, pp) == (job, stage):
                pauses_ms = _pauses_ms(own, found)
                counted = [(pauses_ms > limit).sum() / len(found) for limit in LIMITS_MS]
                rows.append((job, pp, number, role, *counted))
    columns = ["job", "stage", "number", "role", *(f"> {ms} ms" for ms in LIMITS_MS)]
    made = pd.DataFrame(rows, columns=columns)
    return made.groupby(["job", "stage", "number", "role"]).mean()


def _pauses_ms(own: pd.DataFrame, found: pd.DataFrame) -> NDArray[np.float64]:
    """Silences between the records of one connection that overlap the same window [ms]."""
    start, end = own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
    first = np.searchsorted(end, found["start_ns"], side="right")
    last = np.searchsorted(start, found["end_ns"], side="left")
    pauses = [start[a + 1 : b] - end[a : b - 1] for a, b in zip(first, last, strict=True) if b > a]
    return np.concatenate(pauses) * 1e-6 if pauses else np.empty(0)


CAPTURES = ROOT / "tests" / "fixtures" / "captures"
PAGE = REFERENCE / "twins.md"
SEEDS = (1, 2, 3, 4, 5)
DIAGNOSED_MS = 5
NAMES = ("b_dp4pp2", "c_two_jobs", "a2_ddp4")


class TwinComparison(NamedTuple):
    """A capture, and its twins of several seeds."""

    name: str
    real: Observation
    twins: Sequence[Observation]


class Measured(NamedTuple):
    """A capture and its twins, with their runs and scores."""

    runs: list[Run]
    case: TwinComparison
    score: dict[str, Any]
    scores: list[dict[str, Any]]

    def real(self, of: Callable[[Any], dict[str, float]], gap_ms: int) -> dict[str, float]:
        return of(likeness.coarser(self.case.real.flows, gap_ms * 1e6))

    def twin(self, of: Callable[[Any], dict[str, float]], gap_ms: int) -> dict[str, float]:
        """Mean over the seeds."""
        cut = (likeness.coarser(twin.flows, gap_ms * 1e6) for twin in self.case.twins)
        return likeness.mean_of([of(flows) for flows in cut])


def measured(name: str, folder: Path) -> Measured:
    """Simulate, diagnose and score a capture and its twins, in ``folder``."""
    capture = Run(shutil.copytree(CAPTURES / name, folder / name / "real"))
    real = likeness.read(capture, capture.folder / "flows_gap1ms.parquet")
    runs, twins, scores = [capture], [], []
    for seed in SEEDS:
        runs.append(run := Run(folder / name / str(seed)))
        simulate(load(ROOT / "scenarios" / "twins" / f"{name}.yaml", {"seed": seed}), run)
        twins.append(likeness.read(run))
        cut = likeness.coarser(twins[-1].flows, DIAGNOSED_MS * 1e6)
        cut.drop(columns=["job", "pair", "role"]).to_parquet(run.flows, index=False)
        pairs = run.truth("pairs")  # the captures' truth has no pairs with control traffic only
        run.write_truth("pairs", pairs[pairs["kind"] != "other"])
        scores.append(scored(run))
    return Measured(runs, TwinComparison(name, real, twins), scored(capture), scores)


def scored(run: Run) -> dict[str, Any]:
    diagnose(run.flows, run.topology, method="paper").write(run.diagnosis_folder)
    return score_run(run).to_json()


def silences_table(cases: Sequence[Measured]) -> str:
    first = cases[0]
    observations = [first.case.real, *first.case.twins]
    real, *twins = [
        silences(run, observation.flows)
        for run, observation in zip(first.runs, observations, strict=True)
    ]
    rows = []
    for key in real.index:
        _, stage, number, role = key
        cells = [
            f"{real.loc[key, name]:.2f} / {mean(twin.loc[key, name] for twin in twins):.2f}"
            for name in real
        ]
        rows.append([str(stage), str(number), role, *cells])
    return table(["stage", "all-reduce", "pairs", *(f"> {ms} ms" for ms in LIMITS_MS)], rows)


def counts_table(cases: Sequence[Measured]) -> str:
    rows = []
    for m in cases:
        for gap in GAPS_MS:
            real, twin = m.real(likeness.counts, gap), m.twin(likeness.counts, gap)
            each = [len(likeness.coarser(t.flows, gap * 1e6)) for t in m.case.twins]
            parts = (f"{real[p]:,.0f} / {twin[p]:,.0f}" for p in (DATA, CONTROL, BARE))
            error = likeness.relative_error(twin["records"], real["records"])
            small = f"{real['share small']:.3f} / {twin['share small']:.3f}"
            rows.append([
                f"`{m.case.name}`", f"{gap} ms", f"{real['records']:,.0f}",
                f"{twin['records']:,.0f} ({min(each):,} to {max(each):,})", f"{100 * error:+.1f} %",
                *parts, small,
            ])  # fmt: skip
    head = ("capture", "idle gap", "real", "twin (range)", "error", DATA, CONTROL, BARE,
            "share of small records")  # fmt: skip
    return table(head, rows)


def spread_table(cases: Sequence[Measured]) -> str:
    rows = []
    for m in cases:
        for gap in GAPS_MS:
            cells = [f"`{m.case.name}`", f"{gap} ms"]
            for of, form in ((likeness.sizes, "{:,.0f}"), (likeness.durations, "{:.2f}")):
                real, twin = m.real(of, gap), m.twin(of, gap)
                cells += [f"{form.format(real[q])} / {form.format(twin[q])}" for q in real]
            rows.append(cells)
    names = [
        f"{quantity} {q:.0%}" for quantity in ("payload", "length") for q in likeness.QUANTILES
    ]
    return table(["capture", "idle gap", *names], rows)


def pairs_table(cases: Sequence[Measured]) -> str:
    rows = []
    for m in cases:
        observations = [m.case.real, *m.case.twins]
        by_gap = [
            [likeness.by_pair(o, likeness.coarser(o.flows, gap * 1e6)) for o in observations]
            for gap in GAPS_MS
        ]
        for role in likeness.ROLES[:3]:
            if role not in by_gap[0][0].index.get_level_values("role"):
                continue
            means = [[found.loc[role].mean() for found in found_by] for found_by in by_gap]
            cells = [
                f"{one[0]['records']:.2f} / {mean(o['records'] for o in one[1:]):.2f}"
                for one in means
            ]
            sent = means[0]
            real_bytes, twin_bytes = sent[0]["payload"], mean(o["payload"] for o in sent[1:])
            rows.append([f"`{m.case.name}`", role, str(len(by_gap[0][0].loc[role])), *cells,
                         f"{real_bytes:,.0f} / {twin_bytes:,.0f}"])  # fmt: skip
    gaps = [f"records, {gap} ms" for gap in GAPS_MS]
    return table(["capture", "pairs", "number", *gaps, "payload [bytes]"], rows)


def steps_table(cases: Sequence[Measured]) -> str:
    rows = []
    for m in cases:
        for job, real_s in m.case.real.period_s.items():
            twin_s = mean(twin.period_s[job] for twin in m.case.twins)
            error = 100 * likeness.relative_error(twin_s, real_s)
            rows.append([f"`{m.case.name}`", job, f"{1e3 * real_s:.1f}", f"{1e3 * twin_s:.1f}",
                         f"{error:+.1f} %"])  # fmt: skip
    return table(["capture", "job", "real [ms]", "twin [ms]", "error"], rows)


SCORED = {
    "jobs exact": "jobs.accuracy",
    "pair types": "pairs.accuracy",
    "without refinement": "pairs.accuracy_unrefined",
    "coverage": "timeline.coverage",
    "step error, all": "timeline.step_error_all_mean",
}


def scores_table(cases: Sequence[Measured]) -> str:
    rows = []
    for m in cases:
        cells = []
        for path in SCORED.values():
            part, name = path.split(".")
            ours = mean(s[part][name] for s in m.scores)
            cells.append(f"{m.score[part][name]:.3f} / {ours:.3f}")
        rows.append([f"`{m.case.name}`", *cells])
    return table(["capture", *SCORED], rows)


def page(cases: Sequence[Measured], of_lab: Sequence[lab_twins.LabTwin]) -> str:
    return render_page(
        TEMPLATES,
        "twins",
        silences=silences_table(cases),
        counts=counts_table(cases),
        spread=spread_table(cases),
        pairs=pairs_table(cases),
        steps=steps_table(cases),
        scores=scores_table(cases),
        **lab_twins.tables(of_lab),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cases = [measured(name, Path(folder)) for name in NAMES]
        of_lab = [lab_twins.compared(name, Path(folder) / "lab") for name in lab_twins.cases()]
        PAGE.write_text(page(cases, of_lab))
    print(f"wrote {PAGE.relative_to(ROOT)}")
