"""The whole pipeline: its files, its independence of names and order, and other methods."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from llmprism import Diagnosis, methods
from llmprism.io.tables import DIAGNOSIS
from llmprism.methods.paper import StagedMethod, paper
from llmprism.methods.paper.parallelism import classify_pairs
from llmprism.model import DP, Pairs
from llmprism.pipeline import diagnose
from small_jobs import join_worlds, make_world, read_rows, read_world, simple_topology


@pytest.fixture
def busy_world() -> Any:
    """Two jobs, one of them slow for a while."""
    first = make_world(name="a", pp=2, dp=3, tp=2, steps=16, jitter=0.02, slow={(1, 9): 2.5})
    later = 1_700_000_000_333_000_000
    return join_worlds(first, make_world(name="b", pp=1, dp=5, steps=20, start_ns=later, seed=4))


def test_every_table_is_written_as_contracted(busy_world: Any, tmp_path: Path) -> None:
    diagnosis = diagnose(*busy_world.save(tmp_path / "in"), method="paper")
    diagnosis.write(tmp_path / "out")
    for name, schema in DIAGNOSIS.items():
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert table.select(schema.names).schema.equals(schema)
        assert table.num_rows == len(getattr(diagnosis, name)) > 0
    intake = json.loads((tmp_path / "out" / "intake.json").read_text())
    assert intake["rows"] == intake["kept"] == len(busy_world.flows)
    assert intake["method"] == "paper"
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"intake.json", *(f"{name}.parquet" for name in DIAGNOSIS)}


def test_progress_goes_from_nothing_to_all(busy_world: Any, tmp_path: Path) -> None:
    reported: list[float] = []
    flows, topology = busy_world.save(tmp_path)
    diagnose(flows, topology, progress=lambda fraction, _: reported.append(fraction))
    assert reported == sorted(reported)
    assert (reported[0], reported[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("method", ["paper", "prism"])
def test_the_summary_fits_into_json(method: str, busy_world: Any, tmp_path: Path) -> None:
    summary = diagnose(*busy_world.save(tmp_path), method=method).summary()
    again = json.loads(json.dumps(summary, allow_nan=False))
    assert [job["addresses"] for job in again["jobs"]] == [12, 5]
    assert again["jobs"][0]["steps"] == 16
    assert again["jobs"][0]["groups"] == {"dp": 4, "pp": 6}
    if method == "paper":
        assert again["findings"][0]["level"] == "step"


def relabelled(world: Any, names: dict[str, str], seed: int) -> Any:
    """Rename every address and server, and shuffle the records."""
    order = np.random.default_rng(seed).permutation(len(world.flows))
    flows = world.flows.iloc[order].reset_index(drop=True)
    flows = flows.assign(src=flows["src"].map(names), dst=flows["dst"].map(names))
    ends = world.topology["endpoints"]
    servers = sorted({end["server"] for end in ends}, key=lambda name: name[::-1])
    topology = {
        "endpoints": [
            end | {"address": names[end["address"]], "server": f"h{servers.index(end['server'])}"}
            for end in ends
        ],
        "switches": world.topology["switches"],
        "links": [
            link | {"a": names.get(link["a"], link["a"])} for link in world.topology["links"]
        ],
    }
    return replace(world, flows=flows, topology=topology)


def comparable(diagnosis: Diagnosis, names: dict[str, str]) -> dict[str, Any]:
    """All tables with names mapped and rows in an order that does not depend on names."""

    def back(value: Any) -> Any:
        return names.get(value, value)

    tables: dict[str, Any] = {}
    for name in DIAGNOSIS:
        table = getattr(diagnosis, name).copy()
        for column in ("address", "src", "dst", "culprit"):
            if column in table:
                table[column] = table[column].astype("str").map(back)
        if name == "findings":
            table["evidence"] = (
                table["evidence"]
                .map(json.loads)
                .map(
                    lambda one: {
                        key: sorted(map(back, value)) if key == "addresses" else value
                        for key, value in one.items()
                    }
                )
            )
        else:
            table = table.sort_values(list(table.columns)).reset_index(drop=True)
        tables[name] = table
    return tables


def new_names(world: Any, seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Random new addresses, and the map back to the old ones."""
    addresses = world.ranks["address"].tolist()
    numbers = np.random.default_rng(seed).permutation(len(addresses)).tolist()
    names = {old: f"10.0.0.{number}" for old, number in zip(addresses, numbers, strict=True)}
    return names, {new: old for old, new in names.items()}


