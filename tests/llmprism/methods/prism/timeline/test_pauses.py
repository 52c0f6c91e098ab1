"""Pauses between the steps of a job without pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.timeline.pauses import find_pauses

MS = 1e6
NOISE = np.random.default_rng(3).uniform(-0.4, 0.4, 24)


def pauses_of(lead_ms, span_ms):
    """Pauses of one rank [ms]: traffic begins ``lead_ms`` after a step, and takes ``span_ms``."""
    lead, span = np.array(lead_ms, float) * MS, np.array(span_ms, float) * MS
    end = np.cumsum(lead + span)[None, :]
    return find_pauses(end - span, end, np.array([0])) / MS


def pauses(late, span=40.0):
    """Pauses of one rank [ms]: traffic begins 60 ms after a step, and ``late``."""
    lead = 60 + NOISE + np.array(late, float)
    return pauses_of(lead, np.broadcast_to(span, lead.shape))


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


def test_a_pause_delays_a_step_and_stretches_nothing():
    lead, span = [60] * 12, [40] * 12
    lead[6] = 160
    found = pauses_of(lead, span)
    assert found[6] == pytest.approx(100)
    assert np.isnan(np.delete(found, 6)).all()


def test_a_slow_step_is_no_pause():
    lead, span = [60] * 12, [40] * 12
    lead[6], span[6] = 120, 80
    assert np.isnan(pauses_of(lead, span)).all()


@pytest.mark.parametrize("every", [2, 3, 4])
def test_pauses_after_every_second_step_are_pauses(every):
    """Steps of 100 ms, with 60 ms until gradients begin; pauses of 300 ms delay them."""
    paused = np.arange(13) % every == 0
    paused[0] = False
    length = np.where(paused, 400.0, 100.0)
    end = np.cumsum(length)[None, :] * MS
    found = find_pauses(end - 40 * MS, end, np.array([0]))
    assert np.isfinite(found).tolist() == paused.tolist()
    assert np.allclose(found[paused], 300 * MS)
