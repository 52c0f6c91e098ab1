"""How many alerts of a monitor are false, and how soon the true ones come: ``evaluation alerts``.

Each stream is watched in lock-step, one after the other. What is done is kept below
``results/monitor``: a run that was interrupted goes on where it was. The folder of a stream is
named by its records and by the settings of the monitor, and has the versions of the code that
watched it: one that went on with another version says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from evaluation.exam.intervals import Estimate, events, middle, share
from evaluation.exam.worlds import RESULTS, simulated
from evaluation.monitoring.judging import Judged, judge
from evaluation.monitoring.lockstep import Strides, versions, watch
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
    source = Strides(run.flows, folder / "strides", SETTINGS.stride_ns)
    found = judge(run, watch(source, run.topology, folder, SETTINGS, share=share).path)
    found.versions = versions(folder)
    return found


def _key(flows: Path) -> str:
    """A hash of the records of a stream, and of the settings of the monitor."""
    digest = hashlib.blake2b(repr(SETTINGS).encode(), digest_size=6)
    table = pq.read_table(flows, columns=["start_ns", "end_ns", "bytes"])
    for column in table.columns:
        digest.update(column.to_numpy().tobytes())
    return digest.hexdigest()


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
