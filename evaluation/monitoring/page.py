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
from evaluation.paths import REFERENCE, TEMPLATES
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.tracking.tracker import CALM

PAGE = REFERENCE / "monitor.md"
_PART = "\n## "
_HEAD, _RATE, _SOAK, _ALERTS, _NEWCOMER, _DELAY = (
    (TEMPLATES / "monitor.md").read_text(encoding="utf-8").split(_PART)
)
_STRETCHES = 12


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
