"""``llmprism check`` says what counters of ports allow, and which interval would allow more."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from llmprism.check.command import check_app

FOLDER = Path(__file__).parents[2] / "fixtures" / "counters"
TABLE, TOPOLOGY = str(FOLDER / "production.parquet"), str(FOLDER / "topology.json")


def test_each_stage_has_its_answer_and_what_would_mend_it():
    done = CliRunner().invoke(check_app, [TABLE, "--topology", TOPOLOGY, "--json"])
    assert done.exit_code == 0
    stages = {one["stage"]: one for one in json.loads(done.stdout)["stages"]}
    assert stages["jobs"]["figures"] == "4 found among 72 ports"
    assert stages["errors, discards, marks and pauses"]["answer"] == "cannot"
    done = CliRunner().invoke(check_app, [TABLE, "--topology", TOPOLOGY])
    assert "can  length of a step: 4 of 4 jobs" in done.output
    assert "to get it: an interval of 60" in done.output  # a sixth of 3.6 s


def test_counters_without_a_topology_are_an_error():
    done = CliRunner().invoke(check_app, [TABLE])
    assert done.exit_code == 1
    assert "counters need a topology" in done.output
