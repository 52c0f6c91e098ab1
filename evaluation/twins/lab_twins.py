"""The twins of the lab's cases: each simulated from the case's own file, and compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pandas as pd

from evaluation.paths import ROOT
from evaluation.twins import likeness
from evaluation.twins.likeness import GAPS_MS
from lab.case import CASES, twin
from prism_sim.loading.job import Job
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from prism_sim.training.costs import stage_costs

FIXTURES = ROOT / "tests" / "fixtures" / "lab"
SEEDS = (1, 2)
FITTED = frozenset({"mpi-ring8"})
"""Cases to whose records a parameter was fitted. All others are held out."""
SHARDED = 3
"""The stage of ZeRO at which parameters are gathered in every pass."""
LEAST = 0.1
"""The least factor on a computation; a pass that takes less than its collectives would have 0."""
MESSAGES = ("send_act", "send_grad", "recv_act", "recv_grad")
RECORDS_BOUND, STEPS_BOUND = 0.10, 0.05


class LabTwin(NamedTuple):
    """Numbers of records by idle gap, and times from step to step by job, of both sides."""

    name: str
    records: dict[int, tuple[float, float]]
    period_s: dict[str, tuple[float, float]]
    middle_s: dict[str, tuple[float, float]]


def cases() -> list[str]:
    """Names of the cases that have a committed capture."""
    return sorted(path.name for path in FIXTURES.glob("*/"))


def compared(name: str, folder: Path) -> LabTwin:
    """Simulate the twins of one case, and compare them with its capture."""
    capture = FIXTURES / name
    real = likeness.read(Run(capture), capture / "flows_gap1ms.parquet")
    twins = []
    path = CASES / f"{name}.yaml"
    measured = measured_times(name, folder / name)
    for seed in SEEDS:
        run = Run(folder / name / str(seed))
        simulate(twin(path, measured | {"seed": seed}), run)
        twins.append(likeness.read(run))
    return LabTwin(
        name,
        {gap: (_records(real, gap), mean(_records(one, gap) for one in twins)) for gap in GAPS_MS},
        {job: (own, mean(one.period_s[job] for one in twins))
         for job, own in real.period_s.items()},
        {job: (own, mean(one.middle_s[job] for one in twins))
         for job, own in real.middle_s.items()},
    )  # fmt: skip


def measured_times(name: str, folder: Path) -> dict[str, Any]:
    """Times of hosts, as :func:`host_times`; also of jobs whose passes contain collectives.

    The truth has no times of these collectives. The computation of such a pass is what the real
    pass took without the collectives of the twin's: the difference between two lengths of passes.
    """
    path, capture = CASES / f"{name}.yaml", Run(FIXTURES / name)
    scenario = twin(path)
    values = host_times(scenario, capture)
    mixed = [(index, job) for index, job in scenario.modelled if _has_collectives(job)]
    if mixed:
        first = Run(folder / "first")
        simulate(twin(path, values | {"seed": SEEDS[0]}), first)
        for index, job in mixed:
            real, made = (_passes(run, job) for run in (capture, first))
            costs = stage_costs(job, scenario.cluster)
            values[f"jobs.{index}.stage_factors"] = [
                max(LEAST, 1 + (real[s] - made[s]) / (cost.forward_ns + cost.backward_ns))
                for s, cost in enumerate(costs)
            ]
    return values


def _has_collectives(job: Job) -> bool:
    return job.zero_stage == SHARDED or job.tp > 1


def _passes(run: Run, job: Job) -> list[float]:
    """Median time of a forward and a backward pass together, by stage [ns]."""
    spans = run.truth("spans")
    own = spans[(spans["job"] == job.name) & (spans["step"] > 0)]
    lengths = _lengths(own, job.members * job.tp)
    return [lengths[s, "fwd"] + lengths[s, "bwd"] for s in range(job.pp)]


def host_times(scenario: Scenario, capture: Run) -> dict[str, Any]:
    """How long passes, and the time around them, really took: from the truth, not from records.

    Waits end late on a busy machine, and the library and Python take time between them. Medians
    are over steps after the first; a few slow steps do not move them.
    """
    spans, steps = capture.truth("spans"), capture.truth("steps")
    found: dict[str, Any] = {}
    for index, job in scenario.modelled:
        costs = stage_costs(job, scenario.cluster)
        own = spans[(spans["job"] == job.name) & (spans["step"] > 0)]
        lengths = _lengths(own, job.members * job.tp)
        if not _has_collectives(job):
            found[f"jobs.{index}.stage_factors"] = [
                (lengths[s, "fwd"] + lengths[s, "bwd"]) / (cost.forward_ns + cost.backward_ns)
                for s, cost in enumerate(costs)
            ]
        ends = steps[steps["job"] == job.name].sort_values(["rank", "step"])
        between = ends.groupby("rank")["start_ns"].shift(-1) - ends["end_ns"]
        late = mean(lengths[s, "opt"] - cost.optimizer_ns for s, cost in enumerate(costs))
        found[f"jobs.{index}.step_overhead_ms"] = (float(between.median()) + max(0.0, late)) / 1e6
    return found


def _lengths(spans: pd.DataFrame, ranks_per_stage: int) -> dict[tuple[int, str], float]:
    """Time from the start of a pass to the message that follows, by stage and kind [ns]."""
    ordered = spans.sort_values(["rank", "start_ns"])
    by_rank = ordered.groupby("rank")
    own = ordered["end_ns"] - ordered["start_ns"]
    to_message = ordered["kind"].isin(["fwd", "bwd"]) & by_rank["kind"].shift(-1).isin(MESSAGES)
    after = (by_rank["start_ns"].shift(-1) - ordered["end_ns"]).where(to_message)
    stage = ordered["rank"] // ranks_per_stage
    both = pd.DataFrame({"own": own, "after": after}).groupby([stage, ordered["kind"]]).median()
    total = both["own"] + both["after"].clip(lower=0).fillna(0.0)
    return {(int(s), str(kind)): float(value) for (s, kind), value in total.items()}


def _records(observation: likeness.Observation, gap_ms: int) -> float:
    return float(len(likeness.coarser(observation.flows, gap_ms * 1e6)))


def tables(found: Sequence[LabTwin]) -> dict[str, str]:
    """The tables of the page, by the names that its template gives them."""
    return {"lab_counts": _counts(found), "lab_steps": _steps(found), "lab_bounds": _bounds(found)}


def _counts(found: Iterable[LabTwin]) -> str:
    rows = []
    for one in found:
        cells = [
            f"{real:,.0f} / {made:,.0f} ({likeness.percent(real, made)})"
            for real, made in one.records.values()
        ]
        rows.append([f"`{one.name}`", _use(one.name), *cells])
    return table(["case", "use", *(f"records, {gap} ms" for gap in GAPS_MS)], rows)


def _steps(found: Iterable[LabTwin]) -> str:
    rows = [
        [f"`{one.name}`", _use(one.name), job, *_both(one.period_s[job]), *_both(one.middle_s[job])]
        for one in found
        for job in one.period_s
    ]
    head = ["mean, real [ms]", "twin [ms]", "error", "median, real [ms]", "twin [ms]", "error"]
    return table(["case", "use", "job", *head], rows)


def _both(times_s: tuple[float, float]) -> list[str]:
    real, made = times_s
    return [f"{1e3 * real:.1f}", f"{1e3 * made:.1f}", likeness.percent(real, made)]


def _bounds(found: Sequence[LabTwin]) -> str:
    """How many of the held-out figures are within the bounds."""
    held_out = [one for one in found if one.name not in FITTED]
    rows = []
    for gap in GAPS_MS:
        errors = [abs(likeness.relative_error(made, real))
                  for one in held_out for real, made in [one.records[gap]]]  # fmt: skip
        rows.append([f"records, {gap} ms", "10 %", *_within(errors, RECORDS_BOUND)])
    for name, of in (("mean", "period_s"), ("median", "middle_s")):
        errors = [abs(likeness.relative_error(made, real))
                  for one in held_out for real, made in getattr(one, of).values()]  # fmt: skip
        what = f"{name} time from step to step"
        rows.append([what, "5 %", *_within(errors, STEPS_BOUND)])
    return table(["figure", "bound", "within it", "median error"], rows)


def _within(errors: list[float], bound: float) -> tuple[str, str]:
    inside = sum(error <= bound for error in errors)
    middle = sorted(errors)[len(errors) // 2]
    return f"{inside} of {len(errors)}", f"{100 * middle:.1f} %"


def _use(name: str) -> str:
    return "fitted" if name in FITTED else "held out"
