"""Parts that failed: nodes and ranks of events, and the rules that find who failed by itself."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from llmlog.connections import lost_connections, of_own_network, shared_ends
from llmlog.evidence import Event, Evidence, Writer
from llmlog.progress import Iteration
from llmlog.tracebacks import is_reaction

SIGNALS = {"4", "7", "8", "9", "11"}
"""Signals after which a process prints nothing; of others it prints why, or others sent them."""
_SPOKEN = (
    ("9", "SIGKILL,Killed,Out Of Memory,已杀死,Getötet"), ("6", "SIGABRT"),
    ("11", "SIGSEGV,Segmentation fault,段错误,Speicherzugriffsfehler"), ("15", "SIGTERM"),
    ("7", "SIGBUS,Bus error"), ("8", "SIGFPE,Floating point exception"),
    ("4", "SIGILL,Illegal instruction"),
)  # fmt: skip
_NAMES = {name: number for number, names in _SPOKEN for name in names.split(",")}
_EXIT = re.compile(r"(?:KILLED BY SIGNAL|EXIT CODE|signal): *(\d+)", re.IGNORECASE)
_REPORTS = ("summary", "died", "failed", "exception", "job_failed", "ended_by_signal", "abort")
"""Kinds of events by which a launcher says that a process failed, the most exact first."""
_WAITS = re.compile(r"SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?")


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


def by_end(evidence: Evidence) -> list[str]:
    """Nodes in the order in which the scheduler or their agents saw them end."""
    ended = evidence.of("ended", "killed", "lost")
    return list(dict.fromkeys(event.node for event in ended if event.node is not None))


def nodes_of(evidence: Evidence, events: list[Event]) -> list[str]:
    """Nodes of events: those that ended first, then those with most events."""
    counts = Counter(event.node for event in events if event.node is not None)
    order = {node: place for place, node in enumerate(by_end(evidence))}
    return sorted(counts, key=lambda node: (order.get(node, len(order)), -counts[node], node))


def ranks_of(evidence: Evidence, events: list[Event], node: str | None) -> list[int]:
    found: set[int] = set()
    for event in events:
        if node is not None and event.node not in (node, None):
            continue
        rank = event.rank
        if rank is None and event.own_pid is not None and event.node is not None:
            local = evidence.pids.get((event.node, event.own_pid))
            rank = None if local is None else evidence.rank_of(Writer(event.node, local))
        if rank is not None:
            found.add(rank)
    return sorted(found)


def faulty(evidence: Evidence) -> Culprit | None:
    """Parts that state their own fault."""
    faults = [event for event in evidence.of_group("fault") if not is_reaction(event)]
    faults += links_down(evidence)
    faults = [event for event in faults if event.kind != "node_lost"] or faults
    if not faults:
        return None
    located = [event for event in faults if event.writer.node is not None]
    nodes = nodes_of(evidence, located or faults)
    if _everywhere(evidence, faults):
        ranks = ranks_of(evidence, faults, None)
        return Culprit("fault", faults, [], ranks, everywhere=True)
    if nodes:  # what a later node states is not the first fault
        faults = [event for event in faults if event.node in (nodes[0], None)]
    faults += _signal_reports(evidence, nodes[:1])
    faults += [event for event in evidence.of("state") if event.node in nodes[:1]]
    faults += [event for event in odd_ones(evidence) if event.node in nodes[:1]]
    faults += of_own_network(evidence, faults)
    ranks = ranks_of(evidence, faults, nodes[0] if nodes else None)
    reports = [event for event in faults if event.kind == "died"]
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


def links_down(evidence: Evidence) -> list[Event]:
    """Links that went down and did not come up again."""
    last: dict[tuple[str | None, str | None], Event] = {}
    for event in evidence.of("link"):
        last[event.node, event.fields.get("device")] = event
    down = ("down", "unplugged")
    return [event for event in last.values() if (event.fields.get("state") or "").lower() in down]


def _waits(evidence: Evidence) -> list[tuple[tuple[str, ...], Event]]:
    """Time-outs with the number, the name and the size of the collective that they wait for."""
    found = ((_WAITS.search(event.text), event) for event in evidence.of("timeout"))
    return [(match.groups(), event) for match, event in found if match]


def disagree(evidence: Evidence) -> list[Event]:
    """Two time-outs in different collectives of one number: nobody knows which one is right."""
    waits = _waits(evidence)
    same = len(waits) == 2 and waits[0][0][0] == waits[1][0][0] and waits[0][0] != waits[1][0]
    return [event for _, event in waits if same]


def odd_ones(evidence: Evidence) -> list[Event]:
    """Time-outs that wait for another collective than most; of two, for the one before."""
    waits = _waits(evidence)
    last = max((int(groups[0]) for groups, _ in waits), default=0)
    if len(waits) < 3:
        return [event for groups, event in waits if int(groups[0]) == last - 1]
    usual, _ = Counter(groups for groups, _ in waits).most_common(1)[0]
    return [event for groups, event in waits if groups != usual]


def _signal_reports(evidence: Evidence, nodes: list[str]) -> list[Event]:
    """What agents of ``nodes`` report about ranks that a signal ended, with their summaries."""
    reports = [event for event in evidence.of("died") if event.group == "report"]
    died = [event for event in reports if not nodes or event.node in nodes]
    died = [event for event in died if signal_of(event) in (*SIGNALS, None)]
    died = [event for event in died if signal_of(event) in SIGNALS] or died  # who says how
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
    if number.isdigit() and int(number) > 128:
        return str(int(number) - 128)
    return number if event.kind == "died" else None


def _reported_rank(evidence: Evidence, event: Event) -> list[int]:
    if event.rank is not None:
        return [event.rank]
    if not event.fields.get("local"):
        return []
    rank = evidence.rank_of(Writer(event.node, int(event.fields.get("local") or 0)))
    return [] if rank is None else [rank]


def ended_by_signal(evidence: Evidence) -> Culprit | None:
    """Processes that a signal ended, which nobody in the job sent."""
    died = _signal_reports(evidence, [])
    if not died:
        died = [event for event in evidence.of("summary") if signal_of(event) in SIGNALS]
    if not died:
        died = _killed_first(evidence)
    if not died:
        return None
    nodes = nodes_of(evidence, died)
    first = [event for event in died if event.node == nodes[0]] if nodes else died
    ranks = [
        rank for event in first if event.kind != "summary"
        for rank in _reported_rank(evidence, event)
    ]  # fmt: skip
    ranks = ranks or ranks_of(evidence, first, None)
    return Culprit("ended", first, nodes, sorted(set(ranks)))


def reported(evidence: Evidence) -> Culprit | None:
    """The process of which a launcher says first that it failed; nothing says why."""
    for kind in _REPORTS:
        events = [event for event in evidence.of(kind) if event.group == "report"]
        if events:
            lead = events[0]
            first = [
                event for event in events if (event.rank, event.node) == (lead.rank, lead.node)
            ]
            ranks = ranks_of(evidence, first, None)
            return Culprit("reported", first, [lead.node] if lead.node else [], ranks)
    return None


def lost(evidence: Evidence) -> Culprit | None:
    """The node that most lost connections share, else the first that lost one."""
    events = lost_connections(evidence)
    if not events:
        return None
    shared = shared_ends(evidence)
    nodes = nodes_of(evidence, events)
    gone = [node for node, count in shared.items() if count > 1 and node not in nodes]
    nodes = sorted(gone + nodes, key=lambda node: -shared[node])
    first = [event for event in events if nodes and event.node == nodes[0]] or events
    ranks = ranks_of(evidence, first, None)
    if not ranks and (named := _named_first(evidence)) and named.node in (*nodes[:1], None):
        ranks = [named.rank] if named.rank is not None else []
    return Culprit("connection", first, nodes, ranks)


def first_ended(evidence: Evidence) -> Culprit:
    """The node that ended first; nothing in the logs says why."""
    return Culprit("unknown", [], by_end(evidence), [])
