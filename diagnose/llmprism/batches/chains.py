"""The same job in successive windows, and which of its steps count in each.

A job of one window is that of the window before with which it shares most endpoints. Both have the
steps of the time in which the windows overlap. In the middle of it, the later window takes over:
its step that ends when one of the earlier window does is the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from llmprism.batches.stored_spans import Kept
from llmprism.diagnosis import Diagnosis

SHARED = 0.5  # of the endpoints of the smaller one, by which two jobs are the same
SAME_END = 0.25  # of a step: what is the end of one step in both windows differs by less


@dataclass
class Chain:
    """One job in successive windows.

    Attributes
    ----------
    name : of the job, as in the first of them.
    windows : their numbers.
    jobs : its name in each of them.
    kept : the steps that count in each of them.
    """

    name: str
    windows: list[int] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def add(self, window: int, job: str, kept: Kept) -> None:
        """Continue in a further window."""
        self.windows.append(window)
        self.jobs.append(job)
        self.kept.append(kept)


def chains_of(
    diagnoses: Sequence[Diagnosis], overlaps_ns: Sequence[tuple[int, int]]
) -> list[Chain]:
    """The jobs of all windows; ``overlaps_ns`` are the times that each shares with the one before.

    The first window shares none, and its entry is not used.
    """
    chains: list[Chain] = []
    members = [members_of(one) for one in diagnoses]
    ends = [ends_of(one.steps) for one in diagnoses]
    for window, jobs in enumerate(members):
        before = [one for one in chains if one.windows[-1] == window - 1]
        for job, addresses in jobs.items():
            chain = _continued(before, members[window - 1], addresses) if window else None
            if chain is None:
                chains.append(Chain(f"job-{len(chains)}"))
                chains[-1].add(window, job, Kept(chains[-1].name))
                continue
            before.remove(chain)
            old, new = ends[window - 1].get(chain.jobs[-1]), ends[window].get(job)
            chain.kept[-1], kept = _taken_over(old, new, chain.kept[-1], overlaps_ns[window])
            chain.add(window, job, kept)
    return chains


def members_of(diagnosis: Diagnosis) -> dict[str, frozenset[str]]:
    """The addresses of each job, in the order of jobs."""
    by_job = diagnosis.jobs.groupby("job", sort=False)["address"]
    return {str(job): frozenset(addresses) for job, addresses in by_job}


def ends_of(steps: pd.DataFrame) -> dict[str, pd.Series]:
    """When each step of each job ends [ns], the median of its ranks."""
    shown = steps["dp_end_ns"].fillna(steps["end_ns"]).astype("int64")
    medians = shown.groupby([steps["job"], steps["step"]]).median()
    return {str(job): own.droplevel(0) for job, own in medians.groupby(level=0)}


def period_of(ends_ns: pd.Series, unknown_ns: float) -> float:
    """Median time between the ends of two steps [ns]; ``unknown_ns`` if there is one step."""
    return float(ends_ns.diff().median()) if len(ends_ns) > 1 else unknown_ns


def _continued(
    before: Sequence[Chain], members: dict[str, frozenset[str]], addresses: frozenset[str]
) -> Chain | None:
    """The chain whose last job shares most of the ``addresses``."""

    def shared(chain: Chain) -> float:
        last = members[chain.jobs[-1]]
        return len(last & addresses) / min(len(last), len(addresses))

    best = max(before, key=shared, default=None)
    return best if best is not None and shared(best) >= SHARED else None


def _taken_over(
    old: pd.Series | None, new: pd.Series | None, kept: Kept, overlap_ns: tuple[int, int]
) -> tuple[Kept, Kept]:
    """What counts of the earlier window, and of the later one, by the ends of their steps [ns]."""
    if old is None or new is None:
        last = kept.last if old is None else int(old.index.max())
        return kept, Kept(kept.name, shift=last + 1 + kept.shift if old is not None else 0)
    middle = sum(overlap_ns) / 2
    ours = _nearest(new, middle)
    theirs = _nearest(old, new[ours])
    period = float(new.diff().median())
    if abs(old[theirs] - new[ours]) > SAME_END * period:  # nothing in common: one after the other
        theirs = int(old.index.max())
        later = new.index[new > old[theirs] + SAME_END * period]
        ours = int(later.min()) - 1 if later.size else int(new.index.max())
    shift = kept.shift + theirs - ours
    return replace(kept, last=theirs), Kept(kept.name, first=ours + 1, shift=shift)


def _nearest(ends: pd.Series, time: float) -> int:
    """The step that ends nearest to a time."""
    return int(ends.index.to_numpy()[np.abs(ends.to_numpy() - time).argmin()])
