"""Runs of steps: neither a single one, nor ended by a single gap."""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools

SHORTEST = 2  # steps of a run
GAP = 1  # steps within a run that may look healthy


def runs(out: Bools) -> list[tuple[int, int]]:
    """First and last step of every run.

    >>> runs(np.array([0, 1, 1, 0, 1, 0, 0, 1], bool))
    [(1, 4)]
    """
    at = np.flatnonzero(out)
    if not at.size:
        return []
    found = np.split(at, np.flatnonzero(np.diff(at) > GAP + 1) + 1)
    return [(int(run[0]), int(run[-1])) for run in found if run.size >= SHORTEST]
