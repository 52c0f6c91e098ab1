"""Scores of answers about failed jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.logs.l4.counting import Library
from evaluation.logs.scoring import Case, Tally, score, tallied
from evaluation.logs.worlds import score_world
from log_corpus import corpus


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    tally = Tally()
    tally.add("precision", 1, 2)
    tally.add("recall", 1, 1)
    assert tally.f1 == pytest.approx(2 / 3)


def case(kind: str, symptom: str) -> Case:
    return {"kind": kind, "symptom": symptom, "scored": {}}


def test_the_oracle_answers_the_most_frequent_cause_of_the_same_lines() -> None:
    cases = [
        case("a", "hang: x"),
        case("a", "hang: x"),
        case("b", "hang: x"),
        case("c", "crash: x"),
    ]
    oracle = tallied(cases)["oracle"]
    assert (sum(oracle.hits["cause"]), sum(oracle.of["cause"])) == (3, 4)


@pytest.mark.slow
def test_a_world_has_flows_and_logs_of_the_same_failure(tmp_path: Path) -> None:
    (scored,) = score_world(4, tmp_path)
    rules = {name: hits["top_1"] for name, hits in scored["scored"].items()}
    assert rules.pop("flows alone") == (1, 1)
    assert rules.pop("prism with flows, its logs lost") == (1, 1)
    assert rules.keys() == {"prism", "prism with flows", "prism, its logs lost"}


def test_causal_structure_finds_more_than_simple_rules(tmp_path: Path) -> None:
    folder = corpus(tmp_path, failures=12, settings="successes: 0").folder
    tallies = tallied(score(folder, Library()))
    first = {name: sum(tally.hits.get("top_1", [])) for name, tally in tallies.items()}
    assert first["prism"] == max(first.values())
    for tally in tallies.values():
        assert all(sum(tally.hits[name]) <= sum(tally.of[name]) for name in tally.of)
