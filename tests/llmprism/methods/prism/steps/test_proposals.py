"""Fine parts in coarse ones, of which the records show the first and the last in part."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.steps.proposals import Proposals, are_halves

RECORDS = 10  # of a fine part


def divisions_of(held: list[int], shift: int = 0) -> tuple[Division, Division]:
    """Equal parts, and coarse ones that hold so many of them."""
    fine, coarse = np.arange(1, sum(held)), np.cumsum(held)[:-1]
    return tuple(
        Division(RECORDS * cuts + moved, np.ones(cuts.size + 1), 0.01, 1.0, 1.0, 3.0)
        for cuts, moved in ((fine, 0), (coarse, shift))
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("held", "halves"),
    [
        ([2, 2, 2, 2], True),
        ([2, 2, 2, 1], True),
        ([1, 2, 2, 2, 1], True),
        ([1, 3, 3, 3, 2], False),  # pauses may come after every third step
        ([3, 2, 2, 2], False),
        ([2, 2, 3, 2, 2], False),
        ([2, 1], False),  # nothing is between the first and the last part
    ],
)
def test_all_coarse_parts_but_the_first_and_the_last_hold_two(held, halves):
    fine, coarse = divisions_of(held)
    assert are_halves(Proposals((), [[fine, coarse]]), len(fine), len(coarse)) == halves


def test_coarse_parts_that_begin_within_fine_ones_are_no_pairs():
    fine, coarse = divisions_of([2, 2, 2, 1], shift=3)
    assert not are_halves(Proposals((), [[fine, coarse]]), len(fine), len(coarse))


def test_twice_as_many_parts_are_halves_also_where_no_class_shows_both():
    fine, coarse = divisions_of([2, 2, 2, 2])
    assert are_halves(Proposals((), [[fine], [coarse]]), 8, 4)
    assert not are_halves(Proposals((), [[fine], [coarse]]), 8, 3)
