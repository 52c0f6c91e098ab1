"""Failures of real PyTorch jobs (see tests/fixtures/failures): what llmlog says about each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from llmlog.cli import app

FAILURES = Path(__file__).parents[1] / "fixtures" / "failures"
CASES = sorted(path.parent.name for path in FAILURES.glob("*/truth.json"))
SILENT = {
    "killed_agent": "its ranks go on without it, and nobody prints that it is gone",
    "slow_rank": "ranks wait for each other, and no line says for whom",
}
"""Cases in which no log names the node."""


def answer(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The failure that the command finds, and the truth."""
    result = CliRunner().invoke(app, [str(FAILURES / case), "--json", "--quiet"])
    assert result.exit_code == 0, result.output
    (failure,) = json.loads(result.stdout)["failures"]
    return failure, json.loads((FAILURES / case / "truth.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_stage_and_iteration_are_found(case: str) -> None:
    failure, truth = answer(case)
    assert (failure["stage"], failure["iteration"]) == (truth["stage"], truth["iteration"])


@pytest.mark.parametrize("case", [case for case in CASES if case not in SILENT])
def test_the_first_rank_and_its_node_are_found(case: str) -> None:
    failure, truth = answer(case)
    assert (failure["node"], failure["rank"]) == (truth["node"], truth["rank"])


@pytest.mark.parametrize("case", SILENT)
def test_no_node_is_named_if_no_line_does(case: str) -> None:
    assert answer(case)[0]["node"] is None


@pytest.mark.parametrize("case", [case for case in CASES if case not in SILENT])
def test_the_true_cause_is_among_those_named(case: str) -> None:
    """A hang has several; who sent a signal is in no log of the job."""
    failure, truth = answer(case)
    if truth["cause"] is not None:
        assert truth["cause"] in json.loads(failure["or_causes"])
