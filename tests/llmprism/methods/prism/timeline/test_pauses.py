"""Pauses between the steps of a job without pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.timeline.pauses import find_pauses

MS = 1e6
NOISE = np.random.default_rng(3).uniform(-0.4, 0.4, 24)


def pauses(late, span=40.0):
    """Pauses of one rank [ms]: traffic begins 60 ms after a step, and ``late``."""
    lead = 60 + NOISE + np.array(late, float)
    end = np.cumsum(lead + span)[None, :] * MS
    return find_pauses(end - span * MS, end, np.array([0])) / MS


@pytest.mark.parametrize("every", [3, 5])
def test_regular_pauses_may_be_short(every):
    regular = np.arange(24) % every == 0
    regular[0] = False
    found = pauses(np.where(regular, 5.0, 0.0), span=40 + np.where(regular, 4.0, 0.0))
    assert np.flatnonzero(np.isfinite(found)).tolist() == np.flatnonzero(regular).tolist()
    assert np.abs(found[regular] - 5).max() < 1


def test_short_delays_at_other_distances_are_no_pauses():
    assert np.isnan(pauses(np.where(np.isin(np.arange(24), [3, 6, 10, 15, 21]), 5.0, 0.0))).all()


def test_regular_pauses_are_found_beside_a_long_one():
    late = np.where(np.arange(24) % 4 == 0, 5.0, 0.0)
    late[10] = 200.0
    found = pauses(late)
    assert np.flatnonzero(np.isfinite(found)).tolist() == [4, 8, 10, 12, 16, 20]
    assert found[10] == pytest.approx(200, abs=1)
