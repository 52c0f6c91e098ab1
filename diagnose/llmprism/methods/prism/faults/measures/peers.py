"""How much slower the messages of each connection are than those of its peers, in all steps.

A part of the network that is slow all along has no healthy step. But other connections of the
pipelines of its job carry messages of the same size over as many hops. Messages that meet on a link
take turns, or share it, so what counts is the pace of the fastest ones of each connection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.bursts import Bursts, bursts_of
from llmprism.methods.prism.pipelines.last_stage import may_block
from llmprism.methods.prism.pipelines.micro_batches import usual_size
from llmprism.numerics.arrays import Bools, Floats, Ints, weighted_quantile

MOSTLY = 0.5  # of the records of a class: so many have one message each
FASTEST = 0.1  # quantile of the lengths of messages
FEWEST = 10  # messages of a connection that show it
PEERS = 4  # connections over as many hops that show what is usual
SLOWER = 2.0  # times as long as messages of peers: hosts and switches of one kind differ by less
TICKS = 3.0  # of the clock, at least


@dataclass(frozen=True)
class Paced:
    """Connections of pipelines whose single messages show; arrays of equal length.

    Attributes
    ----------
    connection : number of the connection.
    ratio : length of its fastest messages over that of its peers.
    slow : whether it is slower than its peers.
    extra_ns : what its messages of a step take longer than those of its peers do, median.
    """

    connection: Ints
    ratio: Floats
    slow: Bools
    extra_ns: Floats


def compared_with_peers(context: Context, job: JobView) -> Paced:
    """Compare the messages of ``job`` between connections; none with TCP.

    There a message also waits for its receiver.
    """
    found = [np.empty((0, 4))]
    for part in job.phases.classes:
        if part.kind != "pp" or may_block(context.flows, [part]):
            continue
        bursts = bursts_of(context, job, part)
        if bursts.size.size:
            found.append(_fastest(context, job, part, bursts))
    tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    return _compared(np.concatenate(found), tick_ns)


def _fastest(context: Context, job: JobView, part: KindOf, bursts: Bursts) -> Floats:
    """Connection, hops, length of its fastest messages [ns], and messages of a step, in rows.

    None of a class whose records mostly hold several messages.
    """
    single = np.rint(bursts.size / usual_size(bursts.size)) == 1
    if single.mean() < MOSTLY:
        return np.empty((0, 4))
    place, lasted = bursts.place[single], (bursts.end_ns - bursts.start_ns)[single]
    at, fastest = weighted_quantile(place, lasted.astype(np.float64), np.ones(place.size), FASTEST)
    messages = np.bincount(place)[at]
    steps = np.bincount(np.unique(place * job.count + bursts.step[single]) // job.count)[at]
    own = part.one.connections[at]
    hops = np.array([_hops(context, one) for one in own.tolist()])
    every = np.column_stack((own, hops, fastest, messages / steps)).astype(np.float64)
    return every[messages >= FEWEST]


def _compared(values: Floats, tick_ns: float) -> Paced:
    """Compare each row of connection, hops, fastest message [ns] and messages of a step."""
    connection, hops, fastest, in_step = values.T
    usual = np.full(hops.size, np.nan)
    for one in np.unique(hops).tolist():
        own = hops == one
        if own.sum() >= PEERS:
            usual[own] = np.median(fastest[own])
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = fastest / np.where(usual > 0, usual, np.nan)
        slow = (fastest > SLOWER * usual) & (fastest - usual > TICKS * tick_ns)
        extra_ns = np.maximum(fastest - usual, 0.0) * in_step
    return Paced(connection.astype(np.int64), ratio, slow, extra_ns)


def _hops(context: Context, connection: int) -> int:
    """Switches that a connection crosses at most; 0 if its path is unknown."""
    codes = np.unique(context.flows.path[context.connections.by.rows(connection)])
    return max((context.flows.paths[code].count("|") + 1 for code in codes if code >= 0), default=0)
