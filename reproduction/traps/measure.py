"""The traps, what is measured: each world diagnosed, and held against its prediction."""

from __future__ import annotations

from collections.abc import Sequence

from prism_sim.toolkit import find_scenario, load_scenario
from reproduction.base import Result, Trial, diagnosed
from reproduction.traps import pairs, statistics, worlds
from reproduction.traps.base import Trap

NAME = "traps"

TRAPS: dict[int, Trap] = {
    trap.number: trap
    for trap in (
        Trap(1, "trap-1-sigma", statistics.sigma),
        Trap(2, "trap-2-sample", statistics.sample),
        Trap(3, "trap-3-hazard", statistics.hazard),
        Trap(4, "trap-4-bridge", pairs.bridge),
        Trap(5, "trap-5-one-size", pairs.one_size),
        Trap(6, "trap-6-jobs", worlds.jobs),
        Trap(7, "trap-7-workloads", worlds.workloads),
        Trap(8, "trap-8-transport", pairs.transport),
    )
}
"""The eight, by number; their titles and predictions are in ``traps.yaml``."""


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """One trial a trap and seed; worlds are small, so the reduced form has one seed of each."""
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
    """What is seen of one trap in one world."""
    with diagnosed(trial.scenario) as (run, score):
        return TRAPS[trial.settings["trap"]].look(run, score)
