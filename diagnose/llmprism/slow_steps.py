"""Steps that are clearly slow and that no finding explains: they are listed, with cause unknown.

A step is slow if it is longer than usual by a tenth, and by several times what neighbouring steps
differ. The usual length of a job is the lower quartile of its steps, so up to three quarters of
them may be slow. Longer steps at equal distances are work of the job itself (evaluation, saving),
and the first and the last step of a recording are often cut: neither is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from llmprism.finding_fields import evidence_of
from llmprism.numerics.arrays import Bools, Floats, Ints
from prism_common.quantities import percent

LONGER = 0.1  # of a usual step, at least
DEVIATIONS = 6.0  # of the lengths of neighbouring steps, at least
ALONE = 1.0  # of a usual step: a single step is listed if it is longer by this
USUAL = 0.25  # quantile of the lengths
FEWEST = 6  # steps of a job that show what is usual
REGULAR = 3  # single steps at equal distances
NEARLY_ALL = 0.9


@dataclass(frozen=True)
class SlowSteps:
    """A stretch of slow steps without a finding.

    Attributes
    ----------
    first, last : numbers of its steps.
    longer : by how much its steps are longer than usual, as a share of a usual step.
    lost_ns : what that costs the job [ns].
    addresses, of : ranks whose own steps are longer, and all ranks of the job.
    """

    job: str
    first: int
    last: int
    longer: float
    lost_ns: float
    addresses: int
    of: int

    def because(self, paused: Mapping[str, str]) -> str:
        """In words, such as ``steps 5 to 6 of job-0: 40 % slower on all servers``.

        ``paused`` has the save or evaluation in a step, by its number.
        """
        steps = (
            f"step {self.first}"
            if self.first == self.last
            else (f"steps {self.first} to {self.last}")
        )
        everywhere = self.addresses >= NEARLY_ALL * self.of
        where = "all servers" if everywhere else f"{self.addresses} of {self.of} addresses"
        known = [paused.get(str(step)) for step in range(self.first, self.last + 1)]
        cause = f"its log says: {known[0]}" if all(known) else "cause unknown"
        return f"{steps} of {self.job}: {percent(self.longer, 0)} slower on {where}, {cause}"


def slow_steps(steps: pd.DataFrame, findings: pd.DataFrame) -> list[SlowSteps]:
    """The stretches of all jobs, in order, from the tables ``steps`` and ``findings``."""
    columns = ["job", "first_step", "last_step"]
    further = [
        (job, *span) for evidence in findings.get("evidence", ())
        for job, span in dict(evidence_of({"evidence": evidence}).get("further_jobs", ())).items()
    ]  # fmt: skip
    every = pd.concat([findings[columns], pd.DataFrame(further, columns=columns)])
    found = []
    for job, own in steps.groupby("job", sort=False, observed=True):
        about = every[every["job"] == job]
        found += list(_of_job(str(job), own, about))
    return found


def least_shown(steps: pd.DataFrame) -> dict[str, float]:
    """By how much two steps of each job have to be longer to be listed, as a share of a step."""
    found = {}
    for job, own in steps.groupby("job", sort=False, observed=True):
        length = np.nanmedian(_lengths(own).to_numpy(float), axis=0)
        if length.size >= FEWEST:
            usual = float(np.quantile(length, USUAL))
            found[str(job)] = _least(length, usual) / usual if usual > 0 else np.nan
    return found


def _lengths(steps: pd.DataFrame) -> pd.DataFrame:
    """Length of each step of each address [ns]."""
    table = steps.assign(length=steps["end_ns"] - steps["start_ns"])
    return table.pivot_table(
        index="address", columns="step", values="length", aggfunc="sum", observed=True
    )


def _least(length: Floats, usual: float) -> float:
    """By how much a slow step is longer than usual at least [ns]."""
    return max(LONGER * usual, DEVIATIONS * _deviation(length))


def _of_job(job: str, steps: pd.DataFrame, findings: pd.DataFrame) -> Iterator[SlowSteps]:
    lengths = _lengths(steps)
    numbers: Ints = lengths.columns.to_numpy(np.int64)
    if numbers.size < FEWEST:
        return
    own: Floats = lengths.to_numpy(float)
    length = np.nanmedian(own, axis=0)
    usual = float(np.quantile(length, USUAL))
    if not usual > 0:
        return  # several steps in one dump: nobody knows how long each of them was
    least = usual + _least(length, usual)
    slow = (length > least) & ~_explained(numbers, findings)
    slow[[0, -1]] = False
    runs = list(_runs(slow))
    singles = [first for first, last in runs if first == last]
    regular = _are_regular(singles)
    for first, last in runs:
        longer = float(np.mean(length[first : last + 1])) / usual - 1
        if first == last and (regular or longer < ALONE):
            continue
        late = np.nanmean(own[:, first : last + 1], axis=1) > least
        yield SlowSteps(
            job, int(numbers[first]), int(numbers[last]), longer,
            float((length[first : last + 1] - usual).sum()), int(late.sum()), len(own),
        )  # fmt: skip


def _deviation(length: Floats) -> float:
    """The usual deviation of a step from its neighbours, which a change of level does not raise."""
    return float(1.4826 * np.median(np.abs(np.diff(length))) / np.sqrt(2))


def _explained(numbers: Ints, findings: pd.DataFrame) -> Bools:
    """The steps of findings, and the ones beside them."""
    inside = np.zeros(numbers.size, bool)
    known = findings.dropna(subset=["first_step", "last_step"])
    for first, last in zip(known["first_step"], known["last_step"], strict=True):
        inside |= (numbers >= first - 1) & (numbers <= last + 1)
    return inside


def _runs(slow: Bools) -> Iterator[tuple[int, int]]:
    """First and last index of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(np.int8)))
    yield from ((int(begin), int(end) - 1) for begin, end in edges.reshape(-1, 2))


def _are_regular(singles: Sequence[int]) -> bool:
    """Whether single slow steps follow each other at equal distances."""
    return len(singles) >= REGULAR and len(set(np.diff(singles).tolist())) == 1
