"""Lost connections: each has two ends, and one of them failed.

A part that lost its network loses all its connections, and each peer loses one. So the end that
most lost connections share is the one that failed.
"""

from __future__ import annotations

from collections import Counter

from llmlog.evidence import Event, Evidence
from llmlog.names import short
from llmlog.tracebacks import is_reaction


def lost_connections(evidence: Evidence) -> list[Event]:
    """Lines that say that a connection was lost, and ends of processes because of it."""
    aborted = evidence.of("death", "exception", "abort", "async_error")
    reasons = [event for event in aborted if is_reaction(event) and "caught" not in event.text]
    return evidence.of("peer", "connection") + reasons


def shared_ends(evidence: Evidence) -> Counter[str]:
    """By node, with how many other nodes it lost connections; either of the two may say so."""
    pairs = {frozenset(pair) for pair in _pairs(evidence) if pair[0] != pair[1]}
    return Counter(node for pair in pairs for node in pair)


def many_nodes_lost(evidence: Evidence) -> bool:
    """Whether at least two nodes lost connections to peers outside of them."""
    lost = dict(_pairs(evidence))
    return sum(peer not in lost for peer in lost.values()) > 1


def of_own_network(evidence: Evidence, faults: list[Event]) -> list[Event]:
    """Connections that nodes lost whose own network is at fault."""
    nodes = {event.node for event in faults if event.kind in ("link", "port")}
    return [event for event in lost_connections(evidence) if event.node in nodes]


def _pairs(evidence: Evidence) -> list[tuple[str, str]]:
    """Who lost a connection, and to whom; peers of unknown nodes are left out."""
    events = evidence.of("peer", "connection")
    found = ((event.node, _peer(evidence, event.fields.get("peer") or "")) for event in events)
    return [(node, peer) for node, peer in found if node is not None and peer is not None]


def _peer(evidence: Evidence, name: str) -> str | None:
    """The node of an address or a name of a peer."""
    by_name = {short(node): node for node in evidence.addresses.values()}
    unlisted = None if evidence.nodes or not name else name
    return (
        evidence.addresses.get(name)
        or evidence.addresses.get(short(name))
        or by_name.get(short(name))
        or unlisted
    )
