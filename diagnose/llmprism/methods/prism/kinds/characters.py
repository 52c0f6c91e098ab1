"""What a class of connections is like: its shape, and when its traffic moves in a step.

:mod:`~llmprism.methods.prism.kinds.kinds` decides from these figures what the class is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.sizes import is_activations
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import BOOLS, CODES, INTS, compile_early
from llmprism.numerics.graph import components

OUTSTANDING = 0.35  # share of silence with messages outstanding from which it is a pipeline
TOGETHER = 0.3  # share of the lesser direction's time in which both move, as in an exchange
AHEAD = 0.02  # of a step's volume, mean: what a pipeline has outstanding at least
BESIDE, LOST_AHEAD = 0.8, 0.1  # the same where both begin and move together, and records are lost
NEARLY_ALL, EQUALLY = 0.9, 0.1  # share of bytes of records that are nearly as fast as the fastest
PASSES = 0.65  # a pipeline rests for less than this share of a step
MORE = 0.1  # of the usual bytes of a step: a step that moves more holds something else
CLEAR, LITTLE = 0.05, 0.002  # of a step's traffic; a pass of 100 micro-batches is more than that
MOSTLY = 0.75  # share of steps in which both directions begin at once in an exchange
EITHER = 0.25  # ... of those in which one does: the other one begins, where nobody waits
SELDOM = 0.1  # share of all steps: fewer show nothing
UNLIKE = 2.0  # ratio of sizes that differ
TICKS = 10  # of the clock: a record that shows its rate is longer
LEADS = 0.9  # share of steps in which the same direction begins

Set = frozenset[int]


@dataclass(frozen=True)
class Character:
    """What a class is like.

    Attributes
    ----------
    outstanding : share of the silence inside steps in which one direction is ahead of the other.
    ahead : mean amount by which, over the volume of a step.
    together : share of the time of the lesser direction in which both move.
    leads : share of steps in which the same direction begins, if clearly before the other.
    wavers : share of steps in which the other direction begins, clearly before that one.
    answered : share of steps that one direction begins and the other ends, both clearly.
    dense : whether bytes move as fast in long records as in short ones, so that none holds waits.
    at_once : whether both directions begin steps at once, as far as the clock shows.
    rest : the longest silence of a step over the step, median.
    messages : records of a connection in a step.
    alike : whether messages have the sizes of activations: one, or one and its double.
    first_ns, last_ns : first start and last end in each step [ns], NaN where there is none.
    groups : sets of endpoints that the class joins.
    pairs : ordered pairs of endpoints.
    begun : for each couple both endpoints, and by how large a share of steps the first one clearly
        begins more of them than the second one.
    """

    outstanding: float
    ahead: float
    together: float
    leads: float
    wavers: float
    answered: float
    dense: bool
    at_once: bool
    rest: float
    messages: float
    alike: bool
    first_ns: Floats
    last_ns: Floats
    groups: tuple[Set, ...]
    pairs: frozenset[tuple[int, int]]
    begun: tuple[tuple[int, int, float], ...] = ()

    @property
    def begins_alone(self) -> bool:
        """Whether the same direction begins all steps, and the other one mostly moves later."""
        return self.leads >= LEADS and self.together < TOGETHER

    @property
    def is_pipeline(self) -> bool:
        """Whether one direction waits for the other as a pipeline's does."""
        clearly = self.leads + 2 * self.wavers  # share of steps that one of both clearly begins
        if self.together >= TOGETHER and self.wavers >= max(SELDOM, EITHER * clearly):
            return False  # both ways begin now and then: nobody waits
        if self.messages <= 1.5:  # all messages of a step in one record
            return self.answered >= LEADS and not (self.dense and self.together >= BESIDE)
        beside = self.together >= BESIDE and self.leads < LEADS / 2
        exchange = self.together >= TOGETHER and self.ahead < (LOST_AHEAD if beside else AHEAD)
        if self.rest > PASSES and self.leads < LEADS and self.ahead < LOST_AHEAD:
            return False
        return self.answered >= LEADS or (self.outstanding > OUTSTANDING and not exchange)


def character_of(
    connections: Connections, one: TrafficClass, step: Codes, count: int, nodes: int
) -> Character:
    src, dst = connections.src[one.connections], connections.dst[one.connections]
    traffic = one.traffic
    start, end = extents(traffic, step, count)
    busy = start <= end
    outstanding, ahead, together, leads, wavers, at_once = 0.0, 0.0, 1.0, 0.0, 0.0, False
    answered = 0.0
    if one.two_way:
        outstanding, ahead = _outstanding(traffic, step)
        together = share_together(traffic)
        leads, wavers, answered = _leads(traffic, step, count)
        at_once = _begin_at_once(traffic, step, count)
    return Character(
        outstanding, ahead, together, leads, wavers, answered, _is_dense(traffic), at_once,
        _rest(start[busy], end[busy]),
        len(traffic) / one.connections.size / count, is_activations(traffic.size),
        np.where(busy, start, np.nan), np.where(busy, end, np.nan), _groups(src, dst, nodes),
        frozenset(zip(src.tolist(), dst.tolist(), strict=True)),
        _begun(connections, traffic, step, count) if one.two_way else (),
    )  # fmt: skip


