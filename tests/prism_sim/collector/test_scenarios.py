"""Every bundled telemetry scenario runs, and its records can be diagnosed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from llmprism.pipeline import diagnose_files
from prism_sim.collector.config import ORDER
from prism_sim.loading.loader import load_with_warnings
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate

FOLDER = Path(__file__).parents[3] / "scenarios" / "telemetry"
SCENARIOS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_exported_records_can_be_diagnosed(path, tmp_path):
    run = Run(tmp_path)
    simulate(load_with_warnings(path).scenario, run)
    intake = diagnose_files(run.flows, run.topology).intake
    flows = pd.read_parquet(run.flows)
    assert intake.rows == len(flows) == intake.kept + sum(intake.set_aside.values())
    assert (flows["end_ns"] >= flows["start_ns"]).all()
    assert intake.kept > 0


def test_together_with_the_twins_they_show_every_effect():
    twins = (FOLDER.parent / "twins").glob("*.yaml")
    shown = {
        effect.kind
        for path in [*SCENARIOS, *twins]
        for effect in load_with_warnings(path).scenario.collector.effects
    }
    assert shown == {effect.model_fields["kind"].default for effect in ORDER}


def test_netflow_has_only_the_facts_of_an_exporter(tmp_path):
    """Timeouts of at least 10 s and a minute; the path has only the exporter."""
    scenario = load_with_warnings(FOLDER / "netflow.yaml", {"jobs.0.steps": 30}).scenario
    assert scenario.collector.idle_gap_us >= 10e6
    assert (scenario.collector.active_timeout_s or 0) >= 60
    run = Run(tmp_path)
    simulate(scenario, run)
    flows = pd.read_parquet(run.flows)
    hops = flows["path"].astype(str).str.split("|", regex=False)
    assert (hops.map(lambda names: sum(name != "?" for name in names)) == 1).all()
    leaf = {end["address"]: end["switch"] for end in run.read_json(run.topology)["endpoints"]}
    assert (hops.str[0] == flows["src"].astype(str).map(leaf)).all()
    assert (flows["end_ns"] - flows["start_ns"]).median() > 30e9  # half the active timeout
