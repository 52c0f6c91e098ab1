"""Which connections count as slow, as healthy, or as neither."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmprism.methods.prism.faults.slow_network import bundles_of

STEPS = 12


def rates_of(ratios, noises, busy=None, group=None):
    """Paces that are ``ratios`` times the healthy ones in the second half of the steps."""
    series = np.ones((len(ratios), STEPS))
    series[:, STEPS // 2 :] = np.array(ratios)[:, None]
    out = series > 1 + 5 * np.array(noises)[:, None]
    wires = np.ones_like(series) if busy is None else np.tile(np.array(busy)[:, None], STEPS)
    return SimpleNamespace(
        kind=["dp"] * len(ratios),
        group=np.array(group or [-1] * len(ratios)),
        conversation=np.full(len(ratios), -1),
        crosses=[frozenset({f"nic{i}"}) for i in range(len(ratios))],
        pace=SimpleNamespace(ratio=series, noise=np.array(noises), out=out),
        busy=wires,
    )


def test_a_connection_too_noisy_to_look_slow_is_no_evidence_of_health():
    bundles = bundles_of(rates_of([4.0, 1.0, 1.0], [0.05, 0.05, 2.0]), 6, 11)
    assert [sorted(one.crosses) for one in bundles] == [["nic0"], ["nic1"]]


def test_hops_of_a_ring_that_differ_by_less_than_their_noise_are_one_bundle():
    """The wires differ by 7 %, and that much they differ from step to step as well."""
    merged = rates_of([3.0] * 4, [0.05] * 4, busy=[3.0, 2.9, 2.8, 2.8], group=[0] * 4)
    (one,) = bundles_of(merged, 6, 11)
    assert len(one.crosses) == 4


def test_the_hop_of_a_ring_whose_wire_is_never_silent_is_the_slow_one():
    exact = rates_of([3.0] * 4, [0.002] * 4, busy=[3.0, 2.4, 2.3, 2.4], group=[0] * 4)
    assert [one.slow for one in bundles_of(exact, 6, 11)] == [True, False, False, False]
