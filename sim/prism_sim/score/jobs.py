"""Were the jobs recognised? A job is the set of its NIC addresses.

*exact*: found jobs whose address set equals that of a true job, each true job counted once
even if two found jobs have the same members. *accuracy* = exact / max(true, found), so
both missed and invented jobs lower it. If neither side has a job, the accuracy
is undefined.

All other scores by job match each found job to the true job that it
overlaps best (largest Jaccard index of the address sets; ties by name).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import pandas as pd

from prism_sim.score.declare import descriptive, higher, right
from prism_sim.score.load import Case
from prism_sim.score.stats import ratio

Members = dict[str, frozenset[str]]


@dataclass(frozen=True)
class JobsScore:
    """Numbers of jobs found, and found exactly."""

    true: Annotated[int, descriptive("jobs in the truth")]
    found: Annotated[int, descriptive("jobs in the diagnosis")]
    exact: Annotated[int, higher("jobs found with exactly the right addresses")]
    accuracy: Annotated[float | None, right("exact / max(true, found)")]


def members(frame: pd.DataFrame) -> Members:
    """Address set of each job of a table with columns job, address."""
    return {str(job): frozenset(part) for job, part in frame.groupby("job")["address"]}


def overlaps(true: Members, found: Members) -> pd.DataFrame:
    """Jaccard index of every overlapping pair of jobs; columns true, found, jaccard; best first."""
    shared = Counter(
        (t, f)
        for address_jobs in _jobs_of_address(true, found).values()
        for t in address_jobs[0]
        for f in address_jobs[1]
    )
    rows = [(t, f, n / (len(true[t]) + len(found[f]) - n)) for (t, f), n in shared.items()]
    frame = pd.DataFrame(rows, columns=["true", "found", "jaccard"])
    return frame.sort_values(["jaccard", "true", "found"], ascending=[False, True, True])


def _jobs_of_address(true: Members, found: Members) -> dict[str, tuple[list[str], list[str]]]:
    used: dict[str, tuple[list[str], list[str]]] = {}
    for side, jobs in enumerate((true, found)):
        for job, addresses in jobs.items():
            for address in addresses:
                used.setdefault(address, ([], []))[side].append(job)
    return used


def true_job_of(case: Case) -> dict[str, str]:
    """The true job that each found job overlaps best; found jobs without one are left out."""
    couples = overlaps(members(case.truth["ranks"]), members(case.diagnosis["jobs"]))
    best = couples.drop_duplicates("found")
    return dict(zip(best["found"], best["true"], strict=True))


def score_jobs(case: Case) -> JobsScore:
    """Compare the address sets of true and found jobs."""
    true = list(members(case.truth["ranks"]).values())
    found = list(members(case.diagnosis["jobs"]).values())
    exact = sum((Counter(true) & Counter(found)).values())
    accuracy = ratio(exact, max(len(true), len(found)))
    return JobsScore(len(true), len(found), exact, accuracy)
