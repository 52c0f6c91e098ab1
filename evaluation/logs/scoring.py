"""Scoring answers about failed jobs against the truth of the simulator.

An *event* is the lines of one kind and one writer that the truth calls indicators. An answer finds
it if it names one of its lines; a named line that indicates nothing is false. Nodes count for
failures that have a first node, iterations for those that have one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mode
from typing import TypedDict

import pandas as pd

from evaluation.exam.intervals import Estimate, part
from evaluation.logs.answers import RULES, Answer, Place, of_failure
from evaluation.logs.l4.counting import Counted, Library, Miner
from evaluation.logs.l4.method import L4, Settings
from llmlog.events import read_job
from llmlog.reading import Job, find_jobs
from llmlog.streams import Intake
from llmlog.understanding import COMPLETED

TOP = 5
VARIANTS = {
    "l4": Settings(),
    "l4, all users": Settings(same_user=False),
    "l4, not temporal": Settings(temporal=False),
    "l4, even events too": Settings(uneven=False),
}
"""The method of L4, and other choices where the paper publishes none."""

Hits = dict[str, tuple[int, int]]
"""By quantity: hits, and of how many."""
Scored = dict[str, Hits]
"""Of one failure, by rule."""


class Case(TypedDict):
    """One failure: its cause, what its logs show of it (stage and kinds of lines), and scores."""

    kind: str
    symptom: str
    scored: Scored


@dataclass
class Tally:
    """Hits and sizes of each failure, by quantity."""

    hits: dict[str, list[int]] = field(default_factory=dict)
    of: dict[str, list[int]] = field(default_factory=dict)

    def add(self, name: str, hits: int, of: int = 1) -> None:
        self.hits.setdefault(name, []).append(hits)
        self.of.setdefault(name, []).append(of)

    def estimate(self, name: str) -> Estimate:
        """The share; its interval is the wider one of the bootstrap over failures and Wilson's."""
        return part(self.hits.get(name, []), self.of.get(name, []))

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall of events."""
        precision, recall = self.estimate("precision")["value"], self.estimate("recall")["value"]
        if not precision or not recall:
            return None
        return float(2 * precision * recall / (precision + recall))


def tallied(cases: Sequence[Case]) -> dict[str, Tally]:
    """A tally for each rule, and for an oracle of causes.

    The oracle knows which kinds of lines indicate each failure, and answers the cause that most
    failures among ``cases`` with these lines have. No rule that sees no more can be right oftener.
    """
    tallies: dict[str, Tally] = {}
    for case in cases:
        for rule, quantities in case["scored"].items():
            tally = tallies.setdefault(rule, Tally())
            for name, (hits, of) in quantities.items():
                tally.add(name, hits, of)
    kinds: dict[str, list[str]] = {}
    for case in cases:
        kinds.setdefault(case["symptom"], []).append(case["kind"])
    usual = {symptom: mode(found) for symptom, found in kinds.items()}
    oracle = tallies["oracle"] = Tally()
    for case in cases:
        oracle.add("cause", int(usual[case["symptom"]] == case["kind"]))
    return tallies


def score(folder: Path, library: Library) -> Iterator[Case]:
    """Score all rules on each failure of a run."""
    truths, events = truth_of(folder)
    jobs, miner = find_jobs([folder / "logs"]), Miner()
    reader = L4(library, miner=miner)
    healthy = [reader.healthy(job, Intake()) for job in jobs if job.state == COMPLETED]
    for job in jobs:
        if job.name not in truths:
            continue
        truth, indicators, evidence = truths[job.name], events[job.name], read_job(job, Intake())
        answers = {name: rule(evidence) for name, rule in RULES.items()}
        answers |= _compared(job, healthy, library, miner)
        yield case_of(truth, indicators, answers)


def case_of(truth: pd.Series, events: dict[Place, str], answers: Mapping[str, Answer]) -> Case:
    """Compare answers about a failure with the truth."""
    return {
        "kind": str(truth.kind),
        "symptom": _symptom(str(truth.stage), events.values()),
        "scored": {name: _hits(answer, truth, events) for name, answer in answers.items()},
    }


def _symptom(stage: str, events: Iterable[str]) -> str:
    """Stage and kinds of lines; a kind that several ranks or nodes print differs from one."""
    writers: Counter[str] = Counter()
    for *_, event in {tuple(json.loads(text)) for text in events}:
        writers[event] += 1
    kinds = sorted(f"{event}{' of several' * (count > 1)}" for event, count in writers.items())
    return f"{stage}: {', '.join(kinds)}"


def learned(folder: Path) -> Library:
    """A library of the confirmed cases of a run."""
    truths, _ = truth_of(folder)
    jobs, library = find_jobs([folder / "logs"]), Library()
    for counted, failure in L4(library).diagnose(jobs, [], Intake()):
        if failure is not None:
            texts = {event.text for event in failure.events}
            library.learn(texts, str(truths[counted.job.name]["kind"]))
    return library


def _compared(
    job: Job, healthy: list[Counted], library: Library, miner: Miner
) -> dict[str, Answer]:
    counted = miner.count(job, Intake())
    return {
        name: of_failure(L4(library, settings, miner).diagnose_job(counted, healthy))
        for name, settings in VARIANTS.items()
    }


def truth_of(folder: Path) -> tuple[dict[str, pd.Series], dict[str, dict[Place, str]]]:
    """Of each failed job: its row, and the event of each line that indicates the failure."""
    failures = pd.read_parquet(folder / "truth/logs_failures.parquet")
    truths = {str(row["job"]): row for _, row in failures.iterrows()}
    events: dict[str, dict[Place, str]] = {name: {} for name in truths}
    rows = pd.read_parquet(folder / "truth/logs_lines.parquet")
    for row in rows[(rows.role == "indicator") & rows.job.isin(events)].itertuples():
        event = json.dumps([str(row.file), str(row.node), str(row.rank), str(row.event)])
        events[str(row.job)][str(row.file), int(str(row.line))] = event
    return truths, events


def _hits(answer: Answer, truth: pd.Series, events: dict[Place, str]) -> Hits:
    right = [place for place in answer.lines if place in events]
    found = {events[place] for place in right}
    hits = {
        "precision": (len(right), len(answer.lines)),
        "recall": (len(found), len(set(events.values()))),
    }
    if isinstance(truth.node, str):
        hits["top_1"] = int(answer.nodes[:1] == [truth.node]), 1
        hits["top_5"] = int(truth.node in answer.nodes[:TOP]), 1
    if answer.stage is None:
        return hits
    hits["stage"] = int(answer.stage == truth.stage), 1
    hits["cause"] = int(answer.cause == truth.kind), 1
    if pd.notna(truth.iteration):
        hits["iteration"] = int(answer.iteration == truth.iteration), 1
    return hits
