"""Ranks that a trace has room for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from prism_sim.render import look
from prism_sim.run_folder import Run
from prism_sim.score.culprits import culprit_of


@dataclass(frozen=True)
class Selection:
    """The ranks of a run, and those that are shown.

    Attributes
    ----------
    ranks : all ranks, with their places in the grid.
    known : whether they come from the truth; else every address of a found job is a rank.
    with_spans, with_steps : rows of ``ranks`` with all their spans, and with their steps.
    """

    ranks: pd.DataFrame
    known: bool
    with_spans: list[int]
    with_steps: list[int]

    def labels(self, rows: set[int]) -> list[str]:
        """Names of ranks, for people."""
        some = self.ranks.loc[sorted(rows)]
        name = some["job"].astype(str) + " " + some["address"].astype(str)
        if self.known:
            name = some["job"].astype(str) + " rank " + some["rank"].astype(str)
        return [str(one) for one in name]


def select(run: Run, max_events: int) -> Selection:
    """Choose the ranks to show, with about ``max_events`` slices at most."""
    ranks = look.truth(run, "ranks").reset_index(drop=True)
    known = len(ranks) > 0
    ranks = ranks if known else _found_ranks(run)
    order = _order(run, ranks)
    count = max(len(ranks), 1)
    steps = sum(look.rows(run, side, "steps") for side in ("truth", "diagnosis")) / count
    spans = sum(look.rows(run, side, "spans") for side in ("truth", "diagnosis")) / count
    with_steps = order[: max(1, int(max_events / 2 / max(steps, 1e-9)))]
    rest = max(max_events - steps * len(with_steps), max_events / 2)
    with_spans = with_steps[: max(1, int(rest / max(spans, 1e-9)))]
    return Selection(ranks, known, sorted(with_spans), sorted(with_steps))


def _found_ranks(run: Run) -> pd.DataFrame:
    """The ranks without truth: every address of a found job."""
    jobs = look.diagnosis(run, "jobs").sort_values(["job", "address"], ignore_index=True)
    place = jobs.groupby("job").cumcount()
    return jobs.assign(rank=place, dp=place, pp=0, tp=0, ep=0, cp=0)


def _order(run: Run, ranks: pd.DataFrame) -> list[int]:
    """Rows of the ranks, the most interesting first."""
    grid = ranks.fillna({"dp": 0, "pp": 0, "tp": 0, "ep": 0, "cp": 0})
    faults = look.truth(run, "faults")
    named = [culprit_of(fault, ranks) for _, fault in faults.iterrows()]
    culprits = {culprit[1] for culprit in named if culprit}
    if not culprits:
        culprits = set(look.diagnosis(run, "findings")["culprit"].astype(str))
    servers = {
        str(end["address"])
        for end in look.json_of(run, "topology").get("endpoints", [])
        if end["server"] in culprits
    }
    affected = grid[grid["address"].isin(culprits | servers)]
    line = ["job", "dp", "tp", "ep", "cp"]
    is_affected = pd.MultiIndex.from_frame(grid[line]).isin(
        pd.MultiIndex.from_frame(affected[line])
    )
    order = grid.assign(healthy=~np.asarray(is_affected, bool)).sort_values(
        ["healthy", "tp", "ep", "cp", "dp", "job", "pp"]
    )
    return [int(row) for row in order.index]
