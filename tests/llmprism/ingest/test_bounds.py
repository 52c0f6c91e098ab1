"""What a number or a time may be, for integers of any width, floats and Python's numbers."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.ingest.bounds import EARLIEST_NS, LARGEST, as_int64, column, epoch_ns, wall_clock_ns

UNITS_NS = st.sampled_from([1, 1_000, 1_000_000, 1_000_000_000])


@settings(max_examples=60)
@given(values=st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70)), max_size=9))
def test_counts_are_exact_or_bad(values: list[int | None]) -> None:
    found, bad = as_int64(np.array(values, dtype=object))
    for value, count, is_bad in zip(values, found.tolist(), bad.tolist(), strict=True):
        assert is_bad == (value is None or abs(value) > LARGEST)
        assert count == (0 if is_bad else value)


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", ">u8", "i4", "i8", "f4", "f8"])
def test_the_ends_of_every_type_are_counts_or_bad(kind: str) -> None:
    of = np.finfo(kind) if "f" in kind else np.iinfo(kind)
    found, bad = as_int64(np.array([of.min, of.max, 1], dtype=kind))
    assert bad.tolist() == [abs(int(end)) > LARGEST for end in (of.min, of.max)] + [False]
    assert found.tolist()[2] == 1


def test_floats_are_rounded_and_those_that_are_no_number_are_bad() -> None:
    found, bad = as_int64([1.6, np.nan, np.inf, 1e300])
    assert (found.tolist(), bad.tolist()) == ([2, 0, 0, 0], [False, True, True, True])


@settings(max_examples=60)
@given(value=st.integers(-(2**64), 2**64), unit_ns=UNITS_NS)
def test_instants_never_overflow(value: int, unit_ns: int) -> None:
    (instant,), (is_bad,) = epoch_ns(np.array([value], dtype=object), unit_ns)
    assert is_bad == (abs(value * unit_ns) > LARGEST)
    assert instant == (0 if is_bad else value * unit_ns)


def test_a_clock_that_nobody_set_has_no_time() -> None:
    first = datetime(1990, 1, 1, tzinfo=UTC)
    assert round(first.timestamp()) * 10**9 == EARLIEST_NS
    seconds = [0, 1, int(first.timestamp()) - 1, int(first.timestamp()), 1_700_000_000]
    instants, bad = wall_clock_ns(seconds, 10**9)
    assert bad.tolist() == [True, True, True, False, False]
    assert column(instants, bad).to_pylist() == [None] * 3 + [one * 10**9 for one in seconds[3:]]
