"""Rows of the tables for jobs without a timeline: what shapes and single messages show of them.

All else is ``unknown`` or -1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from llmprism.methods.prism.jobs.stepless import CONFIDENCE, Stepless
from llmprism.methods.prism.layout.inside_servers import UNKNOWN
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools


def layout_of(name: str, one: Stepless) -> pd.DataFrame:
    """The row of ``layouts``.

    Sizes are known if every endpoint is in a ring and in a pipeline, and all of these are alike.
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
    dp, pp = _sizes(one)
    if dp > 0:
        sizes |= {"dp": dp, "pp": pp}
        evidence |= {"dp_group_nics": dp, "stages": pp}
    row = {
        **sizes,
        **dict.fromkeys(("schedule", "sharding"), "unknown"),
        "period_ns": period_ns,
        "confidence": CONFIDENCE,
        "evidence": json.dumps(evidence, sort_keys=True),
    }
    return pd.DataFrame([{"job": name, **row}])


def _sizes(one: Stepless) -> tuple[int, int]:
    """Members of each ring, and stages; UNKNOWN if some endpoints are in none of either.

    A single line of rings shows both. Several lines on the same servers may be parts of one group.
    """
    rings, chains = one.rings, one.chains
    if one.passes is not None:
        alike = all(len({len(own) for own in each}) == 1 for each in (rings, chains))
        covered = [sum(len(own) for own in each) for each in (rings, chains)]
        if not alike or covered != [one.endpoints.size] * 2:
            return UNKNOWN, UNKNOWN
        return len(rings[0]), len(chains[0])
    if len(one.lines) == 1 and sum(len(ring) for ring in rings) == one.endpoints.size:
        return len(rings[0]), len(rings)
    return UNKNOWN, UNKNOWN


def groups_of(name: str, one: Stepless, names: Any) -> pd.DataFrame:
    """The rows of ``groups``: rings in their order, and pipelines without the order of stages."""
    rows: list[tuple[str, int, str, Any]] = []
    for i, ring in enumerate(one.rings):
        rows += [("dp", i, names[end], at) for at, end in enumerate(ring)]
    for i, chain in enumerate(one.chains):
        rows += [("pp", i, names[end], pd.NA) for end in sorted(chain)]
    table = pd.DataFrame(rows, columns=["kind", "group", "address", "position"])
    return table.assign(job=name).astype({"position": "Int64"})


def kinds_of(connections: Connections, one: Stepless, hidden: Bools) -> Iterator[tuple[int, str]]:
    """Connections among the ``hidden`` ones of which the kind is known, and the kind.

    Those that only answer others are ``other``.
    """
    shown = {pair: kind for line in one.lines for pair, kind in line.kinds().items()}
    for at in np.flatnonzero(hidden).tolist():
        pair = int(connections.src[at]), int(connections.dst[at])
        if pair in shown:
            yield at, shown[pair]
        elif connections.answer[at] and pair[::-1] in shown:
            yield at, "other"
    if one.passes:
        for at in one.passes.connections[hidden[one.passes.connections]].tolist():
            yield at, "pp"
