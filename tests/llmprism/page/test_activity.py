"""Waiting between the messages of a pipeline, and rates of records."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.page.activity import WAIT, of_pipelines, waiting
from llmprism.page.leaves import binned_bytes

GROUPS = pd.DataFrame({"job": "j", "kind": "dp", "group": [0, 0], "address": ["a", "c"]})
PAIRS = pd.DataFrame({"src": ["a", "b", "a"], "dst": ["b", "a", "c"], "kind": ["pp", "pp", "dp"]})


def messages(*rows):
    frame = pd.DataFrame(rows, columns=["src", "dst", "start_ns", "end_ns"])
    return of_pipelines(PAIRS, frame.assign(bytes=100))


def spans(*rows, address="b"):
    frame = pd.DataFrame(rows, columns=["step", "kind", "start_ns", "end_ns"])
    return frame.assign(job="j", address=address)


def steps(*starts, address="b"):
    table = {"job": "j", "address": address, "step": range(len(starts)), "start_ns": starts}
    return pd.DataFrame(table).assign(end_ns=[*starts[1:], starts[-1] + 1000])


def kinds(table):
    order = table.sort_values("start_ns")
    return [str(kind) for kind in order["kind"]]


def test_a_stage_waits_for_a_message_and_works_until_it_sends():
    """b waits, receives, computes, sends, and waits for the next message."""
    sent = messages(
        ("a", "b", 10, 20), ("b", "a", 50, 60), ("a", "b", 80, 90), ("b", "a", 120, 130)
    )
    gaps = spans((0, "compute", 0, 10), (0, "pp", 10, 20), (0, "compute", 20, 50),
                 (0, "pp", 50, 60), (0, "compute", 60, 80), (0, "pp", 80, 90),
                 (0, "compute", 90, 120))  # fmt: skip
    found = waiting(gaps, steps(0), GROUPS.head(0), sent)
    assert kinds(found) == [WAIT, "pp", "compute", "pp", WAIT, "pp", "compute"]


def test_a_stage_with_an_unanswered_message_works_while_another_arrives():
    sent = messages(("a", "b", 10, 20), ("a", "b", 40, 45), ("b", "a", 70, 80))
    gaps = spans((0, "compute", 20, 40), (0, "pp", 40, 45), (0, "compute", 45, 70))
    assert kinds(waiting(gaps, steps(0), GROUPS.head(0), sent)) == ["compute", "pp", "compute"]


def test_messages_of_the_last_step_are_not_pending():
    """In step 0, b receives a message that it never answers."""
    sent = messages(("a", "b", 10, 20), ("a", "b", 140, 150))
    gaps = spans((0, "compute", 20, 100), (1, "compute", 100, 140))
    assert kinds(waiting(gaps, steps(0, 100), GROUPS.head(0), sent)) == ["compute", WAIT]


def test_the_first_messages_of_a_pipeline_answer_none():
    """a starts with two sends; the gradient that comes back is then its only work."""
    sent = messages(("a", "b", 10, 12), ("a", "b", 20, 22), ("b", "a", 40, 42), ("b", "a", 80, 82))
    gaps = spans((0, "compute", 0, 10), (0, "compute", 12, 20), (0, "compute", 22, 40),
                 (0, "compute", 42, 80), address="a")  # fmt: skip
    found = waiting(gaps, steps(0, address="a"), GROUPS.head(0), sent)
    assert kinds(found) == ["compute", "compute", WAIT, "compute"]


def test_a_rank_waits_for_the_late_member_of_its_group():
    """The last gap of a takes 10 in steps 0 to 2, and 40 in step 3; that of c always takes 10."""
    parts = []
    for step in range(4):
        begin, late = 1000 * step, 30 if step == 3 else 0
        parts += [(step, "pp", begin, begin + 5), (step, "compute", begin + 5, begin + 15 + late),
                  (step, "dp", begin + 15 + late, begin + 50)]  # fmt: skip
    other = [(step, kind, *times) for step, kind, *times in parts]
    other[-3:] = [(3, "pp", 3000, 3035), (3, "compute", 3035, 3045), (3, "dp", 3045, 3050)]
    table = pd.concat([spans(*parts, address="a"), spans(*other, address="c")], ignore_index=True)
    starts = pd.concat([steps(*range(0, 4000, 1000), address=name) for name in "ac"])
    found = waiting(table, starts, GROUPS, messages(("a", "b", 1, 2)))
    late = found[found["kind"] == WAIT]
    assert late[["address", "step", "start_ns", "end_ns"]].values.tolist() == [["a", 3, 3015, 3045]]
    length = (found["end_ns"] - found["start_ns"]).groupby(found["address"], observed=True).sum()
    before = (table["end_ns"] - table["start_ns"]).groupby(table["address"]).sum()
    assert length.to_dict() == before.to_dict()


def test_without_a_pipeline_nothing_changes():
    gaps = spans((0, "compute", 0, 10), (0, "dp", 10, 20))
    assert waiting(gaps, steps(0), GROUPS, messages()) is gaps


RECORDS = st.lists(
    st.tuples(st.integers(-1, 2), st.integers(0, 90), st.integers(0, 30), st.integers(0, 1000)),
    max_size=20,
)


@given(RECORDS)
def test_bins_hold_all_bytes_and_spread_them_evenly(records):
    columns = np.array(records, float).reshape(-1, 4).T
    row, start, length, size = columns
    found = binned_bytes(row.astype(int), start, start + length, size, (3, 24), (0.0, 120.0))
    for one in range(3):
        assert found[one].sum() == pytest.approx(size[row == one].sum())
    fine = binned_bytes(row.astype(int), start, start + length, size, (3, 240), (0.0, 120.0))
    assert fine.reshape(3, 24, 10).sum(axis=2) == pytest.approx(found, abs=1e-6)


def test_a_long_record_has_the_same_rate_everywhere():
    found = binned_bytes(np.array([0]), np.array([5.0]), np.array([25.0]), np.array([20.0]),
                         (1, 4), (0.0, 40.0))  # fmt: skip
    assert found.tolist() == [[5.0, 10.0, 5.0, 0.0]]
