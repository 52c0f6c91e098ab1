"""Parts that others waited for: who a hang is about, by reports, dumps, states and silence."""

from __future__ import annotations

import re
from collections import Counter

from llmlog.clocks import seconds
from llmlog.collectives import find_hang
from llmlog.evidence import Event, Evidence, Writer
from llmlog.failing import Culprit, disagree, nodes_of, odd_ones, ranks_of
from llmlog.progress import usual_s

_DONE = re.compile(r"last completed NCCL work: (-?\d+)")
_SILENT, _SILENT_S = 10, 300.0
"""Lengths of an iteration, and seconds, after which a job that shows no progress hangs."""
Party = int | Writer
"""A process: its global rank if it is known, else its writer."""


def awaited(evidence: Evidence) -> Culprit | None:
    """The ranks that reports of a time-out name as those that others waited for."""
    named = evidence.of_group("awaited")
    ranks = Counter(rank for event in named for rank in event.numbers("ranks"))
    if not ranks:
        nodes = list(dict.fromkeys(event.node for event in named if event.node is not None))
        return Culprit("hang", named, nodes, []) if nodes else None
    waiting = {event.rank for event in evidence.of("timeout")}
    waiting |= {event.rank for event in named if event.rank not in event.numbers("ranks")}
    free = {rank for rank in ranks if rank not in waiting} or set(ranks)
    most = max(ranks[rank] for rank in free)
    culprits = sorted(rank for rank in free if ranks[rank] == most)
    named_at = {
        rank: event.fields.get("node") for event in named for rank in event.numbers("ranks")
    }
    places = dict.fromkeys(named_at[rank] or evidence.node_of(rank) for rank in culprits)
    return Culprit("hang", named, [node for node in places if node is not None], culprits)


def recorded(evidence: Evidence) -> Culprit | None:
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


def waited_for(evidence: Evidence) -> Culprit | None:
    """The ranks that the others waited for when they timed out."""
    waiting = {_party(evidence, event.writer): event.node for event in evidence.of("timeout")}
    waiting |= {
        event.rank: event.node for event in evidence.of("timeout") if event.rank is not None
    }
    if not waiting:
        return None
    named = odd_ones(evidence) or _lowest(evidence)
    if named:
        nodes = nodes_of(evidence, named)
        shown = [e for e in evidence.of("state") if e.writer in {n.writer for n in named}]
        events = named + [event for event in shown if event not in named]
        return Culprit(
            "hang", events, nodes, ranks_of(evidence, named, nodes[0] if nodes else None)
        )
    if differing := disagree(evidence):
        return Culprit("hang", differing, [], [])
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
    if evidence.size and len(waiting) > evidence.size // 2:  # who never shows itself
        absent = set(range(evidence.size)) - set(waiting)
        known |= {rank: evidence.node_of(rank) for rank in absent if rank not in known}
    if known:
        return known
    shown = set(waiting.values()) | {writer.node for writer in evidence.ranks}
    width = evidence.job.gpus_per_node or 0
    ranks = [Writer(node, local) for node in evidence.nodes for local in range(width)]
    parties = {_party(evidence, writer): writer.node for writer in ranks}
    silent = {party: node for party, node in parties.items() if party not in waiting}
    return {party: node for party, node in silent.items() if node not in shown} or silent


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


def _party(evidence: Evidence, writer: Writer) -> Party:
    rank = evidence.rank_of(writer)
    return writer if rank is None else rank


def silent_until_the_limit(evidence: Evidence) -> Culprit | None:
    """A job that had shown no progress for long, or was at its end, when its limit ended it."""
    done = evidence.progress.iterations
    for event in evidence.of("time_limit"):
        if any(file == event.file for file, _ in evidence.progress.ends):
            return Culprit("hang", [event], [], [])
        end = seconds(event.fields.get("at") or event.time)
        last = seconds(done[-1].time) if done else None
        least = max(_SILENT_S, _SILENT * (usual_s(done) or 0.0))
        if end is not None and last is not None and end - last > least:
            return Culprit("hang", [event], [], [])
    return None
