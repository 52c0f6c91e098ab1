"""The tables of a diagnosis, from what is known of its jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.topology import Topology
from llmprism.methods.prism.jobs.silent import with_silent_places
from llmprism.methods.prism.jobs.stepless import Stepless
from llmprism.methods.prism.layout.inside_servers import UNKNOWN
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.tables.diagnosed import DiagnosedJob
from llmprism.methods.prism.tables.ended import ended_steps
from llmprism.methods.prism.tables.pair_table import pairs_of
from llmprism.methods.prism.tables.without_steps import groups_of, layout_of
from llmprism.numerics.arrays import Codes


def tables_of(
    topology: Topology,
    found: list[DiagnosedJob],
    stepless: Mapping[str, Stepless],
    connections: Connections,
) -> dict[str, pd.DataFrame]:
    """The tables ``jobs``, ``groups``, ``steps``, ``layouts`` and ``pairs``."""
    names = np.array(topology.addresses, dtype=object)
    tables = {
        "jobs": [
            *(
                _jobs(one.name, one.phases.endpoints, names, one.pipelines.micro_batches)
                for one in found
            ),
            *(_jobs(name, one.endpoints, names, UNKNOWN) for name, one in stepless.items()),
        ],
        "groups": [
            *(_groups(topology, one, names) for one in found),
            *(groups_of(name, one, names) for name, one in stepless.items()),
        ],
        "steps": [_steps(connections, one, names) for one in found],
        "layouts": [
            *(_layout(one) for one in found),
            *(layout_of(name, one) for name, one in stepless.items()),
        ],
    }
    pairs = pairs_of(topology, found, stepless, connections, names)
    return {name: _joined(own) for name, own in tables.items() if own} | {"pairs": pairs}


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def _jobs(name: str, endpoints: Codes, names: Any, micro_batches: int) -> pd.DataFrame:
    frame = pd.DataFrame({"job": name, "address": names[endpoints]})
    return frame.assign(micro_batches=micro_batches)


def _groups(topology: Topology, one: DiagnosedJob, names: Any) -> pd.DataFrame:
    """Rows of the table ``groups`` for one job."""
    ends = names[one.phases.endpoints]
    unseen = (one.dp_group < 0) & (one.pipelines.number < 0)
    frames = []
    for kind, number, position in (
        ("dp", one.dp_group, np.full(ends.size, -1)),
        ("pp", one.pipelines.number, one.pipelines.stage),
    ):
        number, position = with_silent_places(
            topology, one.phases.endpoints, unseen, number, position
        )
        frame = pd.DataFrame({"group": number, "address": ends, "position": position})
        frame = frame[frame["group"] >= 0].assign(job=one.name, kind=kind)
        frames.append(frame.sort_values(["group", "position", "address"]))
    both = pd.concat(frames, ignore_index=True)
    return both.assign(position=both["position"].astype("Int64").mask(both["position"] < 0))


def _steps(connections: Connections, one: DiagnosedJob, names: Any) -> pd.DataFrame:
    """Rows of the table ``steps`` for one job: those that were ended."""
    ranks = one.ranks
    ends, count = ranks.end.shape
    whole = {
        name: np.rint(np.nan_to_num(values)).astype(np.int64).ravel() + ranks.origin_ns
        for name, values in (("start_ns", ranks.start), ("end_ns", ranks.end))
    }
    dp_end = np.rint(np.nan_to_num(ranks.dp_end)).ravel().astype(np.int64) + ranks.origin_ns
    known = ~np.isnan(ranks.dp_end).ravel()
    frame = pd.DataFrame(
        {
            "job": one.name,
            "address": np.repeat(names[one.phases.endpoints], count),
            "step": np.tile(np.arange(count), ends),
            **whole,
            "dp_end_ns": pd.Series(dp_end).astype("Int64").where(known),
            "confidence": one.steps_sure,
        }
    )
    return frame[ended_steps(connections, one).ravel()].reset_index(drop=True)


def _layout(one: DiagnosedJob) -> pd.DataFrame:
    """The row of the table ``layouts`` for one job."""
    layout = one.layout
    row = {
        **{name: getattr(layout, name) for name in ("dp", "pp", "tp", "ep", "cp")},
        **({} if layout.is_stated else {"dp": UNKNOWN, "tp": UNKNOWN}),
        "micro_batches": layout.micro_batches,
        "schedule": layout.schedule,
        "sharding": layout.sharding,
        "period_ns": layout.period_ns,
        "confidence": layout.confidence,
        "evidence": json.dumps(layout.evidence, sort_keys=True),
    }
    return pd.DataFrame([{"job": one.name, **row}])
