"""Which events are the cause of a failure, by its causal structure.

1. A part that states its own fault is the cause; those who report that another part does not
   answer are not. A process that a signal ended cannot state it: its agent does.
2. Without such a statement, the parts that *cannot* answer are the cause: the rank that shows the
   lowest number of collectives, that waits for another collective than all others, or that is
   silent when all others have timed out. Dumps of the flight recorder say so exactly.
3. Without those, the part that most lost connections share is; of equals, the first by the
   scheduler's order of the nodes that ended: its lines lie in one file, so clocks do not matter.
4. Without any, the node that ended first.

A job whose iterations became slow, and in which nothing else failed, is slow.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from llmlog.clocks import seconds
from llmlog.collectives import find_hang
from llmlog.connections import lost_connections, of_own_network, shared_ends
from llmlog.events import Event, Evidence, Writer, is_reaction
from llmlog.progress import Iteration

SIGNALS = {-4, -7, -8, -9, -11}
"""Exit codes of processes that could not print why: illegal instruction, bus, arithmetic, kill,
segmentation fault. SIGABRT and SIGTERM are printed, or sent by others."""
SURE = {"fault": 1.0, "ended": 0.9, "hang": 0.7, "slow": 0.7, "connection": 0.6, "unknown": 0.2}
"""How sure each way of finding the culprit is, before shares of causes."""
_ROLES = {"teardown": "teardown", "advice": "boilerplate"}
_ROLES |= dict.fromkeys(("benign", "slow", "moment"), "benign")
_AFTER = 2
"""Completed iterations after which a fault is overcome."""
_TOLERANCE_S = 5.0
"""By which clocks of nodes may differ."""
_WAITS = re.compile(r"SeqNum=(\d+), OpType=(\w+)")
_DONE = re.compile(r"last completed NCCL work: (-?\d+)")


@dataclass
class Culprit:
    """What failed first.

    Attributes
    ----------
    how : ``fault``, ``hang``, ``connection``, ``ended``, ``slow`` or ``unknown``.
    events : those that indicate it.
    nodes : most probable first; empty if it belongs to no single node.
    ranks : global ranks that failed first.
    slow : the first slow iteration of a slow job.
    everywhere : whether all nodes state the same fault: then it is nobody's own.
    """

    how: str
    events: list[Event] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    slow: Iteration | None = None
    everywhere: bool = False


def find_culprit(evidence: Evidence) -> Culprit:
    """Find what failed first, and give each event its role."""
    for event in evidence.events:
        event.role = _ROLES.get(event.group, "cascade")
    culprit = (
        _faulty(evidence)
        or _ended_by_signal(evidence)
        or _lost_first(evidence)
        or _recorded(evidence)
        or _waited_for(evidence)
        or _lost(evidence)
        or _slow(evidence)
        or _first_ended(evidence)
    )
    for event in culprit.events:
        event.role = "cause"
    return culprit


def _by_end(evidence: Evidence) -> list[str]:
    """Nodes in the order in which the scheduler or their agents saw them end."""
    ended = evidence.of("ended", "killed", "node_failed")
    return list(dict.fromkeys(event.node for event in ended if event.node is not None))


def _nodes(evidence: Evidence, events: list[Event]) -> list[str]:
    """Nodes of events: those that ended first, then those with most events."""
    counts = Counter(event.node for event in events if event.node is not None)
    order = {node: place for place, node in enumerate(_by_end(evidence))}
    return sorted(counts, key=lambda node: (order.get(node, len(order)), -counts[node], node))


def _ranks(evidence: Evidence, events: list[Event], node: str | None) -> list[int]:
    found: set[int] = set()
    for event in events:
        if node is not None and event.node != node:
            continue
        rank = event.rank
        if rank is None and event.own_pid is not None and event.node is not None:
            local = evidence.pids.get((event.node, event.own_pid))
            rank = None if local is None else evidence.rank_of(Writer(event.node, local))
        if rank is not None:
            found.add(rank)
    return sorted(found)


def _faulty(evidence: Evidence) -> Culprit | None:
    """Parts that state their own fault."""
    faults = [
        event for event in evidence.events if event.group == "fault" and not is_reaction(event)
    ]
    faults += _links_down(evidence)
    mended = [event for event in faults if _overcome(evidence, event)]
    for event in mended:
        event.role = "benign"
    faults = [event for event in faults if event not in mended]
    if not faults:
        return None
    located = [event for event in faults if event.writer.node is not None]
    nodes = _nodes(evidence, located or faults)
    if _everywhere(evidence, faults):
        ranks = _ranks(evidence, faults, None)
        return Culprit("fault", faults, [], ranks, everywhere=True)
    if nodes:  # what a later node states is not the first fault
        faults = [event for event in faults if event.node in (nodes[0], None)]
    faults += _signal_reports(evidence, nodes[:1])
    faults += [event for event in evidence.of("state") if event.node in nodes[:1]]
    faults += [event for event in _odd_ones(evidence) if event.node in nodes[:1]]
    faults += of_own_network(evidence, faults)
    ranks = _ranks(evidence, faults, nodes[0] if nodes else None)
    reports = [event for event in faults if event.kind == "failed"]
    for event in reports:
        ranks = sorted({*ranks, *_reported_rank(evidence, event)})
    return Culprit("fault", faults, nodes, ranks)


def _overcome(evidence: Evidence, event: Event) -> bool:
    """Whether the job completed iterations after a fault: of the same file, or by their times.

    One more iteration may be under way when a part fails.
    """
    clocks = evidence.clocks
    at = seconds(event.time)
    later = 0
    for one in evidence.progress.iterations[-_AFTER:]:
        done = seconds(one.time)
        if one.file == event.file:
            later += one.line > event.line
        elif at is not None and done is not None:
            shift = clocks.get(event.node or "", 0.0) - clocks.get(one.node or "", 0.0)
            later += done > at - shift + _TOLERANCE_S
    return later >= _AFTER


def _everywhere(evidence: Evidence, faults: list[Event]) -> bool:
    """Whether all nodes state the same exception: then it is nobody's own."""
    raised = {event.node for event in faults if event.kind == "exception" and event.writer.node}
    there = {event.writer.node for event in evidence.events if event.writer.local is not None}
    there |= {writer.node for writer in evidence.ranks}
    return len(there) > 1 and raised >= there - {None}