def _groups(src: Codes, dst: Codes, nodes: int) -> tuple[Set, ...]:
    label = components(src, dst, nodes)
    members: dict[int, set[int]] = {}
    for end in np.unique(np.concatenate((src, dst))).tolist():
        members.setdefault(int(label[end]), set()).add(end)
    return tuple(frozenset(group) for group in members.values())


def extents(traffic: Traffic, step: Codes, count: int) -> tuple[Ints, Ints]:
    """First start and last end in each step [ns]; a step without traffic ends before it starts."""
    known = step >= 0
    start = np.full(count, np.iinfo(np.int64).max)
    end = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(start, step[known], traffic.start_ns[known])
    np.maximum.at(end, step[known], traffic.end_ns[known])
    return start, end


def _rest(start: Ints, end: Ints) -> float:
    """The silence between a step's traffic and that of the next, over the step; median."""
    if start.size < 2:
        return 0.0
    silence = start[1:] - np.maximum.accumulate(end)[:-1]
    return float(np.median(silence / np.maximum(np.diff(start), 1)))


def _outstanding(traffic: Traffic, step: Codes) -> tuple[float, float]:
    """Share of the silence inside steps in which one direction is ahead; by how much, mean."""
    couples = int(traffic.couple.max()) + 1
    typical = float(np.median(traffic.size))
    order = order_in_groups(traffic.couple, traffic.start_ns)
    order = order[_of_usual_steps(traffic, step)[order]]
    sums = _silences(
        traffic.couple[order], traffic.start_ns[order], traffic.end_ns[order], traffic.size[order],
        traffic.forth[order], step[order], couples, typical / 2,
    )  # fmt: skip
    ahead_ns, byte_ns, silent_ns = (float(one.sum()) for one in sums)
    steps = max(1, np.unique(step[order]).size)
    volume = float(traffic.size[order].sum()) / couples / steps
    return (ahead_ns / silent_ns, byte_ns / silent_ns / volume) if silent_ns > 0 else (0.0, 0.0)


def _of_usual_steps(traffic: Traffic, step: Codes) -> Bools:
    """Records of steps that move hardly more than usual.

    What a program sends one way before it begins to train counts to the first step, in which it
    also rests for longer than in many others.
    """
    volume = np.bincount(step + 1, traffic.size)
    usual = float(np.median(volume[1:][volume[1:] > 0])) if volume[1:].any() else 0.0
    more = volume > (1 + MORE) * usual
    more[0] = False
    usually: Bools = ~more[step + 1]
    return usually


@compiled
def _silences(
    couple: Codes,
    start_ns: Ints,
    end_ns: Ints,
    size: Ints,
    forth: Bools,
    step: Codes,
    couples: int,
    least: float,
) -> tuple[Floats, Floats, Floats]:
    """Silence inside steps of each couple: with one direction ahead [ns], the same times the
    bytes it is ahead by, and all of it [ns].

    The balance begins at zero in each step, so that a lost record disturbs one step only.
    """
    ahead_ns, byte_ns, silent_ns = np.zeros(couples), np.zeros(couples), np.zeros(couples)
    balance, last_end, last_couple, last_step = 0.0, 0, -1, -2
    for i in range(couple.size):
        c = couple[i]
        if c != last_couple or step[i] != last_step:
            balance, last_end = 0.0, start_ns[i]
        quiet = start_ns[i] - last_end
        if quiet > 0:
            silent_ns[c] += quiet
            byte_ns[c] += quiet * abs(balance)
            if abs(balance) >= least:
                ahead_ns[c] += quiet
        balance += size[i] if forth[i] else -size[i]
        last_end = max(last_end, end_ns[i])
        last_couple, last_step = c, step[i]
    return ahead_ns, byte_ns, silent_ns


compile_early(_silences, lambda: (CODES, INTS, INTS, INTS, BOOLS, CODES, 0, 0.0))


def share_together(traffic: Traffic) -> float:
    """Share of the lesser direction's time in which both directions of a couple move."""
    order = order_in_groups(traffic.couple, traffic.start_ns)
    both, forth, back = _overlap(
        traffic.couple[order], traffic.start_ns[order], traffic.end_ns[order], traffic.forth[order]
    )
    least = min(forth, back)
    return both / least if least > 0 else 1.0


@compiled
def _overlap(
    couple: Codes, start_ns: Ints, end_ns: Ints, forth: Bools
) -> tuple[float, float, float]:
    """Time in which both directions move, the one, and the other [ns]; summed over couples."""
    both, one, other = 0.0, 0.0, 0.0
    ends = np.zeros(2, np.int64)
    last = -1
    for i in range(couple.size):
        if couple[i] != last:
            ends[:] = start_ns[i]
            last = couple[i]
        way = 1 if forth[i] else 0
        begin = max(start_ns[i], ends[way])
        fresh = max(0, end_ns[i] - begin)
        if way == 1:
            one += fresh
        else:
            other += fresh
        both += max(0, min(end_ns[i], ends[1 - way]) - begin)
        ends[way] = max(ends[way], end_ns[i])
    return both, one, other


