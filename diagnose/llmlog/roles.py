"""Which events are the cause of a failure: rules in order, each with its reason.

The first rule that finds a culprit counts. A part that states its own fault comes before those
that report it, and a part that cannot answer before those that wait for it. A job whose iterations
became slow, and in which nothing else failed, is slow.

What the job overcame, or what an earlier attempt met, is no cause. A fault is overcome if the job
completed more iterations, or came to its end: in the same file, or by times. A launcher that starts
the processes again begins another attempt; if that failed too, only it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice

from llmlog import failing, waiting
from llmlog.clocks import seconds
from llmlog.evidence import Event, Evidence
from llmlog.failing import Culprit

SURE = {
    "fault": 1.0, "ended": 0.9, "hang": 0.7, "slow": 0.7, "connection": 0.6, "reported": 0.5,
    "unknown": 0.2,
}  # fmt: skip
"""How sure each way of finding the culprit is, before shares of causes."""
_ROLES = {"teardown": "teardown", "advice": "boilerplate"}
_ROLES |= dict.fromkeys(("benign", "slow", "moment", "limit"), "benign")


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


RULES: tuple[Callable[[Evidence], Culprit | None], ...] = (
    failing.faulty,  # who states its own fault, and not those who report it
    failing.ended_by_signal,  # which a process cannot state: its launcher does
    waiting.awaited,  # those who waited say for whom, from what they exchanged
    waiting.recorded,  # dumps of the flight recorder show which call was not given
    waiting.waited_for,  # who is in another call, behind, or silent keeps the others waiting
    failing.lost,  # of a lost connection, the end that most of them share
    failing.reported,  # without reasons, the process that a launcher reports first
    _slow,  # nothing failed, and iterations became longer
    waiting.silent_until_the_limit,  # a job that was silent for long when its limit ended it
)
"""Rules from the most to the least exact."""


def find_culprit(evidence: Evidence) -> Culprit:
    """Find what failed first, and give each event its role."""
    for event in evidence.events:
        event.role = _ROLES.get(event.group, "cascade")
    set_aside(evidence)
    found = (rule(evidence) for rule in RULES)
    culprit = next((each for each in found if each is not None), None) or failing.first_ended(
        evidence
    )
    for event in culprit.events:
        event.role = "cause"
    return culprit


_AFTER = 2
"""Completed iterations after which a fault is overcome."""
_TAIL = 512
"""Last iterations that are looked at: many ranks may print each."""
_TOLERANCE_S = 5.0
"""By which clocks of nodes may differ."""
_BAD = ("fault", "reaction", "report", "awaited", "slow")


def set_aside(evidence: Evidence) -> None:
    """Mark events that the job overcame, and those of attempts before the last."""
    _earlier_attempts(evidence)
    for event in evidence.events:
        if event.group in _BAD and not event.overcome and _overcome(evidence, event):
            event.overcome = event.group != "slow"
            event.role = "benign"


def _earlier_attempts(evidence: Evidence) -> None:
    """Leave out what was before the last launch that failed too."""
    progress = evidence.progress
    for file, launches in progress.launches.items():
        bad = [
            event
            for event in evidence.events
            if event.file == file and event.group in ("fault", "report")
        ]
        begins = [
            line
            for line in launches
            if any(event.line < line for event in bad) and any(event.line > line for event in bad)
        ]
        if not begins:
            continue
        for event in evidence.events:
            if event.file == file and event.line < begins[-1]:
                event.overcome, event.role = event.group in _BAD, "benign"
        progress.begin_again(file, begins[-1])


def _overcome(evidence: Evidence, event: Event) -> bool:
    """Whether the job went on after an event; one iteration may be under way when a part fails."""
    progress = evidence.progress
    if any(file == event.file and line > event.line for file, line in progress.ends):
        return True
    clocks, at = evidence.clocks, seconds(event.time)
    later: set[int] = set()
    for one in islice(reversed(progress.iterations), _TAIL):
        done = seconds(one.time)
        if one.file == event.file:
            went_on = one.line > event.line
        elif at is not None and done is not None:
            shift = clocks.get(event.node or "", 0.0) - clocks.get(one.node or "", 0.0)
            went_on = done > at - shift + _TOLERANCE_S
        else:
            went_on = False
        if went_on:
            later.add(one.number)
        elif one.file == event.file:
            break
        if len(later) >= _AFTER:
            return True
    beats = (at for at, _ in islice(reversed(progress.beats), _AFTER))
    return sum(file == event.file and line > event.line for file, line in beats) >= _AFTER
