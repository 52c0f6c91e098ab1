"""Steps matched, and alarms of faults."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.io.tables import DIAGNOSIS
from prism_sim.run_folder import TRUTH
from prism_sim.toolkit import ScoreTables, match_steps


def literal(true, inferred):
    """Row of ``inferred`` for each true step by the three sentences of the definition."""

    def share(a, b):  # how much of a lies in b
        return max(0, min(a[1], b[1]) - max(a[0], b[0])) / (a[1] - a[0]) if a[1] > a[0] else 0

    matched = []
    for step in true:
        inside = [k for k, i in enumerate(inferred) if share(i, step) > 0.5]
        good = (
            len(inside) == 1
            and share(step, inferred[inside[0]]) > 0.5
            and sum(share(other, inferred[inside[0]]) > 0.5 for other in true) == 1
        )
        matched.append(inside[0] if good else -1)
    return matched


def case_of(true, inferred):
    def table(schema, rows, names):
        frame = pd.DataFrame(rows, columns=names)
        return frame.assign(**dict.fromkeys(set(schema.names) - set(names)))

    steps = [("A", rank, n, *step) for rank in true for n, step in enumerate(true[rank])]
    rows = [("j", f"a{rank}", n, *step) for rank in true for n, step in enumerate(inferred[rank])]
    ranks = [("A", rank, f"a{rank}") for rank in true]
    truth = {
        "ranks": table(TRUTH["ranks"], ranks, ["job", "rank", "address"]),
        "steps": table(TRUTH["steps"], steps, ["job", "rank", "step", "start_ns", "end_ns"]),
    }
    names = ["job", "address", "step", "start_ns", "end_ns"]
    jobs = [("j", f"a{rank}") for rank in true]
    diagnosis = {
        "jobs": table(DIAGNOSIS["jobs"], jobs, ["job", "address"]),
        "steps": table(DIAGNOSIS["steps"], rows, names),
    }
    return ScoreTables(truth, diagnosis, {}, {})


def sequence(low):
    """Steps one after the other, with gaps, in a range where coincidences are common."""
    lengths = st.lists(st.tuples(st.integers(0, 3), st.integers(low, 6)), min_size=1, max_size=8)

    def lay(parts):
        borders = np.cumsum(np.array(parts).ravel())
        return [(int(a), int(b)) for a, b in borders.reshape(-1, 2)]

    return lengths.map(lay)


@given(st.lists(st.tuples(sequence(1), sequence(0)), min_size=1, max_size=3))
def test_agrees_with_the_definition(ranks):
    true = {rank: steps for rank, (steps, _) in enumerate(ranks)}
    inferred = {rank: steps for rank, (_, steps) in enumerate(ranks)}
    match = match_steps(case_of(true, inferred))
    for rank in true:
        mine = match.row[match.true["rank_row"] == rank]
        first = int(match.inferred.index[match.inferred["address"] == f"a{rank}"][0])
        expected = [n if n < 0 else n + first for n in literal(true[rank], inferred[rank])]
        assert list(mine) == expected


@pytest.mark.slow
@given(sequence(1), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8))
def test_agrees_where_inferred_steps_overlap(true, spans):
    inferred = sorted((start, start + length) for start, length in spans)
    match = match_steps(case_of({0: true}, {0: inferred}))
    mine = [
        (-1 if r < 0 else tuple(match.inferred.loc[r, ["start_ns", "end_ns"]])) for r in match.row
    ]
    expected = [-1 if n < 0 else inferred[n] for n in literal(true, inferred)]
    assert mine == expected


HICCUP = {"job": "A", "rank": 3, "step": 7, "extra_ns": 300_000}
"""The work of a3 (server s3) takes 0.3 ms longer by chance in step 7, of 1 ms."""


def counts(world) -> tuple[int, int, int]:
    faults = world.score()["faults"]
    return faults["true_alarms"], faults["false_alarms"], faults["uncounted"]


def with_hiccup(world, **values):
    world.truth["hiccups"] = pd.DataFrame([HICCUP | values])


def in_step(world, step: int, steps: int = 1, **values):
    window = {"start_ns": world.begin("A", step), "end_ns": world.begin("A", step + steps)}
    return window | values


def test_a_further_finding_in_the_window_that_names_another_part_is_false(world):
    world.report({}, {"culprit": "a3"})
    assert counts(world) == (1, 1, 0)
    assert world.score()["faults"]["precision"] == 0.5


@pytest.mark.parametrize(("steps", "right"), [(2, 1), (7, 1), (8, 0)])
def test_most_of_a_right_finding_lies_in_the_window_widened_by_a_step(world, steps, right):
    """From step 3 on: three steps of it are in steps 3 to 6."""
    world.report(in_step(world, 3, steps=steps))
    assert counts(world) == (right, 1 - right, 0)
    assert world.score()["faults"]["detected"] == 1


def test_all_of_a_moment_lies_in_the_window(world):
    world.report(in_step(world, 5, steps=0))
    assert counts(world) == (1, 0, 0)


@pytest.mark.parametrize("culprit", ["a3", "s3", "a3|leaf0"])
def test_a_finding_of_a_true_hiccup_counts_neither_way(world, culprit):
    with_hiccup(world)
    world.report({}, in_step(world, 7, culprit=culprit))
    assert counts(world) == (1, 0, 1)
    assert world.score()["faults"]["precision"] == 1.0


@pytest.mark.parametrize(
    "other", [{"step": 8}, {"rank": 1}, {"job": "B", "rank": 0}], ids=["step", "rank", "job"]
)
def test_a_hiccup_elsewhere_excuses_nothing(world, other):
    with_hiccup(world, **other)
    world.report(in_step(world, 7, culprit="a3"))
    assert counts(world) == (0, 1, 0)


def test_a_step_that_a_hiccup_makes_long_is_one_step(world):
    with_hiccup(world)
    window = {"start_ns": world.begin("A", 7) - 300_000, "end_ns": world.begin("A", 8) + 400_000}
    world.report({"culprit": "a3"} | window)
    assert counts(world) == (0, 0, 1)


def test_a_finding_of_several_steps_is_about_no_hiccup(world):
    with_hiccup(world)
    world.report(in_step(world, 7, steps=3, culprit="a3"))
    assert counts(world) == (0, 1, 0)


def test_a_hiccup_in_the_window_of_a_fault_does_not_detect_the_fault(world):
    with_hiccup(world, step=5)
    world.report(in_step(world, 5, culprit="a3"))
    faults = world.score()["faults"]
    assert (faults["detected"], faults["uncounted"]) == (0, 1)


@pytest.mark.parametrize("culprit", [None, "", "job0"])
def test_a_finding_that_names_no_part_detects_and_counts_neither_way(world, culprit):
    world.report({"culprit": culprit, "cause": "unknown"})
    faults = world.score()["faults"]
    assert (faults["detected"], faults["localized_top1"]) == (1, 0.0)
    assert counts(world) == (0, 0, 1)
    assert faults["precision"] is None


def test_a_finding_that_names_no_part_is_false_where_nothing_is(world):
    world.report(in_step(world, 8, culprit="job0", cause="unknown"))
    assert counts(world) == (0, 1, 0)


def test_a_finding_that_names_the_job_is_right_if_the_job_is_the_culprit(world):
    world.inject({"culprit_kind": "job", "culprit": "A", "kind": "length_imbalance"})
    world.report({"culprit": "job0"})
    assert counts(world) == (1, 0, 0)


def test_a_finding_about_another_job_that_names_the_culprit_is_right(world):
    world.report({"job": "job1", "evidence": json.dumps({})})
    assert counts(world) == (1, 0, 0)


@pytest.mark.parametrize(
    "claim",
    [{"cause": "length_imbalance"}, {"cause": "x", "evidence": '{"one_of": ["a0", "a1"]}'}],
    ids=["cause", "set"],
)
def test_a_finding_about_a_job_that_gives_a_cause_or_a_set_is_no_vague_one(world, claim):
    world.report({"culprit": "job0"} | claim)
    assert counts(world) == (0, 1, 0)
