"""Which steps each rank ended: an attempt that fails, or a recording, may stop in its last one.

Data-parallel traffic shows it, as a rank ends a step with that. In a stage without any (one
replica, or replicas in one server), the messages of the pipeline do: a rank that has sent and got
less than in its other steps had not ended its passes. Its replicas wait for it.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.parameters import FEWEST
from llmprism.methods.prism.phases.phases import LOST
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.tables.diagnosed import DiagnosedJob
from llmprism.numerics.arrays import Bools, Floats, Ints

MISSED = 0.5  # of a message: what is missing is at least one


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
