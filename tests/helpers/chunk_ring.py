"""A ring collective chunk by chunk: the recursion itself, nothing fluid about it."""

from __future__ import annotations

import numpy as np


def end_of_ring(own_ns: list[float], latency_ns: list[float], steps: int) -> float:
    """When the last chunk arrives, if hop i needs ``own_ns[i]`` a chunk and all start at 0.

    A hop sends its next chunk when it has sent the one before and received the one that the
    hop behind it sent one step earlier.
    """
    own, latency = np.array(own_ns, float), np.array(latency_ns, float)
    sent = np.zeros(len(own))
    arrived = np.zeros(len(own))
    for _ in range(steps):
        begin = np.maximum(sent, np.roll(arrived, 1))
        sent = begin + own
        arrived = sent + latency
    return float(arrived.max())
