"""Which events are the cause of a failure, by its causal structure.

1. A part that states its own fault is the cause; those who report that another part does not
answer are not. A process that a signal ended cannot state it: its agent does. 2. Without such a
statement, the parts that *cannot* answer are the cause: the rank that shows the lowest number
of collectives, that waits for another collective than all others, or that is silent when all
others have timed out. Dumps of the flight recorder say so exactly. 3. Without those, the part
that most lost connections share is; of equals, the first by the scheduler's order of the nodes
that ended: its lines lie in one file, so clocks do not matter. 4. Without those, the rank that
a launcher reports first; without any, the node that ended first.

A job whose iterations became slow, and in which nothing else failed, is slow. One that was
silent for long when its time limit ended it hung. What the job overcame, or what an earlier
attempt met, is no cause."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from llmlog.attempts import set_aside
from llmlog.clocks import seconds
from llmlog.collectives import find_hang
from llmlog.connections import lost_connections, of_own_network, shared_ends
from llmlog.evidence import Event, Evidence, Writer
from llmlog.paces import Iteration, usual_s
from llmlog.tracebacks import is_reaction

SIGNALS = {"4", "7", "8", "9", "11"}
"""Signals of processes that could not print why: illegal instruction, bus, arithmetic, kill,
segmentation fault. SIGABRT and SIGTERM are printed, or sent by others."""
SURE = {
    "fault": 1.0,
    "ended": 0.9,
    "hang": 0.7,
    "slow": 0.7,
    "connection": 0.6,
    "reported": 0.5,
    "unknown": 0.2,
}
"""How sure each way of finding the culprit is, before shares of causes."""
_ROLES = {"teardown": "teardown", "advice": "boilerplate"}
_ROLES |= dict.fromkeys(("benign", "slow", "moment", "limit"), "benign")
_NAMES = {
    "SIGKILL": "9",
    "Killed": "9",
    "Out Of Memory": "9",
    "SIGSEGV": "11",
    "Segmentation fault": "11",
}
_NAMES |= {"SIGBUS": "7", "Bus error": "7", "SIGFPE": "8", "Floating point exception": "8"}
_NAMES |= {"SIGILL": "4", "Illegal instruction": "4", "SIGABRT": "6", "SIGTERM": "15"}
_EXIT = re.compile(r"(?:KILLED BY SIGNAL|EXIT CODE|signal): *(\d+)", re.IGNORECASE)
_SILENT, _SILENT_S = 10, 300.0
"""Lengths of an iteration, and seconds, after which a job that shows no progress hangs."""
_REPORTS = (
    "summary",
    "failed",
    "died",
    "exited",
    "task_error",
    "actor_died",
    "exception",
    "task_failed",
)
"""Kinds of events by which a launcher says that a process failed, the most exact first."""
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
    set_aside(evidence)
    culprit = (
        _faulty(evidence)
        or _ended_by_signal(evidence)
        or _awaited(evidence)
        or _lost_first(evidence)
        or _recorded(evidence)
        or _waited_for(evidence)
        or _lost(evidence)
        or _reported(evidence)
        or _slow(evidence)
        or _silent_until_the_limit(evidence)
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
    faults = [event for event in evidence.of_group("fault") if not is_reaction(event)]
    faults += _links_down(evidence)
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
    if not nodes and not ranks and (killed := evidence.of("killed")[:1]):
        nodes, faults = [node for event in killed if (node := event.node)], faults + killed
    if not ranks and (named := _named_first(evidence)) is not None:
        nodes = nodes or ([named.node] if named.node else [])
        ranks = [named.rank] if named.rank is not None and named.node in (*nodes[:1], None) else []
    return Culprit("fault", faults, nodes, ranks)


def _named_first(evidence: Evidence) -> Event | None:
    """The first report of a launcher about a rank; None if reports name several ranks."""
    named = [
        event
        for event in evidence.of(*_REPORTS, "killed")
        if event.group == "report" and event.rank is not None
    ]
    exact = [event for event in named if event.kind == "summary"] or named
    return exact[0] if len({event.rank for event in exact}) == 1 else None


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
    down = ("down", "unplugged")
    return [event for event in last.values() if (event.fields.get("state") or "").lower() in down]


def _signal_reports(evidence: Evidence, nodes: list[str]) -> list[Event]:
    """What agents of ``nodes`` report about ranks that a signal ended, with their summaries."""
    died = [
        event
        for event in evidence.of("actor_died")
        if event.node is not None and (not nodes or event.node in nodes)
    ]
    died += [
        event
        for event in evidence.of("failed", "died", "exited")
        if signal_of(event) in SIGNALS and (not nodes or event.node in nodes)
    ]
    places = {event.node for event in died}
    return died + [event for event in evidence.of("summary") if event.node in places]


def _killed_first(evidence: Evidence) -> list[Event]:
    """The first process that the scheduler saw killed, if no other had failed before."""
    killed = evidence.of("killed")[:1]
    failed = [event for event in evidence.of("ended") if int(event.fields.get("code") or 0)]
    for event in killed:
        before = [one for one in failed if one.file == event.file and one.line < event.line]
        if any(one.fields.get("tasks") != event.fields.get("tasks") for one in before):
            return []
    return killed


def signal_of(event: Event) -> str | None:
    """The number of the signal that ended a process, as a launcher reports it; None if none did."""
    text = event.fields.get("signal") or event.fields.get("code")
    if text is None and (match := _EXIT.search(event.text)):
        text = match[1]
    if text is None:
        return None
    number = _NAMES.get(text, text).removeprefix("-")
    if event.fields.get("signal") or text.startswith("-"):
        return number
    return (
        str(int(number) - 128)
        if number.isdigit() and int(number) > 128
        else number
        if event.kind == "died"
        else None
    )


def _reported_rank(evidence: Evidence, event: Event) -> list[int]:
    if event.rank is not None:
        return [event.rank]
    if not event.fields.get("local"):
        return []
    rank = evidence.rank_of(Writer(event.node, int(event.fields.get("local") or 0)))
    return [] if rank is None else [rank]


def _ended_by_signal(evidence: Evidence) -> Culprit | None:
    """Processes that a signal ended, which nobody in the job sent."""
    died = _signal_reports(evidence, [])
    if not died:
        died = [event for event in evidence.of("summary") if signal_of(event) in SIGNALS]
    if not died:
        died = _killed_first(evidence)
    if not died:
        return None
    nodes = _nodes(evidence, died)
    first = [event for event in died if event.node == nodes[0]] if nodes else died
    ranks = [
        rank for event in first if event.kind != "summary"
        for rank in _reported_rank(evidence, event)
    ]  # fmt: skip
    ranks = ranks or _ranks(evidence, first, None)
    return Culprit("ended", first, nodes, sorted(set(ranks)))


def _awaited(evidence: Evidence) -> Culprit | None:
    """The ranks that reports of a time-out name as those that others waited for."""
    named = evidence.of_group("awaited")
    ranks = Counter(rank for event in named for rank in event.numbers("ranks", "more"))
    if not ranks:
        return None
    waiting = {event.rank for event in evidence.of("timeout")} | {event.rank for event in named}
    free = {rank for rank in ranks if rank not in waiting} or set(ranks)
    most = max(ranks[rank] for rank in free)
    culprits = sorted(rank for rank in free if ranks[rank] == most)
    nodes = dict.fromkeys(evidence.node_of(rank) for rank in culprits)
    return Culprit("hang", named, [node for node in nodes if node is not None], culprits)


def _reported(evidence: Evidence) -> Culprit | None:
    """The process of which a launcher says first that it failed; nothing says why."""
    for kind in _REPORTS:
        events = [event for event in evidence.of(kind) if event.group == "report"]
        if events:
            first = [
                event
                for event in events
                if event.rank == events[0].rank and event.node == events[0].node
            ]
            node = events[0].node
            return Culprit("reported", first, [node] if node else [], _ranks(evidence, first, None))
    return None


def _silent_until_the_limit(evidence: Evidence) -> Culprit | None:
    """A job that had shown no progress for long, or was at its end, when its limit ended it."""
    done = evidence.progress.iterations
    for event in evidence.of("time_limit"):
        if any(file == event.file for file, _ in evidence.progress.ends):
            return Culprit("hang", [event], [], [])
        end, last = (
            seconds(event.fields.get("at") or event.time),
            seconds(done[-1].time) if done else None,
        )
        least = max(_SILENT_S, _SILENT * (usual_s(done) or 0.0))
        if end is not None and last is not None and end - last > least:
            return Culprit("hang", [event], [], [])
    return None


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


Party = int | Writer
"""A process: its global rank if it is known, else its writer."""


def _party(evidence: Evidence, writer: Writer) -> Party:
    rank = evidence.rank_of(writer)
    return writer if rank is None else rank


def _waited_for(evidence: Evidence) -> Culprit | None:
    """The ranks that the others waited for when they timed out."""
    waiting = {_party(evidence, event.writer): event.node for event in evidence.of("timeout")}
    waiting |= {
        event.rank: event.node for event in evidence.of("timeout") if event.rank is not None
    }
    if not waiting:
        return None
    named = _odd_ones(evidence) or _lowest(evidence)
    if named:
        nodes = _nodes(evidence, named)
        shown = [e for e in evidence.of("state") if e.writer in {n.writer for n in named}]
        events = named + [event for event in shown if event not in named]
        return Culprit("hang", events, nodes, _ranks(evidence, named, nodes[0] if nodes else None))
    silent = _silent(evidence, waiting)
    reached = set(waiting.values())
    partly = {party: node for party, node in silent.items() if node in reached} or silent
    if not partly:
        gone = [node for node in evidence.nodes if node not in reached]
        return Culprit("hang", [], gone, [])
    counts = Counter(node for node in partly.values() if node is not None)
    nodes = sorted(counts, key=lambda node: (counts[node], node))
    first = [party for party, node in partly.items() if not nodes or node == nodes[0]]
    return Culprit("hang", [], nodes, sorted(party for party in first if isinstance(party, int)))


def _silent(evidence: Evidence, waiting: dict[Party, str | None]) -> dict[Party, str | None]:
    """Ranks that showed themselves, and did not time out, with their nodes.

    If there is none, those by the accounting: of nodes without any line, else of all nodes.
    """
    known: dict[Party, str | None] = {
        rank: writer.node or evidence.rank_nodes.get(rank)
        for writer, rank in evidence.ranks.items()
        if rank not in waiting
    }
    if known:
        return known
    shown = set(waiting.values()) | {writer.node for writer in evidence.ranks}
    width = evidence.job.gpus_per_node or 0
    ranks = [Writer(node, local) for node in evidence.nodes for local in range(width)]
    parties = {_party(evidence, writer): writer.node for writer in ranks}
    silent = {party: node for party, node in parties.items() if party not in waiting}
    return {party: node for party, node in silent.items() if node not in shown} or silent


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
