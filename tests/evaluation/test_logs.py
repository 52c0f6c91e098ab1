"""Scores of answers about failed jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.logs.scoring import Tally, score
from log_corpus import corpus


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    tally = Tally()
    tally.add("precision", 1, 2)
    tally.add("recall", 1, 1)
    assert tally.f1 == pytest.approx(2 / 3)


def test_causal_structure_finds_more_than_simple_rules(tmp_path: Path) -> None:
    tallies = score([corpus(tmp_path, failures=12, settings="successes: 0").folder])
    first = {name: tally.hits.get("top_1", 0) for name, tally in tallies.items()}
    assert first["llmlog"] == max(first.values())
    assert all(
        tally.hits[name] <= tally.of[name] for tally in tallies.values() for name in tally.of
    )
