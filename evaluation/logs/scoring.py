"""Scoring answers about failed jobs against the truth of the simulator.

An *event* is the lines of one kind and one writer that the truth calls indicators. An answer finds
it if it names one of its lines; a named line that indicates nothing is false. Nodes count for
failures that have a first node, iterations for those that have one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from evaluation.exam.intervals import Estimate, share
from evaluation.logs.answers import RULES, Answer, Place
from llmlog.events import read_job
from llmlog.reading import find_jobs
from llmlog.streams import Intake

TOP = 5


@dataclass
class Tally:
    """Counts of hits and of what they are of, by name."""

    hits: dict[str, int] = field(default_factory=dict)
    of: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, hits: int, of: int = 1) -> None:
        self.hits[name] = self.hits.get(name, 0) + hits
        self.of[name] = self.of.get(name, 0) + of

    def estimate(self, name: str) -> Estimate:
        """The share with Wilson's interval."""
        return share(self.hits.get(name, 0), self.of.get(name, 0))

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall of events."""
        precision, recall = self.estimate("precision")["value"], self.estimate("recall")["value"]
        if not precision or not recall:
            return None
        return float(2 * precision * recall / (precision + recall))


def score(folders: Iterable[Path]) -> dict[str, Tally]:
    """Score all rules, and an oracle for causes, on runs with ``logs/`` and ``truth/``."""
    tallies = {name: Tally() for name in (*RULES, "oracle")}
    for folder in folders:
        failures = pd.read_parquet(folder / "truth/logs_failures.parquet")
        truths = {str(row["job"]): row for _, row in failures.iterrows()}
        lines = pd.read_parquet(folder / "truth/logs_lines.parquet")
        indicators = lines[lines.role == "indicator"]
        for job in find_jobs([folder / "logs"]):
            if job.name not in truths:
                continue
            evidence, truth = read_job(job, Intake()), truths[job.name]
            events = _events(indicators[indicators.job == job.name])
            for name, rule in RULES.items():
                _add(tallies[name], rule(evidence), truth, events)
            # every symptom has one cause with more than half of its failures
            tallies["oracle"].add("cause", int(float(truth["share"]) > 0.5))
    return tallies


def _events(rows: pd.DataFrame) -> dict[Place, str]:
    """The event of each indicator line."""
    return {
        (str(row.file), int(str(row.line))): json.dumps(
            [str(row.file), str(row.node), str(row.rank), str(row.event)]
        )
        for row in rows.itertuples()
    }


def _add(tally: Tally, answer: Answer, truth: pd.Series, events: dict[Place, str]) -> None:
    right = [place for place in answer.lines if place in events]
    tally.add("precision", len(right), len(answer.lines))
    found = {events[place] for place in right}
    tally.add("recall", len(found), len(set(events.values())))
    if isinstance(truth.node, str):
        tally.add("top_1", int(answer.nodes[:1] == [truth.node]))
        tally.add("top_5", int(truth.node in answer.nodes[:TOP]))
    if answer.stage is None:
        return
    tally.add("stage", int(answer.stage == truth.stage))
    tally.add("cause", int(answer.cause == truth.kind))
    if pd.notna(truth.iteration):
        tally.add("iteration", int(answer.iteration == truth.iteration))
