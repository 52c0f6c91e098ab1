"""Steps keep their numbers and their place, whatever a window makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from llmprism.watch.numbering import Numbering, numbered
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.state import KnownJob
from llmprism.watch.window import Span

STEP_S = 4.0
LONG_AGO = Span(-(10**15), 10**15)
"""A window that no job fills, and that ends long after all jobs."""


def steps(first: int, last: int, later_s: float = 0.0, every_s: float = STEP_S) -> pd.Series:
    """The ends of steps that a window numbers from 0 on, by the steps of the job [ns]."""
    ends_s = np.arange(first * STEP_S, last * STEP_S + every_s / 2, every_s) + later_s
    return pd.Series((ends_s * SECOND_NS).astype(np.int64))


def job(last: int, support: int = 20) -> KnownJob:
    """A job with steps 0 to ``last`` that count."""
    ends = dict(enumerate(steps(0, last).tolist()))
    return KnownJob(
        "job-0", ["a"], ["s0"], last, ends, max(ends.values()), min(ends.values()), ends,
        support=support, counts=True,
    )  # fmt: skip


def number(known: KnownJob, ends_ns: pd.Series) -> Numbering:
    return numbered(known, ends_ns, Span(int(ends_ns.iloc[0]), int(ends_ns.iloc[-1])))


def test_steps_that_end_when_known_ones_do_are_those() -> None:
    found = number(job(20), steps(12, 32))
    assert (found.shift, found.offset_ns, found.counts) == (12, 0, True)


@pytest.mark.parametrize("later_s", [-1.7, -0.4, 0.4, 1.5])
def test_a_window_with_another_place_follows_the_known_one(later_s: float) -> None:
    found = number(job(20), steps(12, 32, later_s))
    assert (found.shift, found.offset_ns) == (12, round(later_s * SECOND_NS))
    assert found.support == 20


def test_a_window_with_more_steps_shows_the_right_place() -> None:
    found = number(job(20, support=8), steps(10, 30, later_s=1.5))
    assert (found.shift, found.offset_ns, found.support) == (10, 0, 21)


@pytest.mark.parametrize("every_s", [STEP_S / 4, STEP_S / 2, 2 * STEP_S, 3 * STEP_S])
def test_another_division_counts_if_a_second_window_has_it(every_s: float) -> None:
    known, ends = job(20), steps(10, 30, every_s=every_s)
    first = number(known, ends)
    assert not first.counts
    assert (ends.index[ends > known.ends_ns[20]] + first.shift).min() == 21
    known.candidate_ns = dict(zip(ends.index + first.shift, ends, strict=True))
    known.first_count = first.first_count
    assert number(known, ends).counts
    again = number(known, steps(12, 32))
    assert (again.shift, again.counts) == (12, True)


@pytest.mark.parametrize(("windows", "expected"), [(1, False), (2, True)])
def test_a_short_job_that_has_ended_counts_when_a_second_window_shows_it(
    windows: int, expected: bool
) -> None:
    known, ends = KnownJob("job-0", ["a"], ["s0"]), steps(0, 5)
    found: Sequence[Numbering] = []
    for _ in range(windows):
        found = [*found, numbered(known, ends, LONG_AGO)]
        known.candidate_ns, known.first_count = dict(enumerate(ends)), found[-1].first_count
    assert found[-1].counts is expected


def test_after_a_restart_numbers_go_on() -> None:
    ends = steps(1_000, 1_019)
    found = number(job(20), ends)
    assert (found.shift, found.counts) == (21, True)
