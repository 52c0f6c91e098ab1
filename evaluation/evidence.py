"""What each kind of telemetry is worth: the same worlds, seen in many ways.

Each world is simulated with everything that can be recorded. What an exporter with a longer
interval, or with fewer ranks, sees is a part of it; packets that are sampled need a simulation of
their own, in which every other random number is the same. Each diagnosis is graded as in the exam,
and the bytes of its telemetry are counted as they are exported, before any compression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.exam import log, truth
from evaluation.exam.figures import figures_of
from evaluation.exam.measures import HEADLINES, faults_of, server_or_set
from evaluation.exam.measuring import Row, beside, grade_of
from evaluation.exam.page import written
from evaluation.exam.paired import differences
from evaluation.exam.worlds import RESULTS, World, families, scenario_of, simulated, worlds
from evaluation.paths import REFERENCE, TEMPLATES
from llmprism.beside import Beside
from llmprism.diagnosis import Diagnosis
from llmprism.io.topology import ScheduledJob, Topology, read_topology
from llmprism.pipeline import diagnose
from llmprism.together import together
from prism_common.kinds import AXES
from prism_sim import toolkit
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run

PAGE = REFERENCE / "evidence.md"
READ_S = 0.1
"""Interval of the counters that are simulated; longer ones are every so many of these."""
RECORD_BYTES, READING_BYTES = 48, 24
"""Of a flow record of NetFlow v5; of a reading of one port: time, and bytes in both directions."""
RIGHT = "right server, or in the set"
SHOWN = {
    "findings": (RIGHT, "recall", "sure and wrong", "delay in steps, median"),
    "structure": ("jobs exact", "layouts right or unknown", "steps matched"),
}
KNOWN = ("jobs exact", "layouts (dp and pp)")
"""Figures that are 1 where nothing of the structure can be given that flows do not show."""
Runs = Callable[[int], Run]
"""The run of a world in which one packet in so many is sampled; with 1, it has all other kinds."""


class View(NamedTuple):
    """A row of the study: what is seen of a world, and what is given of its jobs.

    Attributes
    ----------
    packets : flows: one packet in so many is sampled; 0 without flows.
    counters_s : time between two readings of a port; 0 without counters.
    ranks : collectives: one rank in so many has records; 0 without collectives.
    """

    packets: int = 0
    counters_s: float = 0
    ranks: int = 0
    given: Literal["", "members", "members and layout"] = ""

    def __str__(self) -> str:
        """The name of the row."""
        sampled = "every packet" if self.packets == 1 else f"sampled 1:{self.packets:,}"
        ranks = "all ranks" if self.ranks == 1 else f"one rank in {self.ranks}"
        kinds = {
            f"flows, {sampled}": self.packets,
            f"counters, {self.counters_s:g} s": self.counters_s,
            f"collectives, {ranks}": self.ranks,
        }
        names = " + ".join(name for name, is_seen in kinds.items() if is_seen)
        return names + (f"; {self.given} given" if self.given else "")


FLOWS = View(packets=1)
SUMMED = (FLOWS, View(counters_s=1.0), View(ranks=1))
VIEWS = (
    FLOWS, View(100), View(1000), View(10_000),
    View(1, given="members"), View(1, given="members and layout"),
    View(counters_s=0.1), View(counters_s=1.0), View(counters_s=15.0),
    View(ranks=1), View(ranks=8), View(ranks=1, given="members"),
    View(1, 1.0), View(1, 0, 1), View(1000, 0, 1), View(1, 1.0, 1),
)  # fmt: skip


def seen(scenario: Scenario, below: Path, one_in: int) -> Run:
    """Simulate ``scenario`` with one sampled packet in so many; with 1, with all other kinds."""
    values = scenario.model_dump(mode="json", exclude_unset=True)
    collector = values.get("collector", {})
    effects = [one for one in collector.get("effects", []) if one["kind"] != "sampling"]
    if one_in > 1:
        effects.append({"kind": "sampling", "one_in": one_in})
        values["measure_faults"] = False  # the run with all other kinds has it
    else:
        collector["counters"], values["collectives"] = {"interval_s": READ_S}, {}
    values["collector"] = {**collector, "effects": effects}
    return simulated(Scenario.model_validate(values), below)


def _network(run: Run, given: str) -> Topology:
    """The network of a run, with what is given of its jobs."""
    layouts, servers = run.truth("layouts").set_index("job"), run.truth("ranks").groupby("job")
    jobs = tuple(
        ScheduledJob(str(job), frozenset(own), layout={axis: int(layouts.loc[job, axis])
                     for axis in AXES if "layout" in given})
        for job, own in servers["address"]
    )  # fmt: skip
    return replace(read_topology(run.topology), jobs=jobs if given else ())


Part = tuple[Diagnosis | Exception, int]
"""What one kind of telemetry shows, or why it shows nothing; and its size [bytes]."""


def _part(runs: Runs, view: View) -> Part:
    """What the only kind of telemetry in ``view`` shows."""
    run = runs(max(view.packets, 1))
    network = _network(run, view.given)
    with toolkit.working_folder() as folder:
        if view.packets:
            size = pq.read_metadata(run.flows).num_rows * RECORD_BYTES
            of = partial(diagnose, run.flows, network)
        elif view.counters_s:
            readings = pq.read_table(run.counters)
            port = pd.Series(readings["port"].to_pandas())
            number = port.groupby(port, observed=True).cumcount().to_numpy()
            readings = readings.filter(pa.array(number % round(view.counters_s / READ_S) == 0))
            pq.write_table(readings, folder / "counters.parquet")
            size = readings.num_rows * READING_BYTES
            of = partial(Beside([folder / "counters.parquet"]).of_counters, network)
        else:
            paths = sorted(run.collectives.glob("*.jsonl"))[:: view.ranks]
            size = sum(path.stat().st_size for path in paths)
            used = {*run.truth("ranks")["address"]}  # a process has a place among those of a server
            ports = tuple(one for one in network.ports if one.address in used)
            of = partial(Beside((), paths).of_collectives, replace(network, ports=ports))
        try:
            return of(), size
        except Exception as error:  # it is graded as one that finds nothing
            return error, size


def _parts(view: View) -> list[View]:
    """Each kind of telemetry in ``view`` by itself, flows first."""
    packets, counters_s, ranks, given = view
    only = (View(packets), View(counters_s=counters_s), View(ranks=ranks))
    return [one._replace(given=given) for one in only if any(one)]


def _row(runs: Runs, part_of: Callable[[View], Part], view: View) -> Row:
    """The grade of what all kinds in ``view`` show together, and the bytes of them."""
    parts = {str(one).partition(",")[0]: part_of(one) for one in _parts(view)}
    (first, _), *_ = parts.values()

    def answer() -> Diagnosis:
        if isinstance(first, Exception):
            raise first
        known = {kind: one for kind, (one, _) in parts.items() if isinstance(one, Diagnosis)}
        others = {kind: one for kind, one in known.items() if one is not first}
        return together(first, others, read_topology(runs(1).topology)) if others else first

    with beside(runs(max(view.packets, 1))) as own:
        return grade_of(own, answer) | {"bytes": sum(size for _, size in parts.values())}


def measure(task: tuple[World, Path]) -> Row:
    """The grades of one world by all kinds of telemetry."""
    world, kept = task
    scenario = scenario_of(world, kept / "drawn")
    runs = cache(partial(seen, scenario, kept / "evidence-worlds"))
    part_of = cache(partial(_part, runs))
    run = runs(1)
    row: Row = {"family": world.family, "set": families()[world.family].set, "seed": world.seed}
    row |= truth.of_world(run, scenario)
    steps = run.truth("steps")
    hours = (steps["end_ns"].max() - steps["start_ns"].min()) / 3.6e12
    row["gpu_hours"] = float(len(run.truth("ranks")) * hours)
    return {"result": row | {"methods": {str(one): _row(runs, part_of, one) for one in VIEWS}}}


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
    figures, timed = figures_of(rows)["develop"], [row for row in rows if row["gpu_hours"] > 0]
    hours = sum(row["gpu_hours"] for row in timed)
    for name, own in figures.items():
        own["mb"] = sum(row["methods"][name]["bytes"] for row in timed) / hours / 1e6
    _draw(figures, to.with_suffix(".png"))
    page = toolkit.render_page(
        TEMPLATES, "evidence", date=log.today(), commit=log.commit(), number=number,
        worlds=len(rows), left_out=len(every) - len(rows), due=figures[str(FLOWS)]["due"],
        overview=_overview(figures), paired=_paired(rows), missed=_missed(rows), **_known(rows),
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
    """By how much a kind names more right servers than another one, on the same worlds."""
    measures = [one for one in HEADLINES if one.name == RIGHT]
    sums = [(one, part) for one in VIEWS for part in _parts(one) if len(_parts(one)) > 1]
    pairs = dict.fromkeys([*((one, FLOWS) for one in VIEWS[1:]), *sums])
    made = []
    for pair in pairs:
        own, other = ([row | {"methods": {"": row["methods"][str(one)]}} for row in rows]
                      for one in pair)  # fmt: skip
        (one,) = differences(other, own, measures)
        if one.change is not None and one.half is not None:
            made.append([*map(str, pair), f"{100 * one.change:+.1f} ± {100 * one.half:.1f}"])
    return toolkit.table(["telemetry", "beside", f"points more: {RIGHT}"], made)


def _known(rows: Sequence[Row]) -> dict[str, int]:
    """Due faults whose server flows do not name, and how many are in worlds of known structure."""
    grades = [row["methods"][str(FLOWS)] for row in rows]
    known = [all(one["structure"][name] == 1 for name in KNOWN) for one in grades]
    unnamed = [
        is_known
        for row, grade, is_known in zip(rows, grades, known, strict=True)
        for fault in faults_of(row, grade)
        if fault["due"] and not server_or_set(fault)
    ]
    return {"unnamed": len(unnamed), "of_known": sum(unnamed)}


def _missed(rows: Sequence[Row]) -> str:
    """Of the faults that each kind finds, the share that each other one misses."""
    found = {
        kind: [
            own["near"] or own["in_set"]
            for row in rows
            for fault, own in zip(row["faults"], row["methods"][str(kind)]["faults"], strict=True)
            if fault["due"]
        ]
        for kind in SUMMED
    }
    made = []
    for kind in SUMMED:
        seen = [[theirs for own, theirs in zip(found[kind], found[other], strict=True) if own]
                for other in SUMMED]  # fmt: skip
        made.append([str(kind), *(f"{one.count(False)} of {len(one)}" for one in seen)])
    return toolkit.table(["right server by", *(f"not by {kind}" for kind in SUMMED)], made)


def _draw(figures: Mapping[str, Any], path: Path) -> None:
    """Right servers against bytes: a point for each kind that others do not cover."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 4.5))
    shown = [name for name in figures if "given" not in name and "+ counters" not in name]
    for name, own in ((n, figures[n]) for n in shown if figures[n]["findings"][RIGHT]["of"]):
        value, low, high = (100 * own["findings"][RIGHT][key] for key in ("value", "low", "high"))
        axes.errorbar(own["mb"], value, [[value - low], [high - value]], fmt="o", capsize=3)
        axes.annotate(name, (own["mb"], value), (6, 4), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlabel="telemetry [MB a GPU and hour]", ylabel=f"{RIGHT} [%]",
             xlim=(None, 300 * max(figures[name]["mb"] for name in shown)))  # fmt: skip
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
