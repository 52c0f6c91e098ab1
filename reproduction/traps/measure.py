"""The traps, what is measured: each world diagnosed, and held against its prediction."""

from __future__ import annotations

from collections.abc import Sequence

from prism_sim.loading.bundled import find
from prism_sim.loading.loader import load
from reproduction.base import Result, Trial, diagnosed
from reproduction.traps import pairs, statistics, worlds
from reproduction.traps.base import Trap

NAME = "traps"

TRAPS: dict[int, Trap] = {
    trap.number: trap
    for trap in (
        Trap(
            1,
            "Sigma as printed",
            "sigma is 0, so every step above the mean is flagged; a leaf whose bandwidth falls is "
            "not, since the rule looks up",
            "trap-1-sigma",
            statistics.sigma,
            {
                "sigma": "largest sigma / mean",
                "literal_share": "steps flagged, literally",
                "mended_share": "with the standard deviation",
                "high_tail": "leaf flagged, high tail",
                "low_tail": "low tail",
            },
        ),
        Trap(
            2,
            "Outlier inside its sample",
            "a step four times as long is missed among 10 steps, and if 4 of 30 are hit; 1 of 30 "
            "is found",
            "trap-2-sample",
            statistics.sample,
            {"few": "found, 1 of 10", "wide": "found, 4 of 30", "narrow": "found, 1 of 30"},
        ),
        Trap(
            3,
            "Run length 0 at a constant hazard",
            "P(run length = 0) is the hazard, 0.1, at every point, so nothing exceeds 0.95",
            "trap-3-hazard",
            statistics.hazard,
            {
                "points": "points",
                "off": "largest distance from 0.1",
                "fired": "above 0.95",
                "mended_coverage": "steps matched, mended",
            },
        ),
        Trap(
            4,
            "A misread PP pair bridges two DP groups",
            "refinement turns every PP pair between joined groups into DP",
            "trap-4-bridge",
            pairs.bridge,
            {
                "before": "PP read as DP",
                "predicted": "predicted after refinement",
                "after": "after refinement",
                "accuracy_before": "accuracy before",
                "accuracy_after": "after",
            },
        ),
        Trap(
            5,
            "DP messages of one size",
            "every DP pair is read as PP, before refinement and after",
            "trap-5-one-size",
            pairs.one_size,
            {
                "dp_pairs": "DP pairs",
                "right_before": "read as DP before",
                "right_after": "after",
                "accuracy": "accuracy",
            },
        ),
        Trap(
            6,
            "Job recognition",
            "two jobs on the same servers become 1, a torn one 2, one inside a server 0, two with "
            "one storage server 1",
            "trap-6-jobs",
            worlds.jobs,
            {
                "same_servers": "same servers",
                "torn": "torn",
                "inside": "inside",
                "storage": "storage",
            },
        ),
        Trap(
            7,
            "Workloads beyond DP and PP",
            "no EP or CP pair can be right, no PP pair of varying lengths is, and steps of ZeRO-3 "
            "are cut wrong",
            "trap-7-workloads",
            worlds.workloads,
            {
                "foreign": "EP and CP pairs",
                "named": "right",
                "pp_pairs": "PP pairs of varying lengths",
                "pp_right": "right (raw)",
                "sharded_coverage": "ZeRO-3 steps matched",
            },
        ),
        Trap(
            8,
            "Acknowledgements",
            "each one-way pair gains a reverse one, and each PP pair a second size, so it is read "
            "as DP",
            "trap-8-transport",
            pairs.transport,
            {
                "one_way": "one-way pairs",
                "mute": "pairs that only acknowledge",
                "sizes": "sizes on a PP pair",
                "pp_pairs": "PP pairs",
                "pp_as_dp": "read as DP (raw)",
            },
        ),
    )
}
"""The eight, by number."""


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """One trial a trap and seed; worlds are small, so the reduced form has one seed of each."""
    seeds = seeds[:1] if reduced else seeds
    return [
        Trial(
            NAME,
            f"trap {trap.number} seed {seed}",
            load(find(f"paper/{trap.scenario}"), {"seed": seed}),
            {"trap": trap.number},
        )
        for trap in TRAPS.values()
        for seed in seeds
    ]


def measure(trial: Trial) -> Result:
    """What is seen of one trap in one world."""
    with diagnosed(trial.scenario) as (run, score):
        return TRAPS[trial.settings["trap"]].look(run, score)
