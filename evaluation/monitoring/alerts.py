"""How many alerts of a monitor are false, and how soon the true ones come: ``evaluation alerts``.

Each stream is watched in lock-step, one after the other. What is done is kept below
``results/monitor``: a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from evaluation.exam.intervals import Estimate, events, middle, share
from evaluation.exam.worlds import RESULTS, simulated, simulator
from evaluation.monitoring.judging import Judged, judge
from evaluation.monitoring.lockstep import watch
from evaluation.monitoring.streams import STREAMS, Stream
from evaluation.paths import ROOT
from llmprism.watch.settings import SECOND_NS, Settings

SETTINGS = Settings(
    window_ns=120 * SECOND_NS,
    stride_ns=4 * SECOND_NS,
    quiet_ns=60 * SECOND_NS,
    lag_ns=2**61,
)
FOLDER = ROOT / "results" / "monitor"
_SEVERITIES = ("critical", "warning", "info")


def results(lasts_s: int) -> list[tuple[Stream, Judged]]:
    """Watch all streams of so many seconds, those that are not done."""
    return [(stream, _result(stream, lasts_s)) for stream in STREAMS]


def _result(stream: Stream, lasts_s: int) -> Judged:
    scenario = stream.scenario(lasts_s)
    text = json.dumps([simulator(), scenario.model_dump(mode="json")], sort_keys=True)
    key = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    folder = FOLDER / f"{stream.name}-{key}"
    done = folder / "judged.json"
    if done.exists():
        return Judged(**json.loads(done.read_text(encoding="utf-8")))
    run = simulated(scenario, RESULTS / "worlds")
    judged = judge(run, watch(run.flows, run.topology, folder, SETTINGS))
    done.write_text(json.dumps(asdict(judged), indent=1), encoding="utf-8")
    return judged


def rows(found: Sequence[tuple[Stream, Judged]]) -> list[str]:
    """A row of the page for each stream."""
    return [_row(stream, one) for stream, one in found]


def _row(stream: Stream, one: Judged) -> str:
    false = " / ".join(str(one.false[name]) for name in _SEVERITIES)
    found = f"{one.faults - one.missed} of {one.faults}" if one.faults else "-"
    delay = middle(one.delays)["value"]
    cells = [
        f"`{stream.name}`",
        stream.purpose,
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
