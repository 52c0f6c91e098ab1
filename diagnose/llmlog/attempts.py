"""What a job overcame: faults after which it went on, and those of earlier attempts.

A fault is overcome if the job completed more iterations, or came to its end: in the same file,
or by times. A launcher that starts the processes again begins another attempt; if that failed
too, only it counts."""

from __future__ import annotations

from itertools import islice

from llmlog.clocks import seconds
from llmlog.evidence import Event, Evidence

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
