"""What a diagnosis could compare in each job, and what it could not.

A fault that is older than the recording is in every step. Only peers and the rates of links show
it: a part that they show slow is a finding of the method. Here is what a reader has to know beside
the findings: which comparisons these records allow, and the reason why others are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.spread import is_spread
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Ints, grouped, weighted_quantile

HALF = 0.5  # of the transfers, and of the rate of a link
FAST = 0.9  # quantile of the rates of all transfers of a job, by bytes
REPLICAS = 3  # that show what is usual
SLOWER = 0.15  # of the time of a replica: what stands out
SAMPLE = 2_000_000  # records that are looked at
UNKNOWN_HOP = "?"
WHICH_LINK = (
    "which link between switches is slow or loses packets: messages are spread over several paths, "
    "and records do not tell these apart. Counters of the spines' ports do"
)


@dataclass(frozen=True)
class Scope:
    """What was compared in one job, beyond its steps with each other.

    Attributes
    ----------
    compared : what was compared, in words.
    not_judged : what the records do not show, in words, with the reason.
    slow : what is slow in all steps, in words, if nothing tells which part is.
    paused : for a number of a step, the save or evaluation in it, as logs of the job say.
    """

    job: str
    compared: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    paused: Mapping[str, str] = field(default_factory=dict)


def scopes_of(
    flows: FlowTable, topology: Topology, tables: Mapping[str, pd.DataFrame]
) -> tuple[Scope, ...]:
    """The scope of every job with steps, from the records and the tables of the diagnosis."""
    found = set(tables["findings"]["job"])
    layouts = {
        str(row["job"]): (int(row["pp"]), int(row["dp"]))
        for row in tables["layouts"].to_dict("records")
    }
    with_steps = set(tables["steps"]["job"])
    rows = np.arange(0, len(flows), max(1, len(flows) // SAMPLE))
    scopes = []
    for job, own in tables["jobs"].groupby("job", sort=False)["address"]:
        if job in with_steps:
            inside = np.isin(np.array(flows.addresses), own.to_numpy())
            its = rows[inside[flows.src[rows]] & inside[flows.dst[rows]]]
            scope = _scope(flows, topology, its, *layouts.get(str(job), (-1, -1)))
            scopes.append(replace(scope, job=str(job), slow=() if job in found else scope.slow))
    return tuple(scopes)


def _scope(flows: FlowTable, topology: Topology, rows: Ints, pp: int, dp: int) -> Scope:
    """What the records ``rows`` of one job allow to compare; ``pp`` and ``dp`` are its layout."""
    reached = _reached(flows, topology, rows)
    compared, not_judged, slow = [], [], []
    if np.isfinite(reached):
        compared.append("transfers with the rates of their links")
        if reached < HALF:
            slow.append(f"no transfer reaches more than {reached:.0%} of the rate of its link")
    else:
        not_judged.append("transfers that were slow before the recording began: no rates are known")
    if topology.servers_unknown:
        not_judged.append(
            "which NICs share a server, so layout and culprits are guesses: the topology names no "
            "servers (llmprism ingest --topology)"
        )
    if _is_spread(flows, rows):
        not_judged.append(WHICH_LINK)
    if dp >= REPLICAS and pp > 0:
        compared.append(f"ranks with their replicas ({SLOWER:.0%} slower in all steps stands out)")
    else:
        why = "fewer than three replicas" if pp > 0 else "the layout is unknown"
        not_judged.append(f"ranks that were slow before the recording began, by any share: {why}")
    if pp == 1:
        not_judged.append("ranks inside a server that all others wait for at the same moment")
    return Scope("", tuple(compared), tuple(not_judged), tuple(slow))


def _reached(flows: FlowTable, topology: Topology, rows: Ints) -> float:
    """Share of the rate of its NIC that fast records reach; NaN if no rate is known."""
    lasted = flows.lengths_ns(rows).astype(np.float64)
    size = flows.bytes[rows].astype(np.float64)
    shown = lasted > 0
    rate = 8 * size[shown] / lasted[shown]
    _, fast = weighted_quantile(np.zeros(rate.size, np.int64), rate, size[shown], FAST)
    return float(fast[0] / topology.nic_gbps) if fast.size else float("nan")


def _is_spread(flows: FlowTable, rows: Ints) -> bool:
    """Whether most transfers between leaves are spread over several paths.

    Records say so by one path or another, or by one that is unknown between two known leaves.
    """
    pair = flows.src[rows].astype(np.int64) * len(flows.addresses) + flows.dst[rows]
    pairs, number = np.unique(pair, return_inverse=True)
    by_pair, spread, across = grouped(number.ravel(), pairs.size), 0, 0
    for one in range(pairs.size):
        own = rows[by_pair.rows(one)]
        code = int(flows.path[own[-1]])
        path = flows.paths[code].split("|") if code >= 0 else []
        across += len(path) > 1
        spread += len(path) > 1 and (_is_hidden(path) or is_spread(flows, own))
    return spread > HALF * across


def _is_hidden(path: list[str]) -> bool:
    """Whether both leaves of a path are known, and nothing between them."""
    return {*path[1:-1]} == {UNKNOWN_HOP} and UNKNOWN_HOP not in (path[0], path[-1])


def scopes_from(content: object) -> tuple[Scope, ...]:
    """Read scopes as JSON has them; what is no scope is passed over."""
    rows = content if isinstance(content, list) else []
    return tuple(
        Scope(str(row.get("job")), _texts(row.get("compared")), _texts(row.get("not_judged")),
              _texts(row.get("slow")),
              paused if isinstance(paused := row.get("paused"), dict) else {})
        for row in rows
        if isinstance(row, dict)
    )  # fmt: skip


def _texts(content: object) -> tuple[str, ...]:
    return tuple(str(one) for one in content) if isinstance(content, list) else ()
