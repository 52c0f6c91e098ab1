"""Steps that begin with a gather, and end with an update that leaves no traffic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.timeline.gathered_steps import begun_by_gathers
from llmprism.methods.prism.timeline.timeline import Ranks

ORIGIN, STEPS = 10**9, 6
DP_END = np.arange(STEPS) * 1000.0 + 900  # the update takes until the next step begins


USUAL = np.arange(STEPS) * 1000.0


def steps_of(start: Any, dp_end: Any = DP_END, evaluations: Any = (), firsts: Any = (0,)) -> Ranks:
    """Steps of ranks that first gather at ``start`` [ns], NaN where that is not seen.

    ``evaluations``: when those begin to gather [ns]; ``firsts``: first steps of attempts.
    """
    start, end = np.atleast_2d(start), np.broadcast_to(dp_end, np.atleast_2d(start).shape)
    seen = np.where(np.isnan(start), MISSING, np.nan_to_num(start) + ORIGIN).astype(np.int64)
    alone = np.array(evaluations, np.int64) + ORIGIN
    one = SimpleNamespace(
        kind="dp",
        step=np.full(alone.size, -1),
        one=SimpleNamespace(traffic=SimpleNamespace(start_ns=alone, end_ns=alone)),
    )
    phases: Any = SimpleNamespace(
        moments={"dp": SimpleNamespace(start_ns=seen)},
        first_of_epoch=np.array(firsts),
        count=STEPS,
        classes=(one,),
    )
    return begun_by_gathers(Ranks(np.roll(end, 1, axis=1), end, end, ORIGIN), phases)


def test_a_step_lasts_from_its_first_gather_to_the_next_one() -> None:
    found = steps_of([USUAL, USUAL + 3])
    assert found.start.tolist() == [USUAL.tolist(), (USUAL + 3).tolist()]
    assert (found.end - found.start)[:, :-1].tolist() == [[1000.0] * (STEPS - 1)] * 2
    assert found.dp_end.tolist() == [DP_END.tolist()] * 2


def test_the_last_step_has_an_update_of_the_usual_length() -> None:
    assert steps_of(USUAL).end[0, -1] == DP_END[-1] + 100


def test_what_takes_longer_than_the_passes_is_no_update() -> None:
    found = steps_of(USUAL, USUAL + 400)
    assert found.start[0].tolist() == USUAL.tolist()
    assert found.end[0].tolist() == (USUAL + 400).tolist()


def test_a_pause_between_two_steps_belongs_to_neither() -> None:
    late = np.where(np.arange(STEPS) >= 3, 600, 0)
    found = steps_of(USUAL + late, DP_END + late)
    assert found.start[0, 3] == USUAL[3] + 600
    assert found.end[0, 2] == DP_END[2] + 100


def test_the_first_update_may_take_long() -> None:
    """It allocates the states of the optimizer."""
    late = np.where(np.arange(STEPS) >= 1, 600, 0)
    assert steps_of(USUAL + late, DP_END + late).end[0, 0] == USUAL[1] + 600


def test_a_rank_whose_gather_is_missing_begins_with_the_others() -> None:
    missing = np.where(np.arange(STEPS) == 2, np.nan, USUAL)
    assert steps_of([USUAL, missing]).start[1, 2] == USUAL[2]


def test_evaluations_show_how_long_an_update_takes() -> None:
    """They begin when it ends; other steps wait for the host as well."""
    late = np.where(np.arange(STEPS) >= 3, 500, 0)
    found = steps_of(USUAL + late, DP_END + late, evaluations=[2930, 2950, 4430])
    assert found.end[0].tolist() == [1000.0, *(DP_END + late + 30)[1:].tolist()]
    assert found.start[0].tolist() == (USUAL + late).tolist()


def test_a_step_that_was_never_finished_is_no_evaluation() -> None:
    late = np.where(np.arange(STEPS) >= 3, 10**6, 0)
    found = steps_of(USUAL + late, DP_END + late, [USUAL[3]], firsts=(0, 3))
    assert found.start[0].tolist() == (USUAL + late).tolist()
    assert found.end[0].tolist() == (DP_END + late + 100).tolist()
