"""Scores of answers about failed jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.logs.scoring import Tally, score, tallied
from llmlog.l4.library import Library
from log_corpus import corpus


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    tally = Tally()
    tally.add("precision", 1, 2)
    tally.add("recall", 1, 1)
    assert tally.f1 == pytest.approx(2 / 3)


def test_causal_structure_finds_more_than_simple_rules(tmp_path: Path) -> None:
    folder = corpus(tmp_path, failures=12, settings="successes: 0").folder
    tallies = tallied(score(folder, Library()))
    first = {name: sum(tally.hits.get("top_1", [])) for name, tally in tallies.items()}
    assert first["prism"] == max(first.values())
    for tally in tallies.values():
        assert all(sum(tally.hits[name]) <= sum(tally.of[name]) for name in tally.of)
