"""The black box: the diagnosis depends on flows and topology, and not on names.

A run is diagnosed. Then its truth is deleted, every address, server and switch gets another name,
and the records are shuffled. The diagnosis must be the same, with the new names.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.io.tables import DIAGNOSIS
from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, simulate
from tiny import TINY_MODEL

pytestmark = pytest.mark.slow  # a world, diagnosed eight times

METHODS = ("paper", "prism")
FINDING = ("paper",)  # methods that report the slow GPU of so short a run

# One GPU a server: no two ranks do exactly the same, so no finding could as well name a twin.
SCENARIO = {
    "cluster": {
        "servers": 12,
        "gpus_per_server": 1,
        "nics_per_server": 1,
        "fabric": {"kind": "tor", "leaf_ports": 3, "spines": 2},
    },
    "jobs": [
        {"name": "a", "model": TINY_MODEL, "dp": 4, "pp": 2, "micro_batches": 8,
         "bucket_params": 20_000_000, "steps": 14, "compute_jitter": 0.02},
        {"name": "b", "model": TINY_MODEL, "dp": 4, "pp": 1, "micro_batches": 4,
         "bucket_params": 30_000_000, "steps": 14, "compute_jitter": 0.02},
    ],
    "faults": [
        {"kind": "slow_gpu", "job": "a", "rank": 3, "factor": 0.3, "from_step": 12, "to_step": 13}
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("blackbox") / "run")
    simulate(Scenario.model_validate(SCENARIO), run)
    return run


def relabelled(run: Run, folder: Path, seed: int) -> dict[str, str]:
    """Write the run's flows and topology under other names; returns new name -> old name."""
    rng = np.random.default_rng(seed)
    topology = json.loads(run.topology.read_text())
    new: dict[str, str] = {}
    for prefix, names in (
        ("192.168.0.", [e["address"] for e in topology["endpoints"]]),
        ("host-", sorted({e["server"] for e in topology["endpoints"]})),
        ("sw", [s["name"] for s in topology["switches"]]),
    ):
        for number, name in zip(rng.permutation(len(names)), names, strict=True):
            new[name] = f"{prefix}{number}"
    for endpoint in topology["endpoints"]:
        for key in ("address", "server", "switch"):
            endpoint[key] = new[endpoint[key]]
    for switch in topology["switches"]:
        switch["name"] = new[switch["name"]]
    for link in topology["links"]:
        link["a"], link["b"] = new[link["a"]], new[link["b"]]
    for part in ("endpoints", "switches", "links"):
        rng.shuffle(topology[part])
    flows = pq.read_table(run.flows)
    metadata = flows.schema.metadata
    frame = flows.to_pandas().sample(frac=1, random_state=seed)
    for column in ("src", "dst"):
        frame[column] = frame[column].astype(str).map(new)
    frame["path"] = ["|".join(new[hop] for hop in path.split("|")) for path in frame["path"]]
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(metadata)
    pq.write_table(table, folder / "flows.parquet")
    (folder / "topology.json").write_text(json.dumps(topology))
    return {fresh: old for old, fresh in new.items()}


def canonical(folder: Path, old: dict[str, str], method: str) -> dict[str, pd.DataFrame]:
    """All tables of a diagnosis under the old names, rows in a fixed order."""
    diagnosis = diagnose(folder / "flows.parquet", folder / "topology.json", method=method)
    tables = {}
    for name in DIAGNOSIS:
        frame = getattr(diagnosis, name).copy()
        for column in {"address", "server", "src", "dst", "culprit"} & set(frame.columns):
            frame[column] = [translated(str(value), old) for value in frame[column]]
        frame = frame.drop(columns=[c for c in ("evidence",) if c in frame])
        tables[name] = frame.sort_values(list(frame.columns), ignore_index=True)
    return tables


def translated(name: str, old: dict[str, str]) -> str:
    """``name`` with every word that is a fresh name replaced by the old one."""
    for separator in ("|", ",", " "):
        if separator in name:
            return separator.join(sorted(translated(part, old) for part in name.split(separator)))
    return old.get(name, name)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_names_order_and_truth_do_not_matter(run, tmp_path, method, seed):
    expected = canonical(run.folder, {}, method)
    assert len(expected["steps"]) > 0
    assert len(expected["findings"]) > 0 or method not in FINDING
    folder = tmp_path / "stripped"
    folder.mkdir()
    old = relabelled(run, folder, seed)
    found = canonical(folder, old, method)
    for name, frame in expected.items():
        pd.testing.assert_frame_equal(found[name], frame, obj=name)


@pytest.mark.parametrize("method", METHODS)
def test_a_deleted_truth_is_not_missed(run, tmp_path, method):
    folder = tmp_path / "copy"
    shutil.copytree(run.folder, folder)
    shutil.rmtree(folder / "truth")
    (folder / "manifest.json").unlink()
    with_truth, without = (canonical(one, {}, method) for one in (run.folder, folder))
    for name, frame in with_truth.items():
        pd.testing.assert_frame_equal(without[name], frame, obj=name)
