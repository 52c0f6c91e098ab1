"""Measure the traps: diagnose each scenario and compare the figures with the prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prism_sim.toolkit import Run, Scenario, find_scenario, load_scenario
from reproduction.base import Result, Trial, diagnosed
from reproduction.traps.figures import (
    Figures,
    bridge,
    hazard,
    jobs,
    one_size,
    sample,
    sigma,
    transport,
    workloads,
)

NAME = "traps"

TRAPS: dict[int, Callable[[Run, Result], Figures]] = dict(
    enumerate((sigma, sample, hazard, bridge, one_size, jobs, workloads, transport), 1)
)
"""What computes the figures of each trap; their titles and predictions are in ``traps.yaml``."""


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """One trial for each trap and seed; the reduced form has one seed."""
    seeds = seeds[:1] if reduced else seeds
    return [
        Trial(NAME, f"trap {number} seed {seed}", _scenario(number, seed), {"trap": number})
        for number in TRAPS
        for seed in seeds
    ]


def _scenario(number: int, seed: int) -> Scenario:
    name = TRAPS[number].__name__.replace("_", "-")
    return load_scenario(find_scenario(f"paper/trap-{number}-{name}"), {"seed": seed})


def measure(trial: Trial) -> Result:
    """Figures of one trap in one scenario."""
    with diagnosed(trial.scenario) as (run, score):
        return TRAPS[trial.settings["trap"]](run, score)
