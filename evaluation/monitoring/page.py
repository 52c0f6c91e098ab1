"""Writes the page of the monitor, part by part: ``python -m evaluation monitor`` and others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from evaluation.exam.intervals import Estimate
from evaluation.exam.worlds import RESULTS, World, scenario_of, simulated, worlds
from evaluation.monitoring.alerts import SETTINGS as WATCHED
from evaluation.monitoring.alerts import results, rows, totals, versions_of
from evaluation.monitoring.comparing import Comparison, Found, compare
from evaluation.monitoring.delay import LATE_S, Delay
from evaluation.monitoring.delay import measure as measure_delay
from evaluation.monitoring.newcomer import measure as follow_readme
from evaluation.monitoring.rate import SETTINGS, measure
from evaluation.monitoring.soak import HOUR_S, Look, soak
from evaluation.paths import REFERENCE
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.tracking.tracker import CALM

PAGE = REFERENCE / "monitor.md"
_PART = "\n## "
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
larger if other work is done on the machine: then more processes than cores run or wait. *Files* are
pages of libraries: the kernel takes back those that are not used, and reads them again.

| until hour | lag | own memory | files |
|---|---|---|---|
{looks}
"""
_STRETCHES = 12

_ALERTS = """
## False alerts, and the delay of true ones

`python -m evaluation alerts --seconds {seconds}` makes this part, and goes on where it was
interrupted; with `--share 0` it only judges what was watched. That was with the code of {versions}.
{streams} streams of {minutes:.0f} minutes are watched in lock-step, so the monitor is never behind:
windows of {window_s} s, a stride of {stride_s} s, quiet after {quiet_s} s. *Minutes* of each were
watched when this page was written. Three streams are healthy. An alert is *false* if its job has no
fault while the incident lasts; it counts once, with its highest severity (critical / warning /
info). A fault counts if it stops its job or lengthens its steps by 3 %. *Delay* is in usual steps
of the job, from the end of the first step that is 3 % longer to the alert; if the job stops, from
when its step should have ended. *Wrong* are faults whose first alert names another place. *Hiccups*
were counted, and not sent.

| stream | what happens | minutes | job-steps | false | found | delay | wrong | hiccups |
|---|---|---|---|---|---|---|---|---|
{rows}

Together, with 95 % intervals:

| | value | interval | of |
|---|---|---|---|
{totals}

What was false, missed, late or wrong: {notes}. The rules of the monitor were mended with what these
streams showed, so they are no test that was held out.
"""

_NEWCOMER = """
## From a clone to a finding on the live page

`python -m evaluation newcomer` makes this part: it clones the repository, types `make live` there,
and waits until the page is sent an incident. The package index is at hand. {cores} cores took
{cpu_s:.0f} s of CPU time; {load:.1f} processes ran or waited for one of them.

| | after | after CPU time of |
|---|---|---|
{rows}
"""

_DELAY = """
## How soon an alert is posted

`python -m evaluation delay {options}` makes this part. Jobs of 128 GPUs take steps of
{step_s:.1f} s, and their records come at their own pace, second by second. `llmprism watch` is a
process of its own; it has learned the jobs from the minute before. Then one GPU becomes slow. The
delay is that from the end of the first slow step to the HTTP request that names its server. Two
usual steps and {late_s:.0f} s are allowed. *Cores* is CPU time in a second. *Memory* is the peak,
which the first diagnosis has.

| GPUs | records/s | jobs learned in | delay | allowed | met | cores | memory |
|---|---|---|---|---|---|---|---|
{rows}
"""


def write(number: int) -> Path:
    """Compare ``number`` worlds of each family, and write the page."""
    lines = [_row(world, _compared(world)) for world in worlds("develop", number)]
    _, *parts = _page().split(_PART)
    head = _HEAD.format(number=number) + "\n".join(lines) + "\n"
    return _put(_PART.join([head, *parts]), _rates())


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
    return _put(_page(), text)


