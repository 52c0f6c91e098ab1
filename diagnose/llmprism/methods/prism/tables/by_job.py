"""The tables of a diagnosis, from what is known of its jobs.

An attempt that fails, or a recording, may stop in the last step of a rank. Data-parallel traffic
shows which steps were ended. In a stage without any, the messages of the pipeline do: a rank that
has sent and got less than in its other steps had not ended its passes. Its replicas wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.topology import Topology
from llmprism.methods.prism.jobs.stepless import Stepless
from llmprism.methods.prism.layout.inside_servers import UNKNOWN
from llmprism.methods.prism.parameters import FEWEST
from llmprism.methods.prism.phases.phases import LOST
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.tables.pair_table import DiagnosedJob, pairs_of
from llmprism.methods.prism.tables.without_steps import groups_of, layout_of
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

MISSED = 0.5  # of a message: what is missing is at least one


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
            *(_groups(one, names) for one in found),
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


def _groups(one: DiagnosedJob, names: Any) -> pd.DataFrame:
    """Rows of the table ``groups`` for one job."""
    ends = names[one.phases.endpoints]
    frames = []
    for kind, number, position in (
        ("dp", one.dp_group, np.full(ends.size, -1)),
        ("pp", one.pipelines.number, one.pipelines.stage),
    ):
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


def ended_steps(connections: Connections, one: DiagnosedJob) -> Bools:
    """Which steps each endpoint of a job ended, shape (endpoints, steps)."""
    last = np.append(one.phases.first_of_epoch[1:], one.phases.count) - 1
    missing = np.isnan(one.ranks.dp_end)
    ended = np.ones_like(missing)
    ended[:, last] = ~missing[:, last] | missing.all(axis=1, keepdims=True)
    passed = _passed(connections, one, last)
    for stage in np.unique(one.pipelines.stage).tolist():
        rows = one.pipelines.stage == stage
        if missing[rows].all():
            ended[np.ix_(rows, last)] &= passed[rows].all(axis=0)
    return ended


def _passed(connections: Connections, one: DiagnosedJob, last: Ints) -> Bools:
    """Whether each endpoint had moved all its messages in the ``last`` steps of attempts.

    Where messages of other steps are missing as well, records were lost.
    """
    volume, message = _messages(connections, one)
    others = np.delete(volume, np.union1d(last, 0), axis=1)
    if one.phases.count < FEWEST or not others.size:
        return np.ones((volume.shape[0], last.size), np.bool_)
    usual = np.median(others, axis=1, keepdims=True)
    lost = LOST * (usual - others).max(axis=1, keepdims=True)
    passed: Bools = usual - volume[:, last] <= np.maximum(MISSED * message, lost)
    return passed


def _messages(connections: Connections, one: DiagnosedJob) -> tuple[Floats, float]:
    """Bytes of the pipeline that each endpoint sends or gets in each step, and of a message."""
    ends, count = one.phases.endpoints, one.phases.count
    volume = np.zeros((ends.size, count))
    sizes = [np.zeros(1, np.int64)]
    for kind in one.phases.classes:
        if kind.kind != "pp":
            continue
        own = kind.one.volumes(connections, kind.step, count)
        for side in (connections.src, connections.dst):
            np.add.at(volume, np.searchsorted(ends, side[kind.connections]), own)
        sizes.append(kind.traffic.size)
    return volume, float(np.median(np.concatenate(sizes)))
