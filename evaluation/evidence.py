"""What each kind of telemetry is worth: the same worlds, seen in many ways.

Each world is simulated with everything that can be recorded. What an exporter with a longer
interval, or with fewer ranks, sees is a part of it; packets that are sampled need a simulation of
their own, in which every other random number is the same. Each diagnosis is graded as in the exam,
and the bytes of its telemetry are counted as they are exported, before any compression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.exam import log, truth
from evaluation.exam.figures import figures_of
from evaluation.exam.measures import HEADLINES
from evaluation.exam.measuring import Row, beside, diagnosed, grade_of
from evaluation.exam.page import written
from evaluation.exam.paired import differences
from evaluation.exam.worlds import RESULTS, World, families, scenario_of, simulated, worlds
from evaluation.paths import REFERENCE, TEMPLATES
from llmprism.beside import Beside
from llmprism.io.topology import read_topology
from llmprism.pipeline import diagnose
from prism_common.progress import silent
from prism_sim import toolkit
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run

PAGE = REFERENCE / "evidence.md"
READ_S = 1.0
"""Interval of the counters that are simulated; longer ones are every so many of these."""
RECORD_BYTES, READING_BYTES = 48, 24
"""Of a flow record of NetFlow v5; of a reading of one port: time, and bytes in both directions."""
RIGHT = "right server, or in the set"
SHOWN = {
    "findings": (RIGHT, "recall", "sure and wrong", "delay in steps, median"),
    "structure": ("jobs exact", "layouts right or unknown", "steps matched"),
}
Runs = Callable[[int], Run]
"""The run of a world in which one packet in so many is sampled; with 1, it has all other kinds."""


def seen(scenario: Scenario, below: Path, one_in: int) -> Run:
    """Simulate ``scenario`` with this telemetry in place of the sampling that it has."""
    values = scenario.model_dump(mode="json", exclude_unset=True)
    collector = values.get("collector", {})
    effects = [one for one in collector.get("effects", []) if one["kind"] != "sampling"]
    if one_in > 1:
        effects.append({"kind": "sampling", "one_in": one_in})
    else:
        collector["counters"], values["collectives"] = {"interval_s": READ_S}, {}
    values["collector"] = {**collector, "effects": effects}
    return simulated(Scenario.model_validate(values), below)


def flows(runs: Runs, one_in: int) -> Row:
    """What ``prism`` finds in flow records."""
    run = runs(one_in)
    with beside(run) as own:
        size = pq.read_metadata(run.flows).num_rows * RECORD_BYTES
        return diagnosed(own, "prism") | {"bytes": size}


def counters(runs: Runs, interval_s: float) -> Row:
    """What byte counters of ports show."""
    readings = pq.read_table((run := runs(1)).counters)
    port = pd.Series(readings["port"].to_pandas())
    number = port.groupby(port, observed=True).cumcount().to_numpy()
    readings = readings.filter(pa.array(number % round(interval_s / READ_S) == 0))
    with beside(run) as own:
        path = own.folder / "counters.parquet"
        pq.write_table(readings, path)
        only = Beside(counters=[path])
        grade = grade_of(own, lambda: only.of_counters(read_topology(run.topology)))
        return grade | {"bytes": readings.num_rows * READING_BYTES}


def collectives(runs: Runs, one_in: int) -> Row:
    """What communication libraries of one rank in ``one_in`` write."""
    run = runs(1)
    paths = sorted(run.collectives.glob("*.jsonl"))[::one_in]
    only = Beside(collectives=paths)
    with beside(run) as own:
        grade = grade_of(own, lambda: only.of_collectives(read_topology(run.topology)))
        return grade | {"bytes": sum(path.stat().st_size for path in paths)}


def every_kind(runs: Runs) -> Row:
    """What flows of every packet, counters at 1 s and collectives of all ranks show together."""
    run = runs(1)
    both = Beside([run.counters], [run.collectives])
    with beside(run) as own:
        of_all = both.around(partial(diagnose, run.flows, run.topology), run.topology, print)
        return grade_of(own, partial(of_all, silent))


TOGETHER = "flows, counters at 1 s and collectives together"
SUMMED = ("flows, every packet", "counters, 1 s", "collectives, all ranks")
"""Kinds that are diagnosed together."""
KINDS: Mapping[str, Callable[[Runs], Row]] = {
    "flows, every packet": partial(flows, one_in=1),
    "flows, sampled 1:100": partial(flows, one_in=100),
    "flows, sampled 1:1,000": partial(flows, one_in=1000),
    "counters, 1 s": partial(counters, interval_s=1.0),
    "counters, 15 s": partial(counters, interval_s=15.0),
    "collectives, all ranks": partial(collectives, one_in=1),
    "collectives, one rank in 8": partial(collectives, one_in=8),
    TOGETHER: every_kind,
}


def measure(task: tuple[World, Path]) -> Row:
    """The grades of one world by all kinds of telemetry."""
    world, kept = task
    scenario = scenario_of(world, kept / "drawn")
    runs = partial(seen, scenario, kept / "evidence-worlds")
    run = runs(1)
    row: Row = {"family": world.family, "set": families()[world.family].set, "seed": world.seed}
    row |= truth.of_world(run, scenario)
    steps = run.truth("steps")
    hours = (steps["end_ns"].max() - steps["start_ns"].min()) / 3.6e12
    row["gpu_hours"] = float(len(run.truth("ranks")) * hours)
    return {"result": row | {"methods": {name: of(runs) for name, of in KINDS.items()}}}


def write(number: int, processes: int | None = None, to: Path = PAGE, kept: Path = RESULTS) -> str:
    """Measure ``number`` worlds of each family, and write the page and its picture."""
    code = toolkit.fingerprint()[:12]
    asked = worlds("develop", number)
    pieces = [
        toolkit.Piece(f"{code}-{one.family}-{one.seed}", one.family, (one, kept)) for one in asked
    ]
    every = toolkit.kept_results(
        measure, pieces, kept / "evidence", processes or toolkit.default_processes(),
        lambda _, text: print(text, file=sys.stderr),
    )  # fmt: skip
    rows = [one["result"] for one in every if "result" in one]
    figures, hours = figures_of(rows)["develop"], sum(row["gpu_hours"] for row in rows)
    for name, own in figures.items():
        kinds = SUMMED if name == TOGETHER else (name,)
        size = sum(row["methods"][kind]["bytes"] for row in rows for kind in kinds)
        own["mb"] = size / hours / 1e6
    _draw(figures, to.with_suffix(".png"))
    page = toolkit.render_page(
        TEMPLATES, "evidence", date=log.today(), commit=log.commit(), number=number,
        worlds=len(rows), left_out=len(every) - len(rows), due=figures[next(iter(KINDS))]["due"],
        overview=_overview(figures), paired=_paired(rows), missed=_missed(rows),
        picture=to.with_suffix(".png").name,
    )  # fmt: skip
    to.write_text(page, encoding="utf-8")
    return f"{len(rows)} worlds: {to}"


def _overview(figures: Mapping[str, Any]) -> str:
    shown = [(part, name) for part, names in SHOWN.items() for name in names]
    rows = [
        [kind, *(written(name, own[part][name]) for part, name in shown), f"{own['mb']:.3g}"]
        for kind, own in figures.items()
    ]
    return toolkit.table(["telemetry", *(name for _, name in shown), "MB a GPU and hour"], rows)


def _paired(rows: Sequence[Row]) -> str:
    """By how much each kind names more right servers than the first one."""
    measures = [one for one in HEADLINES if one.name == RIGHT]
    first, *others = [
        [row | {"methods": {"": row["methods"][kind]}} for row in rows] for kind in KINDS
    ]
    changes = [differences(first, own, measures)[0] for own in others]
    made = [
        [kind, f"{100 * one.change:+.1f} ± {100 * one.half:.1f}"]
        for kind, one in zip([*KINDS][1:], changes, strict=True)
        if one.change is not None and one.half is not None
    ]
    return toolkit.table(["telemetry", f"points more: {RIGHT}"], made)


def _missed(rows: Sequence[Row]) -> str:
    """Of the faults that each kind finds, the share that each other one misses."""
    found = {
        kind: [
            own["near"] or own["in_set"]
            for row in rows
            for fault, own in zip(row["faults"], row["methods"][kind]["faults"], strict=True)
            if fault["due"]
        ]
        for kind in SUMMED
    }
    made = []
    for kind in SUMMED:
        cells = []
        for other in SUMMED:
            seen = [theirs for own, theirs in zip(found[kind], found[other], strict=True) if own]
            cells.append(f"{seen.count(False)} of {len(seen)}")
        made.append([kind, *cells])
    return toolkit.table(["right server by", *(f"not by {kind}" for kind in SUMMED)], made)


def _draw(figures: Mapping[str, Any], path: Path) -> None:
    """Right servers against bytes: one point for each kind, with its interval."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5))
    for name, own in ((n, o) for n, o in figures.items() if o["findings"][RIGHT]["of"]):
        value, low, high = (100 * own["findings"][RIGHT][key] for key in ("value", "low", "high"))
        axes.errorbar(own["mb"], value, [[value - low], [high - value]], fmt="o", capsize=3)
        axes.annotate(name, (own["mb"], value), (6, 4), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlabel="telemetry [MB a GPU and hour]", ylabel=f"{RIGHT} [%]")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
