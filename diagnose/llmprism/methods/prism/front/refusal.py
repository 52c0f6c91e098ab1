"""When the steps of a part cannot be told, and why.

A record that lasts longer than a step holds several. A few parts that are hardly equal are no
steps. Both have one remedy: an exporter that ends its records sooner.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.front.jobs import Part
from llmprism.methods.prism.front.observe.lanes import Lane
from llmprism.methods.prism.front.parameters import (
    FEWEST_STEPS,
    HARDLY_EQUAL,
    LONGEST_RECORD,
    MOSTLY_EQUAL,
)

LONG_RECORDS = "records last longer than a step: let the exporter end them at shorter silences"
UNEQUAL_PARTS = "too few parts of the recording are equal: record more steps, or shorter records"


def reason(part: Part, lanes: list[Lane]) -> str | None:
    """Why the steps of ``part`` cannot be told; None if they can."""
    if part.borders is None or part.election is None:
        return UNEQUAL_PARTS
    quality = part.election.levels[part.election.lead].quality
    duration = _typical_duration([lanes[i] for i in part.lanes]) / part.borders.period_ns
    if duration > LONGEST_RECORD:
        return LONG_RECORDS
    if part.borders.steps <= FEWEST_STEPS and quality < MOSTLY_EQUAL:
        return UNEQUAL_PARTS
    if quality < HARDLY_EQUAL and duration > HARDLY_EQUAL:
        return LONG_RECORDS
    return None


def _typical_duration(lanes: list[Lane]) -> float:
    """Byte-weighted mean duration of records [ns]."""
    size = np.concatenate([lane.size for lane in lanes])
    duration = np.concatenate([lane.end - lane.start for lane in lanes])
    return float((duration * size).sum() / max(float(size.sum()), 1.0))
