"""Every bundled telemetry scenario runs, and its records can be diagnosed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from lab.case import CASES, twin
from llmprism.pipeline import diagnose
from prism_sim.collector.config import ORDER
from prism_sim.loading.loader import load_with_warnings
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate

FOLDER = Path(__file__).parents[3] / "scenarios" / "telemetry"
SCENARIOS = sorted(FOLDER.glob("*.yaml"))
FEWER_STEPS = {"netflow": {"jobs.0.steps": 30}}


@pytest.mark.slow
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_exported_records_can_be_diagnosed(path, tmp_path):
    run = Run(tmp_path)
    simulate(load_with_warnings(path, FEWER_STEPS.get(path.stem)).scenario, run)
    intake = diagnose(run.flows, run.topology).intake
    flows = pd.read_parquet(run.flows)
    assert intake.rows == len(flows) == intake.kept + sum(intake.set_aside.values())
    assert (flows["end_ns"] >= flows["start_ns"]).all()
    assert intake.kept > 0
    if path.stem == "netflow":
        check_netflow(run)


def test_netflow_has_the_timeouts_of_exporters():
    """10 s of silence and a minute of age, at least."""
    collector = load_with_warnings(FOLDER / "netflow.yaml").scenario.collector
    assert collector.idle_gap_us >= 10e6
    assert (collector.active_timeout_s or 0) >= 60


def test_together_with_the_twins_they_show_every_effect():
    """The twins of the captures, and one of a case of the lab."""
    twins = (FOLDER.parent / "twins").glob("*.yaml")
    shown = {
        effect.kind
        for scenario in [
            *(load_with_warnings(path).scenario for path in [*SCENARIOS, *twins]),
            twin(CASES / "ddp4-noise.yaml"),
        ]
        for effect in scenario.collector.effects
    }
    assert shown == {effect.model_fields["kind"].default for effect in ORDER}


def check_netflow(run):
    """What an exporter can know: records last a minute, and the path has only the exporter."""
    flows = pd.read_parquet(run.flows)
    hops = flows["path"].astype(str).str.split("|", regex=False)
    assert (hops.map(lambda names: sum(name != "?" for name in names)) == 1).all()
    leaf = {end["address"]: end["switch"] for end in run.read_json(run.topology)["endpoints"]}
    assert (hops.str[0] == flows["src"].astype(str).map(leaf)).all()
    assert (flows["end_ns"] - flows["start_ns"]).median() > 30e9  # half the active timeout
