"""Paces of connections, some of which are slow in the second half of the steps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

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
        lost=np.zeros_like(wires),
        finest=np.zeros(len(ratios)),
        ends=None,
    )
