"""Jobs in records that show no steps: who trains with whom, and nothing more.

Records longer than a step (long active or idle timeouts) and heavy sampling hide the steps.
What circulates still shows who communicates: the strongly connected components of the data-
carrying connections, joined where they use the same servers (tensor parallelism joins them
out of sight). Their pairs are of unknown kind, and their layout is unknown.

Used only where no job has steps. Beside jobs that do have steps, traffic without any is more
likely to be that of services.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from llmprism.io.topology import Topology
from llmprism.methods.prism.classes import components
from llmprism.methods.prism.connections import Connections
from llmprism.numerics.arrays import Codes

CONFIDENCE = 0.5  # two jobs on the same servers look like one
REASON = "no division of the traffic into equal steps: records may be longer than a step"


def find_stepless(connections: Connections, topology: Topology) -> list[Codes]:
    """Endpoint codes of each job, in order of the first record."""
    own = np.flatnonzero(connections.carries)
    src, dst = connections.src[own], connections.dst[own]
    label = components(len(topology.endpoints), src, dst)
    inside = label[src] == label[dst]
    members: dict[int, set[int]] = {}
    for a, b in zip(src[inside].tolist(), dst[inside].tolist(), strict=True):
        members.setdefault(int(label[a]), set()).update((a, b))
    joined: dict[frozenset[int], set[int]] = {}
    for ends in members.values():
        homes = frozenset(topology.servers[sorted(ends)].tolist())
        joined.setdefault(homes, set()).update(ends)
    return [np.array(sorted(ends), np.int32) for ends in joined.values()]


def stepless_tables(
    jobs: list[Codes], connections: Connections, addresses: list[str]
) -> dict[str, pd.DataFrame]:
    """The tables ``jobs``, ``pairs`` and ``layouts`` for jobs without steps."""
    names = np.array(addresses, dtype=object)
    job_of = np.full(len(addresses), -1)
    for i, ends in enumerate(jobs):
        job_of[ends] = i
    own = np.where(job_of[connections.src] == job_of[connections.dst], job_of[connections.src], -1)
    labels = np.array([*(f"job-{i}" for i in range(len(jobs))), ""], dtype=object)
    kind = np.where(connections.carries | connections.answer, "unknown", "other")
    pairs = pd.DataFrame(
        {
            "job": labels[own],
            "src": names[connections.src],
            "dst": names[connections.dst],
            "kind": kind,
            "kind_unrefined": kind,
            "confidence": 0.0,
        }
    ).drop_duplicates(["src", "dst", "kind"])
    members = [pd.DataFrame({"job": labels[i], "address": names[e]}) for i, e in enumerate(jobs)]
    layout = {
        **dict.fromkeys(("dp", "pp", "tp", "ep", "cp", "micro_batches"), -1),
        **dict.fromkeys(("schedule", "sharding"), "unknown"),
        "period_ns": -1,
        "confidence": CONFIDENCE,
        "evidence": json.dumps({"refused": REASON}),
    }
    return {
        "jobs": pd.concat(members, ignore_index=True),
        "pairs": pairs,
        "layouts": pd.DataFrame([{"job": labels[i], **layout} for i in range(len(jobs))]),
    }
