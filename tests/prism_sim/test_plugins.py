"""Kinds that another package brings: one of each, registered by entry points, in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

PLUGIN = '''
"""A schedule, a strategy, a habit, an exchange, a fault, an effect, a routing."""
from typing import ClassVar, Literal
from pydantic import Field
from prism_sim.plugins import (
    ALGORITHMS, BACKWARD, FORWARD, NO_MICRO_BATCH, AllReduceBase, Around, Culprit, DataParallel,
    EffectBase, ExchangeBase, FaultBase, Habit, HabitBase, Remark, RoutingBase, ScheduleBase,
    StrategyBase, Work, blocking,
)


class FirstTwo(RoutingBase):
    """Splits messages over the first two uplinks of a leaf."""
    kind: Literal["first-two"] = "first-two"
    second: float = Field(default=1.0, ge=0, le=1, description="Weight of the second.")

    def shares(self, rates, uplinks):
        weights = rates * 0 + 1
        if len(uplinks):
            weights[1:] = 0
            weights[1] = self.second
        return weights / weights.sum()


class DoubleTree(AllReduceBase):
    """Several trees one after another, each a phase of the truth."""
    spans: ClassVar[tuple[str, ...]] = ("one_tree",)
    kind: Literal["double-tree"] = "double-tree"
    trees: int = Field(default=2, ge=1, le=9, description="How many, one after another.")

    def build(self, group, network):
        parts = ALGORITHMS["tree"](group, network)[:1]
        return [InTurn(network.env, part, self.trees) for part in parts]

    def remarks(self, job, at):
        yield from super().remarks(job, at)
        if self.trees > job.dp:
            yield Remark((*at, "all_reduce", "trees"), f"{self.trees} are more than the replicas")


class InTurn:
    def __init__(self, env, part, times):
        self.env, self.part, self.times, self.phases = env, part, times, []

    def start(self, operation, size_bytes, ready_ns, event):
        self.env.process(self.run(operation, size_bytes, ready_ns, event))

    def run(self, operation, size_bytes, ready_ns, event):
        for _ in range(self.times):
            start_ns, ended = self.env.now, self.env.event()
            self.part.start(operation, size_bytes, ready_ns, ended)
            yield ended
            self.phases.append(("one_tree", start_ns, self.env.now))
        event.succeed()

    def take_phases(self):
        taken, self.phases = self.phases, []
        return taken


class OneByOne(ScheduleBase):
    """Each micro-batch forward and backward before the next."""
    kind: Literal["one-by-one"] = "one-by-one"
    last_first: bool = Field(default=False, description="Begin with the last micro-batch.")

    def work(self, place):
        order = range(place.micro_batches)
        order = reversed(order) if self.last_first else order
        return [Work(kind, mb) for mb in order for kind in (FORWARD, BACKWARD)]


class BothEnds(ScheduleBase):
    """All forwards, then all backwards; every second micro-batch enters at the last stage."""
    copies: ClassVar[int] = 2
    kind: Literal["both-ends"] = "both-ends"

    def stage_chunks(self, chunks):
        return 2

    def parts(self, stages, chunks):
        return stages

    def part_of(self, stage, chunk, stages):
        near = min(stage, stages - 1 - stage)
        return stages - 1 - near if chunk else near

    def holder(self, part, micro_batch, place):
        stage = place.stages - 1 - part if micro_batch % 2 else part
        return stage, int(2 * part >= place.stages)

    def alike(self, stage, stages):
        return tuple(sorted({stage, stages - 1 - stage}))

    def work(self, place):
        def chunk(mb):
            part = place.stages - 1 - place.stage if mb % 2 else place.stage
            return self.holder(part, mb, place)[1]
        order = range(place.micro_batches)
        forwards = [Work(FORWARD, mb, chunk(mb)) for mb in order]
        return forwards + [Work(BACKWARD, mb, chunk(mb)) for mb in order]


class Twice(StrategyBase):
    """Gradients are all-reduced after the backward pass, as often as asked."""
    spans: ClassVar[tuple[str, ...]] = ("all_reduce",)
    kind: Literal["again"] = "again"
    times: int = Field(default=2, ge=1, le=9, description="How often.")

    def attach(self, job, sets, units):
        return Reduces(job, sets, units, self.times)


class Reduces(DataParallel):
    def __init__(self, job, sets, units, times):
        super().__init__(job, sets, units)
        self.times = times

    def settle(self, step):
        for _ in range(self.times):
            self.join_all("all_reduce", self.job.gradient_bytes, step)
        yield from self.wait()


class Collects(HabitBase):
    """Garbage collection before every so many steps."""
    key: ClassVar[str] = "garbage_collection"
    about: ClassVar[str] = "Pauses for garbage collection."
    spans: ClassVar[tuple[str, ...]] = ("collect_garbage",)
    every: int = Field(ge=1, le=1000, description="Steps between two collections.")

    def start(self, context):
        return Pause(context, self.every)

    def remarks(self, job, at, has_storage):
        if self.every > job.steps:
            yield Remark((*at, self.key, "every"), f"{self.every} is more than the job's steps")


class Pause(Habit):
    def __init__(self, context, every):
        self.context, self.every = context, every

    def before(self, worker, step):
        if step % self.every == 0:
            start_ns = self.context.env.now
            yield self.context.env.timeout(1_000_000)
            self.context.log.add(
                worker.number, step, NO_MICRO_BATCH, "collect_garbage", start_ns,
                self.context.env.now,
            )


class Statistics(ExchangeBase):
    """Replicas exchange statistics behind every layer's attention."""
    name: ClassVar[str] = "statistics"
    key: ClassVar[str] = "statistics"
    about: ClassVar[str] = "Statistics that replicas exchange in every layer."
    spans: ClassVar[tuple[str, ...]] = ("statistics_all_reduce",)
    bytes: int = Field(ge=1, le=1_000_000, description="Bytes of a rank.")

    def open(self, groups, stage):
        ranks = [(stage, m) for m in range(groups.context.config.members)]
        own = groups.communicators(ranks, ALGORITHMS["ring"], "other", "statistics_", 7)
        return {m: Shared(c, self.bytes) for (_, m), c in zip(ranks, own)}