def _links_down(evidence: Evidence) -> list[Event]:
    """Links that went down and did not come up again."""
    last: dict[tuple[str | None, str | None], Event] = {}
    for event in evidence.of("link"):
        last[event.node, event.fields.get("device")] = event
    return [event for event in last.values() if event.fields.get("state") == "down"]


def _signal_reports(evidence: Evidence, nodes: list[str]) -> list[Event]:
    """What agents of ``nodes`` report about ranks that a signal ended, with their summaries."""
    died = [
        event
        for event in evidence.of("failed")
        if int(event.fields.get("code") or 0) in SIGNALS and (not nodes or event.node in nodes)
    ]
    places = {event.node for event in died}
    return died + [event for event in evidence.of("summary") if event.node in places]


def _reported_rank(evidence: Evidence, event: Event) -> list[int]:
    rank = evidence.rank_of(Writer(event.node, int(event.fields.get("local") or 0)))
    return [] if rank is None else [rank]


def _ended_by_signal(evidence: Evidence) -> Culprit | None:
    """Processes that a signal ended, which nobody in the job sent."""
    died = _signal_reports(evidence, [])
    if not died:
        died = evidence.of("killed")[:1]
    if not died:
        return None
    nodes = _nodes(evidence, died)
    first = [event for event in died if event.node == nodes[0]] if nodes else died
    ranks = [
        rank for event in first if event.kind == "failed"
        for rank in _reported_rank(evidence, event)
    ]  # fmt: skip
    return Culprit("ended", first, nodes, ranks)


def _odd_ones(evidence: Evidence) -> list[Event]:
    """Time-outs that wait for another collective than most."""
    waits = [
        (match.groups(), event)
        for event in evidence.of("timeout")
        if (match := _WAITS.search(event.text))
    ]
    if len(waits) < 3:
        return []
    usual, _ = Counter(groups for groups, _ in waits).most_common(1)[0]
    return [event for groups, event in waits if groups != usual]


