"""Writes the comparison: ``python -m evaluation monitor``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation.exam.worlds import RESULTS, World, scenario_of, simulated, worlds
from evaluation.monitoring.comparing import Comparison, Found, compare
from evaluation.monitoring.rate import SETTINGS, measure
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


def write(number: int) -> Path:
    """Compare ``number`` worlds of each family, and write the page."""
    rows = [_row(world, _compared(world)) for world in worlds("develop", number)]
    text = _HEAD.format(number=number) + "\n".join(rows) + "\n" + _rates()
    PAGE.write_text(text, encoding="utf-8")
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