class Shared:
    def __init__(self, communicator, size_bytes):
        self.communicator, self.size_bytes = communicator, size_bytes

    def around(self, phase, forward):
        if phase.name != "attention" or not forward:
            return Around()
        return Around(
            after=blocking(self.communicator, "all_reduce", self.size_bytes, phase.layer)
        )


class Heats(FaultBase):
    """A GPU that throttles further with every interval: half, a quarter, ... of its speed."""
    kind: Literal["heats"] = "heats"
    job: str
    rank: int = Field(ge=0, le=1_000_000, description="The rank that heats up.")
    every_s: float = Field(ge=1e-9, le=1e8, description="Time to the next halving [s].")

    def magnitude(self, target):
        return 0.5

    def culprit(self, target):
        address = target.compute.address_of(self.job, self.rank)
        return Culprit("address", address, self.job, self.rank)

    def jobs_affected(self, target):
        return [self.job]

    def begin(self, target):
        undo, clock = [], target.clock
        def halve():
            if len(undo) < 3:
                undo.append(target.compute.slow(self.job, self.rank, 0.5))
                clock.call_at(clock.now + round(self.every_s * 1e9), halve)
        halve()
        return lambda: [one() for one in undo]


class Padded(EffectBase):
    """Records count so many bytes at least."""
    after_cutting: ClassVar[bool] = True
    kind: Literal["padded"] = "padded"
    least_bytes: int = Field(ge=1, le=1_000_000_000, description="Bytes of a record at least.")

    def stage(self, scene):
        def pad(rows):
            rows["bytes"] = rows["bytes"].clip(min=self.least_bytes)
            return rows

        return pad

    def remarks(self, setting):
        if len(setting.jobs) > 9:
            yield Remark(("least_bytes",), "too many jobs")