def _waited_for(evidence: Evidence) -> Culprit | None:
    """The ranks that the others waited for when they timed out."""
    timed_out = {event.writer for event in evidence.of("timeout")}
    if not timed_out:
        return None
    named = _odd_ones(evidence) or _lowest(evidence)
    if named:
        nodes = _nodes(evidence, named)
        shown = [e for e in evidence.of("state") if e.writer in {n.writer for n in named}]
        events = named + [event for event in shown if event not in named]
        return Culprit("hang", events, nodes, _ranks(evidence, named, nodes[0] if nodes else None))
    silent = _silent(evidence, timed_out)
    reached = {writer.node for writer in timed_out}
    partly = [writer for writer in silent if writer.node in reached] or silent
    if not partly:
        gone = [node for node in evidence.nodes if node not in reached]
        return Culprit("hang", [], gone, [])
    counts = Counter(writer.node for writer in partly if writer.node is not None)
    nodes = sorted(counts, key=lambda node: (counts[node], node))
    ranks = [evidence.rank_of(writer) for writer in partly if writer.node in nodes[:1] or not nodes]
    return Culprit("hang", [], nodes, sorted(rank for rank in ranks if rank is not None))


def _silent(evidence: Evidence, timed_out: set[Writer]) -> list[Writer]:
    """Ranks that showed themselves, and did not time out.

    If there is none, those by the accounting: of nodes without any line, else of all nodes.
    """
    known = [writer for writer in evidence.ranks if writer not in timed_out]
    if known:
        return known
    shown = {writer.node for writer in timed_out | evidence.ranks.keys()}
    width = evidence.job.gpus_per_node or 0
    ranks = [Writer(node, local) for node in evidence.nodes for local in range(width)]
    silent = [writer for writer in ranks if writer not in timed_out]
    return [writer for writer in silent if writer.node not in shown] or silent


def _recorded(evidence: Evidence) -> Culprit | None:
    """The ranks that the others waited for, as dumps of the flight recorder show."""
    hang = find_hang(evidence.dumps.values())
    if not hang.culprits:
        return None
    events = []
    for rank, reason in hang.reasons.items():
        file = evidence.dump_files.get(rank, "")
        writer = Writer(evidence.node_of(rank), None)
        events.append(Event(reason.kind, "report", writer, rank, file, 1, "", reason.text))
    evidence.events += events
    nodes = list(dict.fromkeys(e.node for e in events if e.node is not None))
    return Culprit("hang", events, nodes, hang.culprits)


def _lowest(evidence: Evidence) -> list[Event]:
    """States of ranks with the lowest number of completed collectives, which did not time out."""
    timed_out = {event.writer for event in evidence.of("timeout")}
    states = [
        (int(match[1]), event)
        for event in evidence.of("state")
        if event.writer not in timed_out and (match := _DONE.search(event.text))
    ]
    lowest = min((number for number, _ in states), default=0)
    return [event for number, event in states if number == lowest]


def _lost_first(evidence: Evidence) -> Culprit | None:
    """The node that ended first, if it lost a connection before anybody timed out."""
    lost = _lost(evidence)
    if lost is None or lost.nodes[:1] != _by_end(evidence)[:1]:
        return None
    timed_out = {event.node for event in evidence.of("timeout")}
    return None if timed_out & {*lost.nodes[:1]} else lost


def _lost(evidence: Evidence) -> Culprit | None:
    """The node that most lost connections share, else the first that lost one."""
    lost = lost_connections(evidence)
    if not lost:
        return None
    shared = shared_ends(evidence)
    nodes = sorted(_nodes(evidence, lost), key=lambda node: -shared[node])
    first = [event for event in lost if event.node == nodes[0]] if nodes else lost
    return Culprit("connection", first, nodes, _ranks(evidence, first, None))


def _slow(evidence: Evidence) -> Culprit | None:
    """A job whose iterations became longer."""
    slow = evidence.progress.slower()
    if slow is None:
        return None
    events = [event for event in evidence.events if event.group == "slow"]
    local = [event for event in events if event.kind != "late"]  # who waits is not at fault
    counts = Counter(event.node for event in local if event.node is not None)
    nodes = [node for node, _ in counts.most_common()]
    return Culprit("slow", events, nodes, [], slow)


def _first_ended(evidence: Evidence) -> Culprit:
    """The node that ended first; nothing in the logs says why."""
    return Culprit("unknown", [], _by_end(evidence), [])
