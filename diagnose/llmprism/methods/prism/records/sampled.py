"""How far bytes that are estimated from sampled packets may be from the true ones.

Where one packet in N is observed, each stands for N. So bytes are a number of samples times what
one of them stands for, and the error of n samples is the root of n (Poisson). What differs by a
few such errors may be equal.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.flows import FlowTable, sampling_of
from llmprism.numerics.arrays import Floats, Ints

LARGEST_BYTES = 4096  # of a packet: RoCE v2's largest, where packets are not counted
ERRORS = 4.0  # by which values that are equal do not differ, in one of 10,000 comparisons


def sample_bytes(flows: FlowTable) -> float:
    """Bytes that one sampled packet stands for; 0 if every packet was observed, or nobody says."""
    rate = sampling_of(flows.meta)
    if rate <= 1:
        return 0.0
    packets = flows.optional.get("packets")
    if packets is None or not packets.size or (packets <= 0).any():
        return float(rate * LARGEST_BYTES)
    return rate * float(flows.bytes.sum()) / float(packets.sum())


def are_single_packets(flows: FlowTable) -> bool:
    """Whether every record is one sampled packet, as sFlow has them: sizes are those of packets."""
    packets = flows.optional.get("packets")
    if sampling_of(flows.meta) <= 1 or packets is None or not packets.size:
        return False
    return bool(packets.min() == packets.max())


def allowed(step: float, bytes_: Ints | Floats, per_sample: float) -> Floats:
    """By how much (in logarithm) estimates of ``bytes_`` may differ from their likes.

    By ``step`` at least, or by what the errors of both explain.
    """
    error = np.sqrt(2.0 * per_sample / np.maximum(bytes_, 1.0))
    return np.asarray(np.maximum(step, ERRORS * error))


def deviation(bytes_: Ints | Floats | float, per_sample: float) -> Floats:
    """Standard deviation of estimates of ``bytes_`` [bytes]."""
    return np.asarray(np.sqrt(per_sample * np.asarray(bytes_, np.float64)))
