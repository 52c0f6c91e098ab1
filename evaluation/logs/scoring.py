"""Scoring answers about failed jobs against the truth of the simulator.

An *event* is the lines of one kind and one writer that the truth calls indicators. An answer finds
it if it names one of its lines; a named line that indicates nothing is false. Nodes count for
failures that have a first node, iterations for those that have one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from evaluation.exam.intervals import Estimate, part
from evaluation.logs.answers import RULES, Answer, Place, of_failure
from llmlog.diagnosis import COMPLETED
from llmlog.events import read_job
from llmlog.l4.counting import Counted, Miner
from llmlog.l4.library import Library
from llmlog.l4.method import L4, Settings
from llmlog.reading import Job, find_jobs
from llmlog.streams import Intake

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


def tallied(failures: Iterable[Scored]) -> dict[str, Tally]:
    """A tally for each rule."""
    tallies: dict[str, Tally] = {}
    for scored in failures:
        for rule, quantities in scored.items():
            tally = tallies.setdefault(rule, Tally())
            for name, (hits, of) in quantities.items():
                tally.add(name, hits, of)
    return tallies


def score(folder: Path, library: Library) -> Iterator[Scored]:
    """Score all rules, and an oracle for causes, on each failure of a run."""
    truths, events = _truth(folder)
    jobs, miner = find_jobs([folder / "logs"]), Miner()
    reader = L4(library, miner=miner)
    healthy = [reader.healthy(job, Intake()) for job in jobs if job.state == COMPLETED]
    for job in jobs:
        if job.name not in truths:
            continue
        truth, indicators, evidence = truths[job.name], events[job.name], read_job(job, Intake())
        answers = {name: rule(evidence) for name, rule in RULES.items()}
        answers |= _compared(job, healthy, library, miner)
        scored = {name: _hits(answer, truth, indicators) for name, answer in answers.items()}
        # every symptom has one cause with more than half of its failures
        yield scored | {"oracle": {"cause": (int(float(truth["share"]) > 0.5), 1)}}


def learned(folder: Path) -> Library:
    """A library of the confirmed cases of a run."""
    truths, _ = _truth(folder)
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


def _truth(folder: Path) -> tuple[dict[str, pd.Series], dict[str, dict[Place, str]]]:
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
