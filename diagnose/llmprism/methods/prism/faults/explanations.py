"""Which suspects another one explains: victims of a fault, and other views of the same.

A rank that is late makes others wait, a slow link makes inputs late, and work that is unevenly
divided makes transfers slow. Two faults at once are rarer than one that makes others look slow.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.causes.imbalance import IN_TURNS
from llmprism.methods.prism.faults.causes.incast import SYMPTOM as OTHER_TRAFFIC
from llmprism.methods.prism.faults.causes.late_ranks import SYMPTOM as LATE
from llmprism.methods.prism.faults.causes.reroutes import REROUTED
from llmprism.methods.prism.faults.causes.slow_network import GOOD_PART
from llmprism.methods.prism.faults.causes.stalls import SYMPTOM as STALLED
from llmprism.methods.prism.faults.causes.unexplained import is_warm_up
from llmprism.methods.prism.faults.other_jobs import wide
from llmprism.methods.prism.faults.pausing import of_slow_stage, seen_better
from llmprism.methods.prism.faults.replicas import PASSES
from llmprism.methods.prism.faults.suspects.alternatives import nearly_best
from llmprism.methods.prism.faults.suspects.repeated import steps_of
from llmprism.methods.prism.faults.suspects.suspects import EXPLAINED, OWN_PART, Suspect, overlap
from llmprism.numerics.missing import finite_median

INDEPENDENT = ("stopped", "unequal_bytes")  # symptoms that nothing else brings about
UNEVEN = ("unequal_bytes", IN_TURNS)  # symptoms of work that is unevenly divided
SHOWN = ("fewer_uplinks", REROUTED, OTHER_TRAFFIC)  # why transfers are slow, or stall
SHOWN_BY = {"slow_transfers": (*SHOWN, STALLED), STALLED: SHOWN}
FEWEST = 2  # steps that show whether something slows its job by itself
SOME = 0.3  # share of the steps in which another cause spreads the ranks of a job
AS_LONG = 0.5  # of what the steps of a stretch are longer: others are that slow for one reason
MOSTLY = 0.6  # of the steps of a suspect, or of what they are longer, which another one explains


def explained(one: Suspect, suspects: list[Suspect]) -> bool:
    """Whether another suspect explains what is seen of this one in the same steps.

    Inputs that arrive late by a slow link look like work. Collectives that wait for a late rank
    look slow, but lead to no single part of the network. Two faults at once are rarer.
    """
    if is_warm_up(one.first, one.last):
        return True
    if any(seen_better(one, other) for other in suspects):
        return True
    if one.symptom in INDEPENDENT:
        return False
    if any(_by_more_work(one, other) or _is_one_of_turns(one, other) for other in suspects):
        return True
    if one.symptom == IN_TURNS:
        return any(_spreads_ranks(one, other) for other in suspects)
    if any(_shows_why(one, other) for other in suspects):
        return True
    if _waits(one):
        return any(
            other.level != "network" and other.job is one.job and overlap(one, wide(other)) > 0.5
            for other in suspects
        )
    if any(_waits_for(one, other) or _saves_through(one, other) for other in suspects):
        return True
    if one.level == "network" and _singles_out(one):
        return False
    return any(_is_the_reason(one, other) for other in suspects)


def _spreads_ranks(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` is one part or rank, while ``one`` is ranks that are late in turns."""
    return (
        other.symptom != one.symptom
        and not _waits(other)
        and not _names_no_part(other)
        and other.culprit_kind != "stage"  # the late ranks are in several
        and other.job is one.job
        and overlap(one, other) > SOME
        and not _is_one_of_turns(other, one)
    )


