"""How many alerts of a monitor are false, and how soon the true ones come: ``evaluation alerts``.

Each stream is watched in lock-step, one after the other. What is done is kept below
``results/monitor``: a run that was interrupted goes on where it was. The folder of a stream is
named by its records and by the settings of the monitor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from evaluation.exam.intervals import Estimate, events, middle, share
from evaluation.exam.worlds import RESULTS, simulated
from evaluation.monitoring.judging import Judged, judge
from evaluation.monitoring.lockstep import watch
from evaluation.monitoring.streams import STREAMS, Stream
from evaluation.paths import ROOT
from llmprism.watch.settings import SECOND_NS, Settings

SETTINGS = Settings(
    window_ns=120 * SECOND_NS,
    stride_ns=2 * SECOND_NS,
    quiet_ns=60 * SECOND_NS,
    lag_ns=2**61,
)
FOLDER = ROOT / "results" / "monitor"
_TURNS = 8
_SEVERITIES = ("critical", "warning", "info")


def results(lasts_s: int, share: float) -> list[tuple[Stream, Judged]]:
    """Watch a share of all streams of so many seconds, each a little further in turn."""
    for part in range(1, _TURNS):
        for stream in STREAMS if part / _TURNS < share else ():
            result(stream, lasts_s, part / _TURNS)
    return [(stream, result(stream, lasts_s, share)) for stream in STREAMS]


def result(stream: Stream, lasts_s: int, share: float) -> Judged:
    """Watch a share of a stream, and judge the alerts."""
    run = simulated(stream.scenario(lasts_s), RESULTS / "worlds")
    folder = FOLDER / f"{stream.name}-{_key(run.flows)}"
    state = watch(run.flows, run.topology, folder, SETTINGS, share)
    return judge(run, state)


def _key(flows: Path) -> str:
    """A hash of the records of a stream, and of the settings of the monitor."""
    return hashlib.blake2b(repr(SETTINGS).encode() + flows.read_bytes(), digest_size=6).hexdigest()


def row(stream: Stream, one: Judged) -> str:
    false = " / ".join(str(one.false[name]) for name in _SEVERITIES)
    found = f"{one.faults - one.missed} of {one.faults}" if one.faults else "-"
    delay = middle(one.delays)["value"]
    cells = [
        f"`{stream.name}`",
        stream.purpose,
        f"{one.watched_s / 60:.0f}",
        f"{one.job_steps:,}",
        false,
        found,
        "-" if delay is None else f"{delay:.1f}",
        f"{one.wrong_first} of {one.named}" if one.named else "-",
        f"{one.hiccups}",
    ]
    return f"| {' | '.join(cells)} |"


def totals(found: Sequence[Judged]) -> dict[str, Estimate]:
    """The figures of all streams together, each with its interval."""
    sizes = [one.job_steps / 1_000 for one in found]
    every: dict[str, Estimate] = {
        f"false alerts in 1,000 job-steps, {name}": events(
            [one.false[name] for one in found], sizes
        )
        for name in _SEVERITIES
    }
    counts = [sum(one.false.values()) for one in found]
    every["false alerts in 1,000 job-steps, all"] = events(counts, sizes)
    faults = sum(one.faults for one in found)
    every["share of faults missed"] = share(sum(one.missed for one in found), faults)
    delays = [delay for one in found for delay in one.delays]
    every["delay of an alert, median [steps]"] = middle(delays)
    named = sum(one.named for one in found)
    wrong = sum(one.wrong_first for one in found)
    every["share of first alerts with a wrong place"] = share(wrong, named)
    return every
