"""Rows of the tables for jobs without a timeline: what shapes and single messages show of them.

All else is ``unknown`` or -1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from llmprism.methods.prism.jobs.stepless import CONFIDENCE, Stepless
from llmprism.methods.prism.layout.inside_servers import UNKNOWN
from llmprism.methods.prism.records import shapes
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools


def layout_of(name: str, one: Stepless) -> pd.DataFrame:
    """The row of ``layouts``.

    A single line of rings that holds all endpoints of the job is its data and pipeline parallelism.
    Several of them on the same servers may be parts of one group.
    """
    evidence: dict[str, object] = {
        "refused": one.refusal.reason,
        "would_allow": one.refusal.setting,
    }
    period_ns = UNKNOWN
    if one.period is not None:
        period_ns = one.period.period_ns
        evidence["period"] = (
            f"{one.period.records} records of {one.period.connections} connections end in"
            " silences, after multiples of the same bytes"
        )
    sizes = dict.fromkeys(("dp", "pp", "tp", "ep", "cp", "micro_batches"), UNKNOWN)
    if len(one.lines) == 1:
        rings = one.lines[0].rings
        if sum(len(ring) for ring in rings) == one.endpoints.size:
            sizes |= {"dp": len(rings[0]), "pp": len(rings)}
            evidence["dp_group_nics"], evidence["stages"] = len(rings[0]), len(rings)
    row = {
        **sizes,
        **dict.fromkeys(("schedule", "sharding"), "unknown"),
        "period_ns": period_ns,
        "confidence": CONFIDENCE,
        "evidence": json.dumps(evidence, sort_keys=True),
    }
    return pd.DataFrame([{"job": name, **row}])


def groups_of(name: str, one: Stepless, names: Any) -> pd.DataFrame:
    """The rows of ``groups``: rings are data-parallel groups, in their order."""
    rings = [ring for line in one.lines for ring in line.rings]
    rows = [(i, names[end], at) for i, ring in enumerate(rings) for at, end in enumerate(ring)]
    table = pd.DataFrame(rows, columns=["group", "address", "position"])
    return table.assign(job=name, kind="dp").astype({"position": "Int64"})


def kinds_of(
    connections: Connections, one: Stepless, hidden: Bools
) -> Iterator[tuple[int, str, float]]:
    """Connections among the ``hidden`` ones of which the kind is known; kind and confidence.

    Those that only answer others are ``other``.
    """
    shown: Mapping[shapes.Pair, tuple[str, float]] = {
        pair: (kind, line.confidence) for line in one.lines for pair, kind in line.kinds().items()
    }
    for at in np.flatnonzero(hidden).tolist():
        pair = int(connections.src[at]), int(connections.dst[at])
        if pair in shown:
            yield at, *shown[pair]
        elif connections.answer[at] and pair[::-1] in shown:
            yield at, "other", shown[pair[::-1]][1]
    for at in one.passes[hidden[one.passes]].tolist():
        yield at, "pp", shapes.CONFIDENCE