'''
ENTRY_POINTS = """\
[prism_sim.schedules]
one-by-one = foreign_kinds:OneByOne
both-ends = foreign_kinds:BothEnds
[prism_sim.strategies]
again = foreign_kinds:Twice
[prism_sim.habits]
garbage_collection = foreign_kinds:Collects
[prism_sim.collectives]
double-tree = foreign_kinds:DoubleTree
[prism_sim.exchanges]
statistics = foreign_kinds:Statistics
[prism_sim.faults]
heats = foreign_kinds:Heats
[prism_sim.effects]
padded = foreign_kinds:Padded
[prism_sim.routings]
first-two = foreign_kinds:FirstTwo
"""
SCENARIO = """\
cluster: {servers: 4, fabric: {kind: tor, leaf_ports: 8, routing: {kind: first-two, second: 0.5}}}
jobs:
  - name: a
    model: {layers: 2, hidden: 512, heads: 8, vocab: 4000, sequence_length: 512}
    dp: 2
    placement: spread
    micro_batches: 2
    steps: 4
    schedule: {kind: one-by-one, last_first: true}
    data_parallel: {kind: again, times: 3}
    garbage_collection: {every: 2}
    statistics: {bytes: 4096}
faults:
  - {kind: heats, job: a, rank: 1, every_s: 1.0e-9, from_step: 3}
collector: {effects: [{kind: padded, least_bytes: 123456789}, {kind: paths, split: all}]}
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder in which a package with one kind of each is installed."""
    folder = tmp_path / "site"
    info = folder / "foreign_kinds-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "foreign_kinds.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-kinds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def prism_sim(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "prism_sim", *arguments)


def python(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def simulated(site: Path, folder: Path, text: str) -> Path:
    """The run of a scenario."""
    scenario, out = folder / "world.yaml", folder / "out"
    scenario.write_text(text)
    done = prism_sim(site, "simulate", str(scenario), "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


def refused(site: Path, folder: Path, text: str) -> str:
    """What is wrong with a scenario."""
    scenario = folder / "world.yaml"
    scenario.write_text(text)
    done = prism_sim(site, "validate", str(scenario))
    assert done.returncode == 1
    return done.stderr


def test_kinds_of_another_package_run_from_a_scenario_to_the_truth(installed, tmp_path):
    out = simulated(installed, tmp_path, SCENARIO)
    spans = pd.read_parquet(out / "truth" / "spans.parquet")
    rank = spans[spans["rank"] == 0]
    counted = rank.groupby(["step", "kind"]).size().unstack(fill_value=0)
    assert (counted["all_reduce"] == 3).all(), "the strategy's option"
    assert list(counted["collect_garbage"]) == [1, 0, 1, 0], "the habit"
    assert (counted["statistics_all_reduce"] == 2 * 2).all(), "the exchange: layers x micro-batches"
    passes = rank[(rank["step"] == 0) & rank["kind"].isin(["fwd", "bwd"])].sort_values("start_ns")
    order = [f"{row.kind}{row.micro_batch:.0f}" for row in passes.itertuples()]
    assert order == ["fwd1", "bwd1", "fwd0", "bwd0"], "the schedule and its option"
    (fault,) = pd.read_parquet(out / "truth" / "faults.parquet").to_dict("records")
    assert (fault["kind"], fault["rank"], fault["magnitude"]) == ("heats", 1, 0.5), "the fault"
    passes = spans[spans["kind"] == "fwd"]
    took = (passes["end_ns"] - passes["start_ns"]).groupby([passes["rank"], passes["step"]]).min()
    assert took[1, 3] > 1.5 * took[1, 2], "its effect"
    sizes = pd.read_parquet(out / "flows.parquet")["bytes"]
    assert sizes.min() >= 123456789 // 3, "the effect, in parts"
    kept = json.loads((out / "manifest.json").read_text())["scenario"]["jobs"][0]
    assert kept["data_parallel"] == {"kind": "again", "times": 3}
    assert kept["zero_stage"] is None
    cluster = json.loads((out / "manifest.json").read_text())["scenario"]["cluster"]
    assert cluster["fabric"]["routing"] == {"kind": "first-two", "second": 0.5}, "the routing"
    paths = set(pd.read_parquet(out / "flows.parquet")["path"])
    crossed = {path.split("|")[1] for path in paths if "|" in path}
    assert crossed == {"spine00", "spine01"}, "its uplinks"


def test_a_schedule_of_another_package_places_layers_on_two_stages(installed, tmp_path):
    layout = "schedule: both-ends\n    pp: 2"
    asked = "schedule: {kind: one-by-one, last_first: true}"
    scenario = SCENARIO.replace(asked, layout).replace("statistics: {bytes: 4096}", "")
    out = simulated(installed, tmp_path, scenario)
    spans, ranks = (pd.read_parquet(out / "truth" / f"{n}.parquet") for n in ("spans", "ranks"))
    stage = spans["rank"].map(ranks.set_index("rank")["pp"])
    sent = spans[(spans["kind"] == "send_act") & (spans["step"] == 0)]
    way = sorted(set(zip(stage[sent.index], sent["micro_batch"].astype(int), strict=True)))
    assert way == [(0, 0), (1, 1)], "the second micro-batch goes from stage 1 to stage 0"
    pairs = pd.read_parquet(out / "truth" / "pairs.parquet").query("kind == 'dp'")
    of = ranks.set_index("address")["pp"]
    reduced = {frozenset((of[a], of[b])) for a, b in zip(pairs["src"], pairs["dst"], strict=True)}
    assert frozenset((0, 1)) in reduced, "both stages hold the same layers"


@pytest.mark.parametrize("trees", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_all_reduce_of_another_package_runs_with_its_options_and_spans(
    installed, tmp_path, trees
):
    asked = f"all_reduce: {{kind: double-tree, trees: {trees}}}\n    zero_stage: 0"
    scenario = SCENARIO.replace("data_parallel: {kind: again, times: 3}", asked)
    out = simulated(installed, tmp_path, scenario)
    spans = pd.read_parquet(out / "truth" / "spans.parquet")
    every, own = (spans[spans["kind"] == kind] for kind in ("all_reduce", "one_tree"))
    assert len(own) == trees * len(every) > 0
    assert set(own["communication"]) == set(every["communication"])
    last = own.groupby(["rank", "communication"])["end_ns"].max()
    assert (last == every.set_index(["rank", "communication"])["end_ns"].sort_index()).all()


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("all_reduce: {kind: double-tree, trees: 3}", "3 are more than the replicas"),
        ("all_reduce: double-tree\n    library: {}", "only rings, not all_reduce: double-tree"),
    ],
)
def test_an_all_reduce_of_another_package_is_checked(installed, tmp_path, asked, complaint):
    scenario = SCENARIO.replace("data_parallel: {kind: again, times: 3}", asked)
    complaints = refused(installed, tmp_path, scenario)
    assert "world.yaml:10" in complaints
    assert complaint in complaints


def test_checks_of_another_package_complain_at_the_line(installed, tmp_path):
    complaints = refused(installed, tmp_path, SCENARIO.replace("every: 2", "every: 9"))
    assert "world.yaml:11" in complaints
    assert "9 is more than the job's steps" in complaints


def test_the_schema_lists_kinds_of_another_package(installed):
    schema = prism_sim(installed, "schema").stdout
    for name in (
        "one-by-one", "again", "double-tree", "garbage_collection", "statistics", "heats",
    ):  # fmt: skip
        assert name in schema
    for name in ("1f1b", "zero3", "checkpoint", "slow_gpu"):
        assert name in schema, "and those of this one"


def test_a_package_that_cannot_be_loaded_is_one_line(installed, tmp_path):
    (installed / "foreign_kinds.py").write_text("import nowhere_to_be_found\n")
    complaints = refused(installed, tmp_path, SCENARIO)
    assert "Traceback" not in complaints
    assert "nowhere_to_be_found" in complaints
    assert "foreign_kinds" in complaints


FAULT_SCENARIO = """\
cluster: {servers: 4}
jobs:
  - {name: a, model: llama-7b, dp: 2, tp: 8, micro_batches: 2, steps: 4}
faults:
  - {kind: heats, job: a, rank: 9, every_s: 1.0, from_step: 1, to_step: 3}
"""


SCORES = """
import sys
from typer.testing import CliRunner
from prism_sim.cli import app

for tables in sys.argv[2:]:
    options = ["score", sys.argv[1], "--tables", tables, "--json", "--quiet"]
    print("".join(CliRunner().invoke(app, options).stdout.splitlines()))
"""
"""One process for several diagnoses of a run."""


def test_a_fault_of_another_package_is_localised_like_those_of_this_one(installed, tmp_path):
    """A finding that names another rank of its lock-step group, or their server, is right."""
    out, tables = simulated(installed, tmp_path, FAULT_SCENARIO), tmp_path / "tables"
    ranks = pd.read_parquet(out / "truth" / "ranks.parquet").set_index("rank")
    (fault,) = pd.read_parquet(out / "truth" / "faults.parquet").to_dict("records")
    named = {ranks["address"][15]: True, ranks["server"][9]: True, ranks["address"][0]: False}
    for culprit in named:
        finding = {
            "finding": 0, "level": "rank", "symptom": "slow_step", "cause": "heats", "job": "a",
            "culprit_kind": "address", "culprit": culprit, "first_step": 1, "last_step": 2,
            "start_ns": fault["start_ns"], "end_ns": fault["end_ns"], "magnitude": 0.5,
            "cost": 1.0, "confidence": 0.9, "evidence": "{}",
        }  # fmt: skip
        (tables / culprit).mkdir(parents=True)
        pd.DataFrame([finding]).to_parquet(tables / culprit / "findings.parquet")
        jobs = ranks[["job", "address"]].drop_duplicates()
        jobs.to_parquet(tables / culprit / "jobs.parquet")
    each = [str(tables / culprit) for culprit in named]
    scored = python(installed, "-c", SCORES, str(out), *each)
    assert scored.returncode == 0, scored.stderr
    for line, is_right in zip(scored.stdout.splitlines(), named.values(), strict=True):
        faults = json.loads(line)["score"]["faults"]
        assert (faults["recall"], faults["localized_top1"]) == (1.0, float(is_right))
