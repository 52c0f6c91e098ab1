"""Change-point detection against an independent implementation and known behaviour."""

from __future__ import annotations

import changepoint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.numerics.arrays import Floats
from llmprism.numerics.bocd import CutRule, Prior, RunLengths, cut_upward, run_lengths

PRIOR = Prior(mean=0.5, kappa=0.3, alpha=0.7, beta=1.5)
HAZARD = 1 / 20


def peer_posteriors(values: Floats, prior: Prior, hazard: float) -> list[Floats]:
    """Run the PyPI package on the same numbers.

    Its form of the same prior is (m, r, s, v) = (mean, kappa, 2 beta, 2 alpha). It takes the first
    number as a change point and does not learn from it, so it gets one additional number.
    """
    peer = changepoint.Bocpd(
        prior=changepoint.NormalGamma(prior.mean, prior.kappa, 2 * prior.beta, 2 * prior.alpha),
        lam=1 / hazard,
    )
    peer.step(0.0)
    return [np.array(peer.step(float(value))) for value in values]


def mass_up_to(k: int, posteriors: list[Floats]) -> list[float]:
    """P(run length <= k) after each number."""
    return [float(one[: k + 1].sum()) for one in posteriors]


def unpruned(values: Floats, prior: Prior, hazard: float, k: int) -> RunLengths:
    return run_lengths(values, prior, hazard, k, prune=0.0, most=values.size + 2)


def steps_and_noise(seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    levels = np.repeat(rng.normal(0, 8, 6), rng.integers(5, 40, 6))
    return levels + rng.normal(0, rng.uniform(0.1, 2), levels.size)


SEQUENCES = {
    "noise": np.random.default_rng(1).normal(0, 1, 150),
    "heavy tails": np.random.default_rng(2).standard_t(1.5, 150),
    "constant": np.zeros(60),
    "periodic spikes": np.tile([0.0, 0.0, 0.0, 0.0, 6.0], 25),
} | {f"levels {seed}": steps_and_noise(seed) for seed in range(4)}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize(
    ("prior", "hazard"), [(PRIOR, HAZARD), (Prior(0, 0.03, 50, 5), 0.1), (Prior(1, 2, 3, 4), 0.5)]
)
def test_posteriors_agree_with_the_peer(name: str, prior: Prior, hazard: float) -> None:
    values = SEQUENCES[name]
    theirs = peer_posteriors(values, prior, hazard)
    for k in (0, 1, 2, 5, 20, values.size):
        ours = unpruned(values, prior, hazard, k)
        np.testing.assert_allclose(ours.short, mass_up_to(k, theirs), atol=1e-9)
    likeliest = [one[run] for one, run in zip(theirs, ours.most_likely, strict=True)]
    np.testing.assert_allclose(likeliest, [one.max() for one in theirs], atol=1e-9)
    assert not ours.dropped.any()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
@settings(max_examples=60)
def test_posteriors_agree_with_the_peer_for_any_values(numbers: list[float]) -> None:
    values = np.array(numbers)
    theirs = peer_posteriors(values, PRIOR, HAZARD)
    for k in range(values.size + 1):
        ours = unpruned(values, PRIOR, HAZARD, k)
        np.testing.assert_allclose(ours.short, mass_up_to(k, theirs), atol=1e-6)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.floats(0.01, 0.9))
@settings(max_examples=60)
def test_run_length_zero_always_has_the_hazard(numbers: list[float], hazard: float) -> None:
    """Trap 3: a literal "P(run length = 0) > 0.95" can never fire."""
    zero = unpruned(np.array(numbers), PRIOR, hazard, 0).short
    np.testing.assert_allclose(zero, hazard, rtol=1e-9)


def test_the_printed_rule_never_fires_where_the_corrected_one_does() -> None:
    values = SEQUENCES["periodic spikes"]
    literal = run_lengths(values, Prior(0, 0.01, 5, 0.05), HAZARD, k=0).short
    corrected = run_lengths(values, Prior(0, 0.01, 5, 0.05), HAZARD, k=1).short
    assert literal.max() < 0.95
    assert corrected[4] > 0.95
    assert values[4] == 6.0


def test_forgetting_changes_at_most_the_stated_amount() -> None:
    values = steps_and_noise(8)
    exact = unpruned(values, PRIOR, HAZARD, k=1)
    pruned = run_lengths(values, PRIOR, HAZARD, prune=1e-4, most=1000)
    assert pruned.dropped.max() <= 1e-4
    assert pruned.dropped.max() > 0
    assert np.abs(pruned.short - exact.short).max() < 1e-3
    few = run_lengths(values, PRIOR, HAZARD, prune=0.0, most=16)
    assert 0 < few.dropped.max() <= 1 / 16


def test_the_most_likely_run_follows_the_levels() -> None:
    values = np.concatenate([np.zeros(30), np.full(30, 10.0)])
    values += np.random.default_rng(0).normal(0, 0.1, 60)
    likely = run_lengths(values, Prior(0, 0.01, 2, 0.02), 0.01).most_likely
    assert likely[29] == 30
    assert likely[-1] == 30


def cut(values: list[float], **rule: float) -> list[int]:
    numbers = np.array(values)
    usual = Prior(0, 0.03, 50, 5)
    mass = cut_upward(
        numbers,
        np.array([0, numbers.size]),
        usual,
        np.array([4.0]),
        np.array([0.05]),
        CutRule(**{"hazard": 0.1, "threshold": 0.95, **rule}),
    )
    return np.flatnonzero(mass).tolist()


def test_upward_spikes_are_cut_and_the_way_back_is_not() -> None:
    assert cut([0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0]) == [3, 7]


def test_a_fall_is_no_cut() -> None:
    assert cut([3, 3, 3, 3, 0, 0, 0, 0]) == []


def test_the_first_number_is_never_a_spike() -> None:
    assert cut([5, 0, 0, 0, 5, 5, 0, 0]) == [4]


def test_sequences_do_not_leak_into_each_other() -> None:
    numbers = np.array([0.0, 0, 0, 4, 4, 4, 4, 4, 0, 0, 4])
    mass = cut_upward(
        numbers,
        np.array([0, 3, 3, 8, 11]),
        Prior(0, 0.03, 50, 5),
        np.full(4, 4.0),
        np.full(4, 0.05),
        CutRule(0.1, 0.95),
    )
    assert np.flatnonzero(mass).tolist() == [10]
