"""Runs the cases of a suite: each is simulated once, and diagnosed by each of its methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prism_sim.run_folder import Run
from prism_sim.score.encoding import flatten
from prism_sim.studies.cases import scored_figures, simulated_figures
from prism_sim.studies.pool import Outcome, outcomes
from prism_sim.studies.regression.simulation import Simulation, simulation_of
from prism_sim.studies.regression.suite import Case
from prism_sim.studies.scratch import working_folder

Figures = dict[str, float | None]
"""Every figure of one run, by its path."""

_LEFT_OUT = "meta.schema"
_DIGITS = 9  # of a figure in the reference; further digits differ between machines


@dataclass(frozen=True)
class CaseRun:
    """What one case gave: its simulation, all figures of each method, and the time it took [s]."""

    simulation: Simulation
    figures: dict[str, Figures]
    took_s: float


def run_suite(
    cases: Sequence[Case], processes: int, progress: Callable[[float, str], None] | None = None
) -> dict[str, Outcome[CaseRun]]:
    """Run all cases; result or error by case name, in the order of the suite."""
    found: dict[str, Outcome[CaseRun]] = {}
    for case, outcome in outcomes(run_case, cases, processes):
        found[case.name] = outcome
        if progress:
            progress(len(found) / len(cases), f"{len(found)} of {len(cases)}: {case.name}")
    return {case.name: found[case.name] for case in cases}


def run_case(case: Case) -> CaseRun:
    """Simulate ``case`` in a temporary folder, diagnose it by each method, and score that."""
    from prism_sim.simulate import simulate

    began_s = time.perf_counter()
    with working_folder() as folder:
        run = Run(folder)
        simulate(case.scenario, run)
        truth = flatten(simulated_figures(run))
        figures = {
            method: _plain(truth | flatten(scored_figures(run, method))) for method in case.methods
        }
        simulation = simulation_of(run, case.scenario.epoch_ns)
    return CaseRun(simulation, figures, time.perf_counter() - began_s)


def _plain(figures: Figures) -> Figures:
    return {name: rounded(value) for name, value in figures.items() if name != _LEFT_OUT}


def rounded(value: float | None) -> float | None:
    """``value`` with the digits that do not depend on the machine."""
    return value if value is None or isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
