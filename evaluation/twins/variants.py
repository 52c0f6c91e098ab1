"""Rules for noise, tried one by one: the error of twins with each.

    python -m evaluation twin-variants

Every variant changes the twins as they are published: how small packets wait, a token bucket in
front of the NICs, or noise that all ranks of a job share. The program prints the tables that
``python -m evaluation twins`` puts into its page.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from evaluation.paths import ROOT
from evaluation.twins import lab_twins, likeness
from evaluation.twins.likeness import GAPS_MS
from lab.case import CASES, twin
from prism_sim.loading.loader import load
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate

CAPTURES = ROOT / "tests" / "fixtures" / "captures"
AGAIN = ROOT / "tests" / "fixtures" / "lab_again.csv"
SEEDS = (1, 2)
FITTED = "b_dp4pp2"
CAPTURED = (FITTED, "c_two_jobs", "a2_ddp4")
OF_LAB = ("ddp4", "ddp8-slow-rank", "dp4pp2", "fsdp4", "tp4dp2")
BUCKET_BYTES = 20_000
"""``burst`` of the token buckets of the lab."""

Change = Callable[[Scenario, Run], dict[str, Any]]


class Errors(NamedTuple):
    """Relative errors of a case: of records by idle gap, and of the mean time of a step."""

    case: str
    records: list[float]
    step: float

    @property
    def all(self) -> list[float]:
        return [*self.records, self.step]


def waiting(**values: Any) -> Change:
    """Change the rule by which small packets wait."""

    def change(scenario: Scenario, _: Run) -> dict[str, Any]:
        kinds = [effect.kind for effect in scenario.collector.effects]
        at = kinds.index("waiting")
        return {f"collector.effects.{at}.{key}": value for key, value in values.items()}

    return change


def bucket(_scenario: Scenario, _capture: Run) -> dict[str, Any]:
    return {"cluster.nic_burst_bytes": BUCKET_BYTES}


def common_noise(scenario: Scenario, capture: Run) -> dict[str, Any]:
    """Give each job the common noise that the truth of its capture shows."""
    spans = capture.truth("spans")
    return {
        f"jobs.{index}.common_jitter": common_sigma(spans[spans["job"] == job.name])
        for index, job in scenario.modelled
    }


def common_sigma(spans: pd.DataFrame) -> float:
    """The standard deviation that the forward passes of all ranks in a step have in common.

    It is the root of the mean covariance between two ranks of the logarithm of their mean pass.
    """
    own = spans[(spans["kind"] == "fwd") & (spans["step"] > 0)]
    log = np.log(own["end_ns"] - own["start_ns"])
    means = log.groupby([own["step"], own["rank"]]).mean().unstack().dropna()
    covariance = np.cov(means.to_numpy().T)
    ranks = len(covariance)
    shared = (covariance.sum() - np.trace(covariance)) / (ranks * (ranks - 1))
    return float(np.sqrt(max(0.0, shared)))


WHOLE = waiting(refills=False, line_bytes=262_144)
VARIANTS: dict[str, tuple[Change, ...]] = {
    "whole messages": (WHOLE,),
    "whole messages, token bucket": (WHOLE, bucket),
    "whole messages, common noise": (WHOLE, common_noise),
    "queue of 262 kB": (waiting(refills=True, line_bytes=262_144),),
    "queue of 200 kB": (waiting(refills=True, line_bytes=200_000),),
    "queue of 156 kB": (waiting(refills=True, line_bytes=156_000),),
    "queue of 200 kB, token bucket": (waiting(refills=True, line_bytes=200_000), bucket),
    "queue of 200 kB, common noise": (waiting(refills=True, line_bytes=200_000), common_noise),
}


def errors(name: str, changes: Sequence[Change], folder: Path) -> Errors:
    """Simulate a case with ``changes``, and compare it with its capture."""
    capture = Run((CAPTURES if name in CAPTURED else lab_twins.FIXTURES) / name)
    scenario, make = _twin(name, folder)
    values = {key: v for change in changes for key, v in change(scenario, capture).items()}
    real = likeness.read(capture, capture.folder / "flows_gap1ms.parquet")
    twins = []
    for seed in SEEDS:
        run = Run(folder / str(seed))
        simulate(make(values | {"seed": seed}), run)
        twins.append(likeness.read(run))
    records = [
        likeness.relative_error(mean(records_of(one, gap) for one in twins), records_of(real, gap))
        for gap in GAPS_MS
    ]
    steps = [
        likeness.relative_error(mean(one.period_s[job] for one in twins), own)
        for job, own in real.period_s.items()
    ]
    return Errors(name, records, max(steps, key=abs))


def _twin(name: str, folder: Path) -> tuple[Scenario, Callable[[dict[str, Any]], Scenario]]:
    """The twin of a case, and what makes it with other values."""
    if name in CAPTURED:
        path = ROOT / "scenarios" / "twins" / f"{name}.yaml"
        return load(path), lambda values: load(path, values)
    case = CASES / f"{name}.yaml"
    measured = lab_twins.measured_times(name, folder)
    return twin(case), lambda values: twin(case, measured | values)


def records_of(observation: likeness.Observation, gap_ms: int) -> float:
    return float(len(likeness.coarser(observation.flows, gap_ms * 1e6)))


def tried() -> dict[str, list[Errors]]:
    """The errors of all cases with each variant."""
    found: dict[str, list[Errors]] = {}
    for variant, changes in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            found[variant] = [
                errors(name, changes, Path(folder) / name) for name in (*CAPTURED, *OF_LAB)
            ]
    return found


def tables(found: dict[str, list[Errors]]) -> dict[str, str]:
    """The tables of the page, by the names that its template gives them."""
    return {"variants": _summary(found), "variant_errors": _errors(found), "again": _again()}


def _summary(found: dict[str, list[Errors]]) -> str:
    """How many held-out cases have a smaller mean error than with the first variant."""
    first = next(iter(found.values()))
    rows = []
    for variant, cases in found.items():
        held_out = [(one, old) for one, old in zip(cases, first, strict=True) if one.case != FITTED]
        better = sum(_size(one.records) < _size(old.records) for one, old in held_out)
        middle = [abs(e) for one, _ in held_out for e in one.records]
        rows.append([
            variant,
            "" if cases is first else f"{better} of {len(held_out)}",
            f"{100 * mean(middle):.1f} %",
            *(f"{100 * mean(abs(one.records[i]) for one, _ in held_out):.1f} %"
              for i in range(len(GAPS_MS))),
        ])  # fmt: skip
    head = ["rules", "cases with a smaller error", "mean error", *(f"{gap} ms" for gap in GAPS_MS)]
    return table(head, rows)


def _size(relative: Sequence[float]) -> float:
    return mean(abs(one) for one in relative)


def _errors(found: dict[str, list[Errors]]) -> str:
    rows = [
        [f"`{one.case}`", variant, *(f"{100 * error:+.1f} %" for error in one.all)]
        for number in range(len(CAPTURED) + len(OF_LAB))
        for variant, cases in found.items()
        for one in [cases[number]]
    ]
    head = ["case", "rules", *(f"records, {gap} ms" for gap in GAPS_MS), "step"]
    return table(head, rows)


def _again() -> str:
    """A second capture of the same case, against the first."""
    rows = []
    for again in pd.read_csv(AGAIN).itertuples(index=False):
        capture = Run(lab_twins.FIXTURES / again.case)
        real = likeness.read(capture, capture.folder / "flows_gap1ms.parquet")
        pairs = [(records_of(real, gap), float(again[1 + i])) for i, gap in enumerate(GAPS_MS)]
        cells = [f"{a:,.0f} / {b:,.0f} ({likeness.percent(a, b)})" for a, b in pairs]
        step = 1e3 * next(iter(real.period_s.values()))
        cells.append(f"{step:.1f} / {again.step_ms:.1f} ({likeness.percent(step, again.step_ms)})")
        rows.append([f"`{again.case}`", *cells])
    return table(["case", *(f"records, {gap} ms" for gap in GAPS_MS), "step [ms]"], rows)
