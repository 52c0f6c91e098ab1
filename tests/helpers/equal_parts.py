"""Traffic that is divided into parts of as many records and bytes each."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic


def parts_of(traffic: Traffic, count: int) -> Division:
    """The ``traffic`` in ``count`` equal parts, with silences that stand out clearly."""
    records = len(traffic) // count
    volumes = np.full(count, float(traffic.size.sum()) / count)
    return Division(records * np.arange(1, count), volumes, 0.01, 1.0, 1.0, 3.0)
