"""Which connections carry training traffic.

A connection is a 5-tuple. Training circulates: what the servers of a job send, they also receive.
Control traffic, acknowledgements, storage and services are set aside, in this order: ends without
GPUs, returns on swapped ports, light connections, answers, what is minor beside a heavier
connection of its pair, and at last whatever does not circulate among servers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.front.parameters import (
    ANSWER_BYTES,
    ANSWER_RECORD,
    LIGHT_RECORD_BYTES,
    LIGHT_SHARE,
    MINOR_SHARE,
    ONE_SIDED,
    RETURN_FACTOR,
)
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints


@dataclass(frozen=True)
class Connections:
    """Connections of a recording; arrays of shape (connections,).

    Attributes
    ----------
    src, dst : endpoint codes.
    pair : index of the directed pair in ``FlowTable.pairs``.
    bytes, records : totals.
    typical : byte-weighted mean record [bytes].
    trains : whether it carries training traffic.
    answers : whether it acknowledges the data of the other direction.
    of_row : connection of each record, shape (rows,).
    """

    src: Codes
    dst: Codes
    pair: Codes
    bytes: Floats
    records: Ints
    typical: Floats
    trains: Bools
    answers: Bools
    of_row: Codes


def find_connections(flows: FlowTable, topology: Topology) -> Connections:
    """The connections of ``flows``, and which of them carry training traffic."""
    src, dst, pair = flows.pairs
    ports = [flows.optional.get(name) for name in ("src_port", "dst_port")]
    columns = [
        np.zeros(len(flows), np.int64) if port is None else port.astype(np.int64) + 1
        for port in ports
    ]
    key = (pair.astype(np.int64) << 34) | (columns[0] << 17) | columns[1]
    of_row, distinct = pd.factorize(key)
    distinct = np.asarray(distinct, np.int64)
    of_pair = (distinct >> 34).astype(np.int32)
    sizes = sizes_of(flows).astype(np.float64)
    count = np.bincount(of_row, minlength=distinct.size)
    total: Floats = np.bincount(of_row, sizes, distinct.size).astype(np.float64)
    squares = np.bincount(of_row, sizes * sizes, distinct.size)
    connections = Connections(
        src[of_pair],
        dst[of_pair],
        of_pair,
        total,
        count,
        squares / np.maximum(total, 1.0),
        np.ones(distinct.size, bool),
        np.zeros(distinct.size, bool),
        of_row.astype(np.int32),
    )
    _set_aside(connections, topology, distinct & ((1 << 34) - 1))
    return connections


def sizes_of(flows: FlowTable) -> Ints:
    """Size of each record [bytes]: without headers, if the exporter gives that."""
    payload = flows.optional.get("payload")
    if payload is None:
        return flows.bytes
    return np.where(payload >= 0, payload, flows.bytes)


def _set_aside(found: Connections, topology: Topology, ports: Ints) -> None:
    """Clear ``trains`` of all that is no training traffic."""
    server = topology.servers
    trains = found.trains
    idle_ends = np.array([end.gpus == () for end in topology.endpoints])
    trains &= ~(idle_ends[found.src] | idle_ends[found.dst])
    trains &= server[found.src] != server[found.dst]
    found.answers[:] = _returns(found, ports)
    trains &= ~found.answers
    busiest = np.zeros(int(server.max(initial=0)) + 1)
    for ends in (found.src, found.dst):
        np.maximum.at(busiest, server[ends], np.where(trains, found.bytes, 0.0))
    least = LIGHT_SHARE * np.maximum(busiest[server[found.src]], busiest[server[found.dst]])
    trains &= (found.bytes >= least) & (found.typical >= LIGHT_RECORD_BYTES)
    answers = trains & _answers(found)
    found.answers[:] |= answers
    trains &= ~answers
    heaviest = np.zeros(int(found.pair.max(initial=0)) + 1)
    np.maximum.at(heaviest, found.pair, np.where(trains, found.bytes, 0.0))
    trains &= found.bytes >= MINOR_SHARE * heaviest[found.pair]
    _conserve(found, server)


def _returns(found: Connections, ports: Ints) -> Bools:
    """Acknowledgements on the swapped ports of a connection with many times the bytes."""
    swapped = ((ports & ((1 << 17) - 1)) << 17) | (ports >> 17)
    ends = pd.MultiIndex.from_arrays([found.src, found.dst, ports])
    there = ends.get_indexer(pd.MultiIndex.from_arrays([found.dst, found.src, swapped]))
    data = np.where(there >= 0, found.bytes[np.maximum(there, 0)], 0.0)
    returns: Bools = data > RETURN_FACTOR * found.bytes
    return returns


def _answers(found: Connections) -> Bools:
    """Connections of pairs whose other direction has far larger records and far more bytes."""
    pairs = int(found.pair.max(initial=0)) + 1
    weight = np.where(found.trains, found.bytes, 0.0)
    total = np.bincount(found.pair, weight, pairs)
    typical = np.bincount(found.pair, weight * found.typical, pairs) / np.maximum(total, 1.0)
    src, dst = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    src[found.pair], dst[found.pair] = found.src, found.dst
    there = pd.MultiIndex.from_arrays([src, dst]).get_indexer(pd.MultiIndex.from_arrays([dst, src]))
    has = there >= 0
    answers = has & (total < ANSWER_BYTES * total[there])
    answers &= typical <= ANSWER_RECORD * typical[there]
    result: Bools = answers[found.pair]
    return result


def _conserve(found: Connections, server: Codes) -> None:
    """Clear ``trains`` of what does not circulate: one one-sided server at a time."""
    servers = int(server.max(initial=0)) + 1
    home, goal = server[found.src], server[found.dst]
    while found.trains.any():
        at = np.flatnonzero(found.trains)
        graph = coo_matrix((np.ones(at.size), (home[at], goal[at])), (servers, servers))
        _, part = connected_components(graph, directed=True, connection="strong")
        found.trains[at] = part[home[at]] == part[goal[at]]
        at = np.flatnonzero(found.trains)
        sent = np.bincount(home[at], found.bytes[at], servers)
        received = np.bincount(goal[at], found.bytes[at], servers)
        busy = sent + received > 0
        ratio = np.ones(servers)
        ratio[busy] = np.minimum(sent, received)[busy] / np.maximum(sent, received)[busy]
        worst = int(np.argmin(ratio))
        if ratio[worst] >= ONE_SIDED:
            return
        found.trains[(home == worst) | (goal == worst)] = False
