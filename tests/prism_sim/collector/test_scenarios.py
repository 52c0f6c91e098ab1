"""Every bundled telemetry scenario runs, and the diagnoser takes what it leaves."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from llmprism.pipeline import diagnose_files
from prism_sim.collector.effects import ORDER
from prism_sim.loading.loader import load_with_warnings
from prism_sim.run import Run
from prism_sim.simulate import simulate

FOLDER = Path(__file__).parents[3] / "scenarios" / "telemetry"
SCENARIOS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_it_leaves_is_diagnosed(path, tmp_path):
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