def write_delay(jobs: Sequence[int]) -> Path:
    """Measure the delay of an alert among so many jobs each, and write that part of the page."""
    with TemporaryDirectory() as folder:
        found = [measure_delay(count, Path(folder) / f"{count}") for count in jobs]
    options = " ".join(f"--jobs {count}" for count in jobs)
    step_s = (found[0].limit_s - LATE_S) / 2
    lines = "\n".join(map(_delay_row, found))
    return _put(_page(), _DELAY.format(options=options, step_s=step_s, late_s=LATE_S, rows=lines))


def write_newcomer() -> Path:
    """Follow the README from a clone to a finding, and write that part of the page."""
    with TemporaryDirectory() as folder:
        found = follow_readme(Path(folder) / "clone")
    lines = "\n".join(
        f"| {one.name} | {one.at_s:.0f} s | {one.cpu_s:.0f} s |" for one in found.phases
    )
    figures = {"cores": os.cpu_count(), "cpu_s": found.cpu_s, "load": found.load}
    return _put(_page(), _NEWCOMER.format(rows=lines, **figures))


def write_alerts(seconds: int, share: float) -> Path:
    """Watch a share of the streams, and write that part of the page."""
    found = results(seconds, share)
    judged = [one for _, one in found]
    notes = [f"`{stream.name}`: {text}" for stream, one in found for text in one.notes]
    text = _ALERTS.format(
        seconds=seconds,
        streams=len(found),
        minutes=seconds / 60,
        window_s=WATCHED.window_ns // SECOND_NS,
        stride_s=WATCHED.stride_ns // SECOND_NS,
        quiet_s=WATCHED.quiet_ns // SECOND_NS,
        versions=versions_of(judged),
        rows="\n".join(rows(found)),
        totals="\n".join(_total(name, one) for name, one in totals(judged).items()),
        notes="; ".join(notes).replace("|", "\\|") or "nothing",
    )
    return _put(_page(), text)


def _total(name: str, one: Estimate) -> str:
    if one["value"] is None:
        return f"| {name} | - | - | 0 |"
    return f"| {name} | {one['value']:.2f} | {one['low']:.2f} to {one['high']:.2f} | {one['of']} |"


def _delay_row(one: Delay) -> str:
    is_met = one.alert_s is not None and one.alert_s <= one.limit_s
    cells = [
        f"{one.gpus:,}",
        f"{one.records_per_s:,.0f}",
        f"{one.learned_s:.0f} s",
        "none" if one.alert_s is None else f"{one.alert_s:.1f} s",
        f"{one.limit_s:.1f} s",
        "yes" if is_met else "no",
        f"{one.cores:.2f}",
        f"{one.memory_bytes / 2**30:.1f} GiB",
    ]
    return f"| {' | '.join(cells)} |"


def _stretches(looks: Sequence[Look]) -> Iterator[str]:
    """A row for each stretch of so many looks."""
    together = -(-len(looks) // _STRETCHES) or 1
    for first in range(0, len(looks), together):
        own = looks[first : first + together]
        lag_s = max(one.lag_s for one in own)
        sizes = [(one.memory_bytes, one.file_bytes) for one in own]
        memory_mib, files_mib = (max(each) / 2**20 for each in zip(*sizes, strict=True))
        cells = (f"{lag_s:,.0f} s", f"{memory_mib:.0f} MiB", f"{files_mib:.0f} MiB")
        yield f"| {own[-1].sent_s / HOUR_S:.1f} | {' | '.join(cells)} |"


def _page() -> str:
    """The page as it is now."""
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


def _put(page: str, part: str) -> Path:
    """Write the page with a part in place of that with the same title, or at its end."""
    head, *parts = page.split(_PART)
    part = part.removeprefix(_PART)
    titles = [one.partition("\n")[0] for one in parts]
    title = part.partition("\n")[0]
    if title in titles:
        parts[titles.index(title)] = part
    else:
        parts.append(part)
    PAGE.write_text(_PART.join([head, *parts]), encoding="utf-8")
    return PAGE


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