def _is_one_of_turns(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is a rank that is late in some steps of those in which ranks are in turns.

    By chance, one of them is late in several steps in a row.
    """
    return (
        (one.symptom, other.symptom) == (LATE, IN_TURNS)
        and other.job is one.job
        and overlap(one, other) > 0.5
        and overlap(other, one) <= MOSTLY
    )


def _shows_why(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` shows why work is uneven, or transfers are slow or stall."""
    if other.job is not one.job:
        return False
    shared = overlap(one, other) > 0.5
    if _stalls_for(one, other) or (_is_some_of(one, other) and shared):
        return True
    if (_names_no_part(one) or _may_be_uneven(one, other)) and other.symptom in UNEVEN and shared:
        return True
    if _is_some_of(other, one) or outlasts(other, one) or _is_elsewhere(other, one):
        return False
    return other.symptom in SHOWN_BY.get(one.symptom, ()) and (shared or _slow_within(one, other))


def outlasts(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` lasts for longer than ``other``, and steps are hardly longer meanwhile.

    Its first and last step may be slow in part only. One NIC may show the same thing in two ways.
    """
    if one.may_be(other):
        return False
    alone = np.arange(one.first + 1, one.last)
    alone = alone[(alone < other.first) | (alone > other.last)]
    if alone.size < FEWEST:
        return False
    longer_ns = finite_median(one.job.duration_ns[alone]) - other.cost.normal_ns
    return longer_ns < EXPLAINED * (other.cost.slow_ns - other.cost.normal_ns)


def _is_elsewhere(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is traffic of others at a NIC, and another NIC alone is slow, more surely."""
    return (
        one.symptom == OTHER_TRAFFIC
        and other.culprit_kind == "address"
        and not other.may_be(one)
        and other.confidence > one.confidence
    )


def _may_be_uneven(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is a stage, ``other`` uneven work that bytes show, or that is as sure."""
    surer = other.symptom in INDEPENDENT or other.confidence >= one.confidence
    return one.culprit_kind == "stage" and surer


def _is_some_of(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is records that stall, and ``other`` a part that is slow.

    Stalls that are less than half of what the steps are longer are some of the slow transfers. So
    are those at other NICs than the part, which wait for what crosses it. Where both hold, the part
    need not be surer than the stalls.
    """
    if (one.symptom, other.symptom) != (STALLED, "slow_transfers") or one.lost_share is None:
        return False
    less = one.lost_share < AS_LONG * one.longer_share
    apart = not one.may_be(other)
    surer = other.confidence > one.confidence
    return _singles_out(other) and ((less and apart) or (surer and (less or apart)))


def _is_the_reason(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` is a rank or a part of the network that makes ``one`` look slow."""
    return (
        other.level in {"network", "rank"} - {one.level}
        and other.job is one.job
        and not _waits_for(other, one)
        and not _waits(other)
        and not _stalls_for(other, one)
        and not of_slow_stage(other, one)
        and _singles_out(other)
        and _within(one, other)
        and other.cost.share >= AS_LONG * one.cost.share
        and _costs_as_much(other, one)
    )


def _costs_as_much(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` lost enough to make steps of ``other`` longer, and does not outlast it.

    What a rank loses is known roughly. How long traffic of others lasts is seen.
    """
    if one.level == "rank" and one.lost_share is not None:
        return one.lost_share >= OWN_PART * other.longer_share
    return one.symptom != OTHER_TRAFFIC or not outlasts(one, other)


def _names_no_part(one: Suspect) -> bool:
    """Whether ``one`` is slow transfers that lead to no part of the network.

    Those of ranks that are late in turns do so as well.
    """
    return one.symptom == "slow_transfers" and one.culprit_kind == "job"


def _waits(one: Suspect) -> bool:
    """Whether ``one`` is a part of the network whose transfers only wait for a late rank.

    A good part of all transfers take longer, and none of them moves its bytes more slowly. Those of
    a part that explains far less than another one take hardly longer.
    """
    if one.level != "network" or "bundles" not in one.evidence or "pace_ratio" in one.evidence:
        return False
    through = [part["slow"] for part in nearly_best(one)]
    slow = max([one.evidence["slow_bundles"], *through])
    return bool(slow > GOOD_PART * one.evidence["bundles"])


def _waits_for(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is slow collectives that the passes of ``other``, a rank or stage, explain.

    Collectives wait for a late rank, and an exporter may count that as time on the wire. The passes
    of a pipeline wait for no collective. All collectives of late ranks, or of a late stage, wait
    for them: fewer than there are ranks, all across one part, are slow by themselves. So are all of
    them if those of the late rank itself, or some of the late server, take as long as ever. And
    where hops end before another one of their ring does, they waited for that one.
    """
    if one.level != "network" or one.evidence.get("kinds") != ["dp"] or other.job is not one.job:
        return False
    if one.evidence.get("waiting_hops") or other.culprit in one.as_ever:
        return False
    if other.confidence <= one.confidence:
        return False
    ranks = other.evidence.get("ranks") or len(other.evidence.get("one_of", ()))
    if one.culprit_kind != "job" and one.evidence["slow_bundles"] < ranks:
        return False
    lost = other.lost_share if other.symptom in PASSES else None
    return lost is not None and lost >= MOSTLY * other.longer_share and overlap(one, other) > SOME


def _stalls_for(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is records that stall, at one of several NICs, until a slow rank joins.

    Passes of ``other`` that take longer are surer than which NIC stops. Messages wait for nobody
    once they are under way, so they do not if they are most of what steps are longer.
    """
    if one.evidence.get("messages_alone") and (one.lost_share or 0) >= MOSTLY * one.longer_share:
        return False
    return (
        one.symptom == STALLED
        and other.symptom == "slow_passes"
        and other.job is one.job
        and other.confidence > one.confidence
        and overlap(one, other) > 0.5
    )


def _saves_through(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is slow saves, and ``other`` a part of the network that is slow meanwhile.

    It slows transfers between ranks as well, which storage does not.
    """
    return (
        one.symptom == "slow_saves"
        and other.level == "network"
        and other.symptom != one.symptom
        and other.job is one.job
        and other.culprit_kind != "job"
        and _within(one, other)
    )


def _slow_within(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` names no part, and its steps outside ``other`` are not slow."""
    return one.culprit_kind == "job" and _slow_nowhere_else(one, other)


def _within(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` has most steps of ``one``, or all of them that are slow."""
    return overlap(one, other) > 0.5 or _slow_nowhere_else(one, other)


def _slow_nowhere_else(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` shares steps with ``other``, and its other steps are not slow."""
    if not overlap(one, other):
        return False
    outside = np.setdiff1d(steps_of(one), steps_of(other))
    longer_ns = finite_median(one.job.duration_ns[outside]) - one.cost.normal_ns
    return not longer_ns > EXPLAINED * (other.cost.slow_ns - other.cost.normal_ns)


def _by_more_work(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` is a rank that is late while bytes show that work is unevenly divided.

    Who has more tokens than others computes for longer. A rank that is slow changes no bytes.
    """
    if one.level != "rank" or other.symptom != "unequal_bytes" or other.job is not one.job:
        return False
    steps = one.evidence.get("steps", range(one.first, one.last + 1))
    inside = [other.first <= step <= other.last for step in steps]
    return bool(sum(inside) > MOSTLY * len(inside))


def _singles_out(one: Suspect) -> bool:
    """Whether a suspect is one of several that could be: a part of the network, or a rank.

    Where all transfers are slow, no part of the network is distinguished by what it carries.
    """
    slow, every = (one.evidence.get(name, at) for name, at in (("slow_bundles", 0), ("bundles", 1)))
    return one.culprit_kind != "job" and slow < every
