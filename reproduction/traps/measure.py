"""Measure the traps: diagnose each scenario and compare the figures with the prediction."""

from __future__ import annotations

from collections.abc import Sequence

from prism_sim.toolkit import find_scenario, load_scenario
from reproduction.base import Result, Trial, diagnosed
from reproduction.traps import figures
from reproduction.traps.figures import Trap

NAME = "traps"

TRAPS: dict[int, Trap] = {
    trap.number: trap
    for trap in (
        Trap(1, "trap-1-sigma", figures.sigma),
        Trap(2, "trap-2-sample", figures.sample),
        Trap(3, "trap-3-hazard", figures.hazard),
        Trap(4, "trap-4-bridge", figures.bridge),
        Trap(5, "trap-5-one-size", figures.one_size),
        Trap(6, "trap-6-jobs", figures.jobs),
        Trap(7, "trap-7-workloads", figures.workloads),
        Trap(8, "trap-8-transport", figures.transport),
    )
}
"""The eight traps by number; their titles and predictions are in ``traps.yaml``."""


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """One trial for each trap and seed; the reduced form has one seed."""
    seeds = seeds[:1] if reduced else seeds
    return [
        Trial(
            NAME,
            f"trap {trap.number} seed {seed}",
            load_scenario(find_scenario(f"paper/{trap.scenario}"), {"seed": seed}),
            {"trap": trap.number},
        )
        for trap in TRAPS.values()
        for seed in seeds
    ]


def measure(trial: Trial) -> Result:
    """Figures of one trap in one scenario."""
    with diagnosed(trial.scenario) as (run, score):
        return TRAPS[trial.settings["trap"]].figures(run, score)
