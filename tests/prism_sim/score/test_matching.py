"""The fast matching agrees with its definition, taken literally, on random steps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.io.tables import DIAGNOSIS
from prism_sim.run_folder import TRUTH
from prism_sim.score.load import Case
from prism_sim.score.matching import match_steps


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
    return Case(truth, diagnosis, {}, {})


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
