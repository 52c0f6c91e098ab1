"""Writes the comparison: ``python -m evaluation monitor``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from evaluation.exam.worlds import RESULTS, World, scenario_of, simulated, worlds
from evaluation.monitoring.comparing import Comparison, Found, compare
from evaluation.monitoring.rate import SETTINGS, measure
from evaluation.monitoring.soak import HOUR_S, Look, soak
from evaluation.paths import REFERENCE
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.tracking.tracker import CALM

PAGE = REFERENCE / "monitor.md"
_HEAD = """# A monitor beside one diagnosis of the same records

`python -m evaluation monitor --worlds {number}` makes this page, on the first worlds of each family
for development (`scenarios/families`). The records arrive in 12 files, and windows have half of the
recording, so the monitor sees less at a time than the diagnosis of all records. Findings are
compared by cause and place. *Steps* is the share of the steps of the diagnosis that the monitor
has, with the same number and at the same time. A window may show that steps begin at another place
in the period than the whole recording does. *Records/s* is for one second of CPU time of the
machine that made this page, and counts each record once, though it is in several windows.

| world | records | both | only diagnosis | only monitor | steps | records/s |
|---|---|---|---|---|---|---|
"""


_RATE = """
## How many records a second one core keeps up with

The records of one job of 128 GPUs, {stride:,} in each stride of {stride_s} s, in windows of
{window_s} s. *Followed*: a round takes the records in, stores them, and counts the steps.

| each window is | records/s of CPU time |
|---|---|
| diagnosed | {diagnosed:,.0f} |
| followed | {followed:,.0f} |
| followed, and one of {calm} windows diagnosed, as if nothing happens | {both:,.0f} |
"""

_SOAK = """
## Hours in compressed time

`python -m evaluation soak {options}` makes this part (`make soak` does so for 20 jobs). {jobs} jobs
train for {hours} hours. One in four has a slow GPU for a while, and one in four crashes and
restarts. Exporters lose one record in 2,000, send the others as IPFIX over UDP at {speed} times
their pace, and restart six times. An alert is false if its job has no fault then; a fault is missed
if there is no alert while it lasts, or two windows later.

| | |
|---|---|
| records sent | {sent:,} |
| records lost by the monitor | {lost:,} |
| datagrams that the kernel dropped | {dropped:,} |
| faults | {faults} |
| missed | {missed} |
| of these, one diagnosis of all records misses | {hidden} |
| found, with another cause than that diagnosis names | {renamed} |
| false alerts | {false} |
| CPU time of the monitor | {cpu_s:.0f} s |
| processes that ran or waited for one of {cores} cores, on average | {load:.1f} |
| exit code | {exit_code} |

The largest lag, in time of the records, and the largest memory in each stretch of time. Lag is
larger if other work is done on the machine: then more processes than cores run or wait.

| until hour | lag | memory |
|---|---|---|
{looks}
"""
_STRETCHES = 12


def write(number: int) -> Path:
    """Compare ``number`` worlds of each family, and write the page."""
    rows = [_row(world, _compared(world)) for world in worlds("develop", number)]
    text = _HEAD.format(number=number) + "\n".join(rows) + "\n" + _rates()
    PAGE.write_text(text + _soak_before(), encoding="utf-8")
    return PAGE


def write_soak(jobs: int, hours: float, speed: float) -> Path:
    """Watch simulated hours in compressed time, and write that part of the page."""
    with TemporaryDirectory() as folder:
        found = soak(jobs, hours, speed, Path(folder) / "soak")
    text = _SOAK.format(
        options=f"--jobs {jobs} --hours {hours:g} --speed {speed:g}",
        jobs=jobs,
        hours=f"{hours:g}",
        speed=f"{speed:g}",
        lost=found.sent - found.kept,
        looks="\n".join(_stretches(found.looks)),
        missed=", ".join(found.missed) or "none",
        hidden=", ".join(found.hidden) or "none",
        renamed=", ".join(found.renamed) or "none",
        cores=os.cpu_count(),
        load=np.mean([one.load for one in found.looks]),
        false=", ".join(found.false) or "none",
        **{
            name: getattr(found, name)
            for name in ("sent", "dropped", "faults", "cpu_s", "exit_code")
        },
    )
    before = PAGE.read_text(encoding="utf-8").removesuffix(_soak_before())
    PAGE.write_text(before + text, encoding="utf-8")
    return PAGE


def _stretches(looks: Sequence[Look]) -> Iterator[str]:
    """A row for each stretch of so many looks."""
    together = -(-len(looks) // _STRETCHES) or 1
    for first in range(0, len(looks), together):
        own = looks[first : first + together]
        lag_s = max(one.lag_s for one in own)
        memory_mib = max(one.memory_bytes for one in own) / 2**20
        yield f"| {own[-1].sent_s / HOUR_S:.1f} | {lag_s:,.0f} s | {memory_mib:.0f} MiB |"


def _soak_before() -> str:
    """The part about the soak as the page has it now."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    at = text.find(_SOAK.split("`", maxsplit=1)[0])
    return text[at:] if at >= 0 else ""


def _rates() -> str:
    with TemporaryDirectory() as folder:
        found = measure(Path(folder) / "rate")
    return _RATE.format(
        stride=found.stride,
        stride_s=SETTINGS.stride_ns // SECOND_NS,
        window_s=SETTINGS.window_ns // SECOND_NS,
        diagnosed=found.diagnosed,
        followed=found.followed,
        calm=CALM,
        both=found.calm,
    )


def _compared(world: World) -> Comparison:
    run = simulated(scenario_of(world), RESULTS / "worlds")
    with TemporaryDirectory() as folder:
        return compare(run.flows, run.topology, Path(folder) / "world")


def _row(world: World, one: Comparison) -> str:
    cells = [f"`{world.family}` {world.seed}", f"{one.records:,}"]
    cells += [_listed(found) for found in (one.both, one.only_batch, one.only_monitor)]
    cells += [f"{one.steps:.3f}", f"{one.records_per_s:,.0f}"]
    return f"| {' | '.join(cells)} |"


def _listed(found: Found) -> str:
    return (
        ", ".join(f"{cause} {place}".replace("|", "\\|") for cause, place in sorted(found)) or "-"
    )
