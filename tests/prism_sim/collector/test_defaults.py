"""Telemetry without options, and of bundled scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import TypeAdapter

from lab.case import CASES, twin
from llmprism.pipeline import diagnose
from prism_sim.collector.config import ORDER, Effect
from prism_sim.loading.loader import load_with_warnings
from prism_sim.toolkit import Run, simulate
from records import collected, effects, many
from tiny import simulate_one

HEADERS: dict[str, Any] = {"kind": "headers"}
MOVE = {"address_of": "s0003", "to": "s0001", "at_s": 0}
NEEDED: dict[str, dict[str, Any]] = {
    "silent_switches": {"switches": ["leaf000"]},
    "nat": {"servers": ["s0000", "s0001"]},
    "moved_addresses": {"moves": [MOVE]},
    "outages": {"windows": [{"from_s": 61, "to_s": 61.02}]},
}
"""Fields without which an effect would not know where or when to act."""
JOBS: dict[str, dict[str, Any]] = {"waiting": {"steps": 4, "library": {"control_bytes": 48}}}
"""Jobs that leave an effect something to act on: a socket library's small messages."""
MODEL = {"layers": 8, "hidden": 1024, "heads": 16, "vocab": 32000, "sequence_length": 64}
KINDS = [effect.model_fields["kind"].default for effect in ORDER]


def table(folder, *listed, **job):
    """The flow table of two pipelines of two stages, one rank a server."""
    fabric = {"kind": "tor", "leaf_ports": 1, "spines": 2}
    fields = {"steps": 30, "micro_batches": 16, "start_s": 61, **job}
    run = simulate_one(
        folder, model=MODEL, dp=2, pp=2,
        cluster={"gpus_per_server": 1, "nics_per_server": 1, "fabric": fabric},
        collector=effects(*listed), **fields,
    )  # fmt: skip
    return pd.read_parquet(run.flows)


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """Tables of runs with one effect and those that it needs, each simulated once."""
    known: dict[str, pd.DataFrame] = {}

    def of(*listed, **job):
        name = repr((listed, job))
        if name not in known:
            known[name] = table(tmp_path_factory.mktemp("without"), *listed, **job)
        return known[name]

    return of


@pytest.mark.parametrize("kind", KINDS)
def test_listed_by_its_kind_it_changes_the_table(tmp_path, without, kind):
    listed = {"kind": kind, **NEEDED.get(kind, {})}
    counted = TypeAdapter(Effect).validate_python(listed).needs_packets
    beside, job = [HEADERS] if counted else [], JOBS.get(kind, {})
    assert not table(tmp_path, *beside, listed, **job).equals(without(*beside, **job))


def test_left_out_the_table_is_whole_and_exact(tmp_path, without):
    """After runs with each effect, a run without effects gives the same as before."""
    clean = without()
    assert table(tmp_path).equals(clean)
    assert "packets" not in clean
    assert clean["path"].notna().all()
    assert (clean["start_ns"] % 1_000_000 > 0).any()


def test_loss_by_itself_is_that_of_an_export_over_udp(tmp_path):
    """22 sequence failures in 15,292 packets; 300 of 200,000 records is within four sigma."""
    share = 22 / 15_292
    kept = len(collected(tmp_path, effects({"kind": "loss"}), many(200_000)))
    sigma = (share * (1 - share) / 200_000) ** 0.5
    assert 1 - kept / 200_000 == pytest.approx(share, abs=4 * sigma)


def test_bursts_may_be_had_alone(tmp_path):
    """If bad times lose as little as good ones, no record is lost."""
    alone = {"kind": "loss", "burst_probability": 0}
    assert len(collected(tmp_path, effects(alone), many(20_000))) == 20_000


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