compile_early(_overlap, lambda: (CODES, INTS, INTS, BOOLS))


def _leads(traffic: Traffic, step: Codes, count: int) -> tuple[float, float, float]:
    """Share of steps in which the same direction of a couple begins, clearly before the other.

    That in which the other one does, and that of steps that one direction begins and the other one
    ends, always the same: all means over couples.
    """
    couples = int(traffic.couple.max()) + 1
    whole, begins = _begun_by(traffic, step, count)
    _, ends = _begun_by(_reversed(traffic), step, count)
    owner = np.repeat(np.arange(couples), count)[whole]
    steps = np.maximum(np.bincount(owner, minlength=couples), 1)
    ways = [np.bincount(owner, begins == way, couples) / steps for way in (-1.0, 1.0)]
    leads = np.abs(ways[0] - ways[1])
    answered = np.abs(np.bincount(owner, np.where(ends == -begins, begins, 0.0), couples)) / steps
    return float(leads.mean()), float(np.minimum(*ways).mean()), float(answered.mean())


def _begun(
    connections: Connections, traffic: Traffic, step: Codes, count: int
) -> tuple[tuple[int, int, float], ...]:
    """See :attr:`Character.begun`."""
    first = np.unique(traffic.couple, return_index=True)[1]
    row, forth = connections.of_row[traffic.row[first]], traffic.forth[first]
    ends = connections.src[row], connections.dst[row]
    lower, upper = (np.where(forth == way, *ends).tolist() for way in (True, False))
    whole, begins = _begun_by(traffic, step, count)
    owner = np.repeat(np.arange(first.size), count)[whole]
    steps = np.maximum(np.bincount(owner, minlength=first.size), 1)
    share = np.bincount(owner, begins, first.size) / steps
    return tuple(zip(lower, upper, share.tolist(), strict=True))


def _begun_by(traffic: Traffic, step: Codes, count: int) -> tuple[Bools, Floats]:
    """Cells (couple, step) with both directions, and which begins clearly: -1, 1, or 0 for none.

    A direction does if the other one waits until its first message has arrived, or for a good part
    of the step's traffic, and for longer than rounding of its times explains.
    """
    whole, first, arrived, span = _openings(traffic, step, count)
    lead = (first[:, 0] - first[:, 1]).astype(np.float64)
    leader = (lead > 0).astype(np.int64)
    among = np.arange(leader.size)
    waits = first[among, 1 - leader] >= arrived[among, leader]
    late = (np.abs(lead) > CLEAR * span) & (np.abs(lead) > clock_tick_ns(traffic.start_ns))
    return whole, np.where(late | waits, np.sign(lead), 0.0)


def _reversed(traffic: Traffic) -> Traffic:
    """``traffic`` as if time ran backwards; records keep their order."""
    return replace(traffic, start_ns=-traffic.end_ns, end_ns=-traffic.start_ns)


def _is_dense(traffic: Traffic) -> bool:
    """Whether nearly all bytes move at the highest rate, also in records of very different size."""
    length = traffic.end_ns - traffic.start_ns
    if length.min() <= TICKS * clock_tick_ns(traffic.start_ns, traffic.end_ns):
        return False
    rate = traffic.size / length
    fast = traffic.size[rate >= (1 - EQUALLY) * rate.max()]
    return bool(fast.sum() >= NEARLY_ALL * traffic.size.sum() and UNLIKE * fast.min() < fast.max())


def _begin_at_once(traffic: Traffic, step: Codes, count: int) -> bool:
    """Whether both directions of a couple begin most steps at once, on a clock that shows it."""
    _, first, _, span = _openings(traffic, step, count)
    if span.size == 0 or clock_tick_ns(traffic.start_ns) > LITTLE * float(np.median(span)):
        return False
    return float((np.abs(first[:, 0] - first[:, 1]) <= LITTLE * span).mean()) >= MOSTLY


def _openings(traffic: Traffic, step: Codes, count: int) -> tuple[Bools, Ints, Ints, Ints]:
    """Cells (couple, step) with both directions; for these the first start and end, and the span.

    Start and end [ns] of each direction's first record have shape (cells, 2); the span [ns] is from
    the first start to the last end.
    """
    couples = int(traffic.couple.max()) + 1
    never = np.iinfo(np.int64).max
    first, arrived = np.full((couples * count, 2), never), np.full((couples * count, 2), never)
    last = np.full(couples * count, -never)
    cell = traffic.couple * count + step
    forth = traffic.forth.astype(np.int64)
    np.minimum.at(first, (cell, forth), traffic.start_ns)
    np.minimum.at(arrived, (cell, forth), traffic.end_ns)
    np.maximum.at(last, cell, traffic.end_ns)
    whole: Bools = first.max(axis=1) < never
    return whole, first[whole], arrived[whole], last[whole] - first[whole].min(axis=1)