@pytest.mark.parametrize("seed", range(4))
def test_names_and_order_of_records_play_no_part(
    seed: int, busy_world: Any, tmp_path: Path
) -> None:
    names, back = new_names(busy_world, seed)
    plain = diagnose(*busy_world.save(tmp_path / "plain"), method="paper")
    renamed = relabelled(busy_world, names, seed).save(tmp_path / "other")
    other = diagnose(*renamed, method="paper")
    expected, got = comparable(plain, {}), comparable(other, back)
    assert len(expected["findings"]) > 0
    for name in DIAGNOSIS:
        if name == "jobs":  # servers have other names as well; who shares one stays the same
            for table in (got[name], expected[name]):
                table["server"] = pd.factorize(table["server"])[0]
        pd.testing.assert_frame_equal(got[name], expected[name])


def test_the_order_of_endpoints_only_settles_ties(busy_world: Any, tmp_path: Path) -> None:
    """Group numbers and the rank a job's finding names may change among equals; no more."""
    ends = busy_world.topology["endpoints"]
    order = np.random.default_rng(3).permutation(len(ends))
    turned = busy_world.topology | {"endpoints": [ends[i] for i in order]}
    plain = diagnose(*busy_world.save(tmp_path / "plain"), method="paper")
    moved = replace(busy_world, topology=turned).save(tmp_path / "other")
    other = diagnose(*moved, method="paper")
    expected, got = comparable(plain, {}), comparable(other, {})
    for name in ("jobs", "pairs", "steps", "spans"):
        pd.testing.assert_frame_equal(got[name], expected[name])
    for column in ("level", "job", "first_step", "last_step", "start_ns", "cost"):
        assert got["findings"][column].tolist() == expected["findings"][column].tolist()


def test_no_flows_give_empty_tables(busy_world: Any, tmp_path: Path) -> None:
    empty = replace(busy_world, flows=busy_world.flows.iloc[:0])
    diagnosis = diagnose(*empty.save(tmp_path))
    assert all(getattr(diagnosis, name).empty for name in DIAGNOSIS)
    diagnosis.write(tmp_path / "out")
    assert diagnosis.summary()["jobs"] == []


@pytest.mark.parametrize(
    "rows",
    [
        [(5, 9, "a", "b", 10)],
        [(5, 5, "a", "b", 0)],
        [(5, 5, "a", "b", 10)] * 7,
        [(5 + i, 5 + i, "a", "b", i % 3) for i in range(50)],
        [(i * 100, i * 100 + 9000, "a", "b", i % 3) for i in range(50)],  # all overlap
    ],
)
@pytest.mark.parametrize("method", ["paper", "prism"])
def test_odd_little_tables_do_not_crash(method: str, rows: list[Any]) -> None:
    diagnosis = diagnose(*read_rows(rows, simple_topology(["a", "b"])), method=method)
    if method == "paper":  # whatever communicates is a job; prism wants traffic that circulates
        assert len(diagnosis.jobs) == len({name for row in rows for name in row[2:4]})
    assert (diagnosis.steps["end_ns"] >= diagnosis.steps["start_ns"]).all()
    assert (diagnosis.spans["end_ns"] > diagnosis.spans["start_ns"]).all()


def test_a_third_partys_method_can_be_registered(
    busy_world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "_methods", dict(methods._methods))

    @methods.register("one-job")
    def one_job(flows: Any, _topology: Any, progress: Any) -> dict[str, pd.DataFrame]:
        progress(0.5, "guessing")
        jobs = pd.DataFrame({"address": flows.addresses, "job": "all", "mood": "good"})
        return {"jobs": jobs}

    assert "one-job" in methods.names()
    diagnosis = diagnose(*busy_world.save(tmp_path), method="one-job")
    assert diagnosis.jobs.columns.tolist() == ["job", "address", "mood", "server"]
    assert len(diagnosis.jobs) == len(busy_world.ranks)
    assert diagnosis.steps.empty
    diagnosis.write(tmp_path / "out")
    written = pq.read_table(tmp_path / "out" / "jobs.parquet")
    assert written.column_names == ["job", "address", "mood", "server"]


def test_a_stage_can_be_swapped(busy_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_dp(flows: Any, jobs: Any) -> Pairs:
        pairs = classify_pairs(flows, jobs)
        return replace(pairs, kind=np.full_like(pairs.kind, DP))

    monkeypatch.setattr(methods, "_methods", dict(methods._methods))
    methods.register("all-dp")(replace(paper, pairs=all_dp))
    assert paper == StagedMethod()
    diagnosis = diagnose(*read_world(busy_world), method="all-dp")
    assert set(diagnosis.pairs["kind"]) == {"dp"}
    assert set(diagnosis.groups["kind"]) == {"dp"}
