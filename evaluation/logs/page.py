"""Writing the scores of the diagnosis from logs: ``python -m evaluation logs``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from evaluation.exam.intervals import Estimate
from evaluation.foreign.page import filled
from evaluation.logs.answers import Answer, of_failure
from evaluation.logs.l4.counting import Library
from evaluation.logs.scoring import Case, Hits, Tally, case_of, learned, score, tallied, truth_of
from evaluation.paths import ROOT
from llmlog.diagnosis import diagnose_job
from llmlog.events import read_job
from llmlog.flows import Flows, Sighting
from llmlog.reading import Job, find_jobs
from llmlog.streams import Intake
from llmlog.understanding import COMPLETED
from prism_common.files import write_json
from prism_sim.families import Family, draw, read_family
from prism_sim.toolkit import table

_CANNOT_TELL = 4
"""Exit code of llmprism: not all tables can be filled."""


@cache
def _family() -> Family:
    return read_family(Path(__file__).with_name("worlds.yaml"))


def score_world(seed: int, folder: Path) -> Iterator[Case]:
    """Make a world in ``folder`` by the commands, and score each failure that its fault caused."""
    run = _made(seed, folder)
    flows, (truths, events) = Flows.read(run / "diagnosis"), truth_of(run)
    for job in find_jobs([run / "logs"]):
        if job.name in truths and job.state != COMPLETED:
            truth = truths[job.name]
            yield case_of(truth, events[job.name], _answers(job, str(truth.node), flows.of(job)))


def _answers(job: Job, node: str, seen: Sequence[Sighting]) -> dict[str, Answer]:
    """Of all rules; with all logs of the job, and without those of its faulty ``node``."""
    lost = replace(job, files=tuple(file for file in job.files if file.node != node))
    answers = {"flows alone": Answer([], next(([*one.nodes] for one in seen if one.stopped), []))}
    for there, what in ((job, ""), (lost, ", its logs lost")):
        evidence = read_job(there, Intake())
        answers[f"prism{what}"] = of_failure(diagnose_job(evidence))
        answers[f"prism with flows{what}"] = of_failure(
            diagnose_job(read_job(there, Intake()), seen)
        )
    return answers


def _made(seed: int, folder: Path) -> Path:
    scenario, run = folder / "world.yaml", folder / "run"
    values = draw(_family(), seed) | {"logs": {"population": "all"}}
    scenario.write_text(yaml.safe_dump(values), encoding="utf-8")
    _call("prism_sim", "simulate", scenario, "--out", run)
    inputs, out = (run / "flows.parquet", "--topology", run / "topology.json"), run / "diagnosis"
    _call("llmprism", *inputs, "--out", out, fine=(0, _CANNOT_TELL))
    return run


def _call(*arguments: str | Path, fine: tuple[int, ...] = (0,)) -> None:
    command = [sys.executable, "-m", *map(str, arguments), "--quiet"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode not in fine:
        raise RuntimeError(f"{' '.join(command)} failed: {result.stderr}")


PARTS = ROOT / "results/logs-scores"
_NODES = {"min_nodes": 4, "max_nodes": 8}
FAILURES = 30
"""Failed jobs of a part."""
POPULATIONS = ("open", "exam")
_CASES = 50
_DEVELOPED = 1000
"""Added to a seed for the corpus that the library of l4 learns from: open, never scored."""
_WORLDS = 1750
"""Added to a seed for the worlds with flows."""


def measure(failures: int, seed: int) -> dict[str, list[Case]]:
    """Scores of ``failures`` failed jobs of each population."""
    library = _library(seed)
    return {name: list(_parts(name, failures, seed, library)) for name in POPULATIONS}


def measure_worlds(worlds: int, seed: int) -> list[Case]:
    """Scores with flows of ``worlds`` simulated jobs; each has one fault, and no other has."""
    seeds = range(seed + _WORLDS, seed + _WORLDS + worlds)
    files = ((PARTS / f"world-{one}.json", one) for one in seeds)
    return [case for file, one in files for case in _kept(file, partial(_simulated, one))]


def _simulated(seed: int) -> list[Case]:
    with TemporaryDirectory() as folder:
        return list(score_world(seed, Path(folder)))


def make(run: Path, population: str, failures: int, seed: int) -> None:
    """Write a corpus with the command; each failed job has one successful job before it."""
    settings = {"failures": failures, "population": population, "successes": 1} | _NODES
    command = [sys.executable, "-m", "prism_sim", "logs", "logs/demo", "--seed", str(seed)]
    for name, value in settings.items():
        command += ["--set", f"logs.{name}={value}"]
    subprocess.run([*command, "--out", str(run), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def _parts(population: str, failures: int, seed: int, library: Library) -> Iterator[Case]:
    for number in range(-(-failures // FAILURES)):
        size = min(FAILURES, failures - number * FAILURES)
        part_seed = seed + number
        file = PARTS / f"{population}-{part_seed}-{size}.json"
        yield from _kept(file, partial(_scored, population, size, part_seed, library))


def _scored(population: str, size: int, seed: int, library: Library) -> list[Case]:
    with TemporaryDirectory() as folder:
        make(Path(folder) / "run", population, size, seed)
        return list(score(Path(folder) / "run", library))


def _kept(file: Path, scored: Callable[[], list[Case]]) -> list[Case]:
    """The content of ``file``; it is made if it is not there."""
    if not file.exists():
        _write(file, json.dumps(scored()))
    found: list[Case] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _library(seed: int) -> Library:
    file = PARTS / f"library-{seed}.json"
    if not file.exists():
        with TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            make(run, "open", _CASES, seed + _DEVELOPED)
            library = learned(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        library.write(file)
    return Library.read(file)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


PAGE = ROOT / "results/reference/logs.md"
_COLUMNS = ("precision", "recall", "top_1", "top_5", "stage", "iteration", "cause")
_HEAD, _MISSED, _WITH_FLOWS = (
    (ROOT / "evaluation/templates/logs.md").read_text(encoding="utf-8").split("<!-- tables -->\n\n")
)
_PUBLISHED = "| L4, published | 78.6 | 98.2 | 87.3 | 65.8 | 80 | - | - | - |"
"""Of other logs, which are closed (arXiv 2503.20263)."""


def write(failures: int, worlds: int, seed: int) -> str:
    """Write the page, and its figures as JSON; return the page."""
    values = {"failures": failures, "worlds": worlds, "seed": seed}
    cases = measure(failures, seed)
    parts = [_HEAD.format(**values)]
    for population, of in cases.items():
        parts.append(f"## Population {population}\n\n{_table(tallied(of))}{_PUBLISHED}\n")
    parts.append(f"{_MISSED}{_misses([case for of in cases.values() for case in of])}")
    cases["flows"] = measure_worlds(worlds, seed)
    parts.append(_WITH_FLOWS.format(number=len(cases["flows"]), **values) + _nodes(cases["flows"]))
    text = filled("\n".join(parts))
    PAGE.write_text(text, encoding="utf-8")
    figures = {name: _figures(tallied(of)) for name, of in cases.items()}
    content = values | {"figures": figures}
    write_json(PAGE.with_suffix(".json"), content)
    return text


def _figures(tallies: dict[str, Tally]) -> dict[str, dict[str, Estimate]]:
    """The estimate of each rule and quantity."""
    return {
        rule: {name: tally.estimate(name) for name in tally.of} for rule, tally in tallies.items()
    }


def _nodes(cases: Sequence[Case]) -> str:
    """How often each rule names the first node, in all and by stage."""
    stages = list(dict.fromkeys(_stage(case) for case in cases))
    groups = [cases, *([case for case in cases if _stage(case) == stage] for stage in stages)]
    tallies = [tallied(group) for group in groups]
    rows = [
        [rule, *(_cell(tally[rule].estimate("top_1")) for tally in tallies)]
        for rule in tallies[0]
        if rule != "oracle"
    ]
    return table(["rule", "node: first", *(f"stage {stage}" for stage in stages)], rows)


def _misses(cases: Sequence[Case]) -> str:
    """What prism missed, by cause."""
    names = {"top_1": "first node", **{name: name for name in ("stage", "iteration", "cause")}}
    rows = []
    for kind in sorted({case["kind"] for case in cases}):
        scored = [case["scored"]["prism"] for case in cases if case["kind"] == kind]
        missed = [sum(_missed(hits, name) for hits in scored) for name in names]
        if any(missed):
            rows.append([f"`{kind}`", *map(str, (len(scored), *missed))])
    return table(["cause", "failures", *names.values()], rows)


def _missed(hits: Hits, name: str) -> bool:
    right, of = hits.get(name, (0, 0))
    return right < of


def _stage(case: Case) -> str:
    return case["symptom"].partition(":")[0]


def _table(tallies: dict[str, Tally]) -> str:
    head = ("rule", "events: precision", "recall", "F1", "node: first", "of five", "stage")
    rows = []
    for name, tally in tallies.items():
        cells = [_cell(tally.estimate(column)) for column in _COLUMNS]
        f1 = "-" if tally.f1 is None else f"{100 * tally.f1:.1f}"
        rows.append([name, *cells[:2], f1, *cells[2:]])
    return table([*head, "iteration", "cause"], rows)


def _cell(estimate: Estimate) -> str:
    if estimate["value"] is None:
        return "-"
    value, low, high = (100 * estimate[name] for name in ("value", "low", "high"))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"
