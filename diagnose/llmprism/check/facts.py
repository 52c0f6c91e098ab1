"""Figures of flow records: what they hold, how they were cut, and what a diagnosis found.

What the file's notes do not tell is measured where the records show it: the idle gap is close to
the shortest silence within a connection, the clocks' difference shows in answers
(:mod:`llmprism.ingest.clocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from llmprism.diagnosis import Diagnosis
from llmprism.ingest.clocks import clock_error_ns, of_answers
from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable, Intake, sampling_of
from llmprism.io.topology import Topology
from llmprism.model import UNKNOWN
from llmprism.numerics.arrays import order_in_groups
from prism_common.quantities import EVEN

COVERED = 0.9
"""Share of the time: where records cover more, no silence is left but that of a timeout."""
_SHORT_SILENCE = 0.01  # of a connection's silences: about the idle gap
_FEWEST_SILENCES = 50
_NOT_CUT = 0.9  # of the longest record: a longer one was ended by the active timeout


@dataclass(frozen=True)
class Facts:
    """Figures of the records; times in ns, shares in [0, 1]; None where nothing tells.

    Attributes
    ----------
    records, rows : records that are diagnosed, and all that were read.
    set_aside : records that are not diagnosed, by reason.
    span_ns : from the first record to the last.
    record_ns : half of the bytes are in records as long or longer.
    longest_ns : of the records.
    covered : share of the time that records of a pair cover (the median pair of the worst job).
    with_ports, with_path : shares of the records; a path must name all of its switches.
    idle_gap_ns : of the notes, or else the shortest silence in a connection.
    is_gap_measured : whether it is the latter.
    clock_error_ns : the largest difference of two clocks.
    clock_pairs : pairs of hosts of which answers show it; 0: the notes have it, or nothing does.
    jobs, jobs_with_steps, steps : found; steps of the job that has most.
    step_ns : shortest step of a job (median over its steps).
    known_pairs, pairs : found, and those of them whose kind is known.
    pipelines : pairs with pipeline traffic.
    layouts, sure_layouts : jobs whose layout has sizes, and those of them with a confidence of 0.5
        or more.
    has_rates : whether the topology has link rates.
    domains, domain_servers : NVLink domains of several servers, and servers in them.
    inside_domains : share of the bytes between servers of one domain; NVLink would carry them.
    port_leaves, seen_leaves : leaves of NICs with ports on several, of NICs that send; and those of
        them at which records of these NICs begin. None without paths.
    """

    records: int
    rows: int
    set_aside: dict[str, int]
    span_ns: int
    tick_ns: int
    record_ns: float
    longest_ns: int
    covered: float
    with_ports: float
    with_path: float
    idle_gap_ns: int | None
    is_gap_measured: bool
    active_timeout_ns: int | None
    sampling: int
    clock_error_ns: float | None
    clock_pairs: int
    jobs: int
    jobs_with_steps: int
    steps: int
    step_ns: float | None
    pairs: int
    known_pairs: int
    pipelines: int
    layouts: int
    sure_layouts: int
    has_rates: bool
    domains: int
    domain_servers: int
    inside_domains: float
    port_leaves: int
    seen_leaves: int | None


def measure(
    flows: FlowTable, intake: Intake, network: Topology, diagnosis: Diagnosis | None
) -> Facts:
    """Measure the records, and take what the diagnosis found in them."""
    gap = _whole(flows.meta.get("idle_gap_ns"))
    noted = _whole(flows.meta.get("clock_error_ns"))
    clocks = of_answers(flows).differences_ns() if noted is None else {}
    error = clock_error_ns(clocks)
    tick = clock_tick_ns(flows.start_ns, flows.end_ns)
    jobs = diagnosis.verdict.figures.get("jobs", []) if diagnosis else []
    covered = max((job["covered"] for job in jobs), default=0.0)
    measured = None if gap or covered > COVERED else _shortest_silence(flows)
    stepping = [job for job in jobs if job["step_ns"] > 0 and job["steps_most"] >= 2]
    kinds = diagnosis.pairs["kind"].to_numpy(object) if diagnosis else np.empty(0, object)
    return Facts(
        records=intake.kept,
        rows=intake.rows,
        set_aside=dict(intake.set_aside),
        span_ns=int(flows.end_ns.max() - flows.start_ns.min()) if len(flows) else 0,
        tick_ns=tick,
        record_ns=_usual_length(flows),
        longest_ns=int(flows.durations_ns.max(initial=0)),
        covered=covered,
        with_ports=_share_with_ports(flows),
        with_path=_share_with_path(flows, network),
        idle_gap_ns=gap or measured,
        is_gap_measured=measured is not None,
        active_timeout_ns=_whole(flows.meta.get("active_timeout_ns")),
        sampling=round(sampling_of(flows.meta)),
        clock_error_ns=noted if error is None else max(error, tick),  # less does not show
        clock_pairs=len(clocks),
        jobs=len(jobs),
        jobs_with_steps=len(stepping),
        steps=max((job["steps_most"] for job in stepping), default=0),
        step_ns=min((job["step_ns"] for job in stepping), default=None),
        pairs=kinds.size,
        known_pairs=int(np.count_nonzero(kinds != UNKNOWN)),
        pipelines=int(np.count_nonzero(kinds == "pp")),
        layouts=_layouts(diagnosis, 0.0),
        sure_layouts=_layouts(diagnosis, EVEN),
        has_rates=bool(np.isfinite(network.fastest_gbps)),
        **_domains(flows, network),
        **_ports(flows, network),
    )


def _domains(flows: FlowTable, network: Topology) -> dict[str, Any]:
    """Return how many servers share NVLink, and what is sent between them."""
    servers: dict[str, set[str]] = {}
    for end in network.endpoints:
        servers.setdefault(end.home, set()).add(end.server)
    several = [own for own in servers.values() if len(own) > 1]
    names = np.unique([end.server for end in network.endpoints], return_inverse=True)[1]
    apart = names[flows.src] != names[flows.dst] if len(flows) else np.zeros(0, bool)
    inside = apart & (network.servers[flows.src] == network.servers[flows.dst])
    return {
        "domains": len(several),
        "domain_servers": sum(map(len, several)),
        "inside_domains": float(flows.bytes[inside].sum() / max(1, flows.bytes.sum())),
    }


def _ports(flows: FlowTable, network: Topology) -> dict[str, Any]:
    """Return how many leaves NICs with several ports have, and at how many they are seen."""
    senders = np.unique(flows.src).tolist()
    several = {(end, leaf) for end in senders for leaf in _more_than_one(network.leaves[end])}
    first = [path.split("|")[0] for path in flows.paths]
    known = flows.path >= 0
    begins = np.unique(np.column_stack((flows.src[known], flows.path[known])), axis=0).tolist()
    seen = {(end, first[path]) for end, path in begins} & several
    return {"port_leaves": len(several), "seen_leaves": len(seen) if known.any() else None}


def _more_than_one(leaves: tuple[str, ...]) -> tuple[str, ...]:
    return leaves if len(leaves) > 1 else ()


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _layouts(diagnosis: Diagnosis | None, confidence: float) -> int:
    """Return how many layouts have sizes, with at least this confidence."""
    if diagnosis is None:
        return 0
    rows = diagnosis.layouts
    return int(np.count_nonzero((rows["dp"] > 0) & (rows["confidence"] >= confidence)))


def _share_with_path(flows: FlowTable, network: Topology) -> float:
    """Return the share of records whose path leads from one end's switch to the other's.

    One switch alone is a path only between two NICs of that switch.
    """
    if not len(flows):
        return 0.0
    hops = [path.split("|") for path in flows.paths]
    lengths = np.array([*map(len, hops), 0])[flows.path]  # the last one is for no path
    at = {leaf: number for number, leaf in enumerate(sorted({one[0] for one in hops}))}
    plugged = np.zeros((len(network.endpoints), len(at) + 1), bool)
    for end, leaves in enumerate(network.leaves):
        plugged[end, [at[leaf] for leaf in leaves if leaf in at]] = True
    alone = np.array([*(at[one[0]] for one in hops), len(at)], dtype=np.int64)[flows.path]
    same = plugged[flows.src, alone] & plugged[flows.dst, alone]
    return float(np.mean((lengths >= 2) | ((lengths == 1) & same)))


def _share_with_ports(flows: FlowTable) -> float:
    ports = flows.optional.get("src_port")
    return 0.0 if ports is None or not ports.size else float(np.mean(ports >= 0))


def _usual_length(flows: FlowTable) -> float:
    """Return the length of record that half of the bytes are in or above."""
    if not len(flows):
        return 0.0
    order = np.argsort(flows.durations_ns)[::-1]
    total = np.cumsum(flows.bytes[order].astype(np.float64))
    half = np.searchsorted(total, total[-1] / 2)
    return float(flows.durations_ns[order[min(int(half), order.size - 1)]])


def _shortest_silence(flows: FlowTable) -> int | None:
    """Return about the shortest silence between two records of one connection.

    What follows a record of nearly the greatest length is no silence: the active timeout cut it.
    """
    names = [name for name in ("src_port", "dst_port", "protocol") if name in flows.optional]
    frame = pd.DataFrame({"src": flows.src, "dst": flows.dst})
    for name in names:
        frame[name] = flows.optional[name]
    connection = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    order = order_in_groups(connection, flows.start_ns)
    start, end = flows.start_ns[order], flows.end_ns[order]
    same = np.diff(connection[order]) == 0
    silence = start[1:] - end[:-1]
    whole = (end - start)[:-1] < _NOT_CUT * flows.durations_ns.max(initial=0)
    found = silence[same & whole & (silence > 0)]
    if found.size < _FEWEST_SILENCES:
        return None
    return int(np.quantile(found, _SHORT_SILENCE))
