"""Forms of Chakra traces: with nodes that a converter removed, as one JSON object, and others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prism_common.errors import UserError
from prism_sim.importers.chakra import Chakra
from prism_sim.loading.loader import load_with_warnings
from traces import as_json, as_messages, coll, comp

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
REMOVED = CASES / "19-chakra-control-dependencies-outside" / "t"
GRAPH = CASES / "20-chakra-workload-graph-json" / "t"


def tasks(path: Path) -> list[tuple[str, int, tuple[int, ...]]]:
    graph = Chakra(file=path.name).read(path)
    (program,) = {
        tuple((one.kind, one.amount, one.after) for one in graph.program(r)) for r in (0, 1)
    }
    return list(program)


def test_control_dependencies_on_removed_nodes_are_met_and_counted() -> None:
    remarks: list[str] = []
    Chakra(file="t").read(REMOVED, remarks.append)
    assert tasks(REMOVED) == [
        ("compute", 318_000, ()), ("compute", 28_000, (0,)), ("collective", 1 << 20, (1,)),
    ]  # fmt: skip
    (remark,) = remarks
    assert remark.startswith("4 control dependencies")


def test_messages_have_the_same_rule(tmp_path: Path) -> None:
    nodes = [comp(7, 318), coll(8, "all_reduce", 1 << 20, 7)]
    for rank in (0, 1):
        (tmp_path / f"t.{rank}.et").write_bytes(as_messages(nodes, control={7: [3], 8: [7]}))
    remarks: list[str] = []
    graph = Chakra(file="t").read(tmp_path / "t", remarks.append)
    assert [one.after for one in graph.program(0)] == [(), (0,)]
    assert remarks == ["2 control dependencies on nodes that the trace does not have are met"]


def test_the_count_is_a_warning_of_the_scenario(tmp_path: Path) -> None:
    text = """
cluster: {servers: 2, gpus_per_server: 1, nics_per_server: 1, fabric: {kind: rail, leaf_ports: 8}}
jobs:
  - name: solo
    trace: {kind: chakra, file: %s}
"""
    (tmp_path / "s.yaml").write_text(text % REMOVED)
    loaded = load_with_warnings(tmp_path / "s.yaml")
    assert any("4 control dependencies" in one.what for one in loaded.warnings)
    (place,) = [one.where for one in loaded.warnings if "control" in one.what]
    assert place.endswith("s.yaml:5")


def test_a_missing_data_dependency_is_an_error(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"t.{rank}.json").write_text(as_json([comp(7, 318, 3)]))
    with pytest.raises(UserError, match="depends on node 3, which does not exist"):
        Chakra(file="t").read(tmp_path / "t")


def test_the_feeders_json_is_read_as_the_jsonizers(tmp_path: Path) -> None:
    nodes = [comp(1, 318, is_cpu_op=False), coll(2, "all_reduce", 1 << 20, 1)]
    for rank in (0, 1):
        (tmp_path / f"t.{rank}.json").write_text(as_json(nodes))
    assert tasks(GRAPH) == tasks(tmp_path / "t")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"schema": "1.0.2-chakra.0.0.4", "pid": 7, "nodes": [{"id": 2, "ctrl_deps": 1}]},
         "this is a PyTorch execution trace"),
        ({"schemaVersion": 1, "traceEvents": [{"ph": "X"}]}, "this is a Kineto trace"),
        ([{"ph": "X", "name": "aten::add"}], "this is a Kineto trace"),
    ],
)  # fmt: skip
def test_traces_of_pytorch_are_named_with_their_converter(
    content: object, what: str, tmp_path: Path
) -> None:
    (tmp_path / "t.0.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=what) as caught:
        Chakra(file="t").read(tmp_path / "t")
    assert "chakra_converter PyTorch" in str(caught.value)


@pytest.mark.parametrize("content", [[], {}, {"workload_graph": 3}, {"workload_graph": [1, {}]}])
def test_json_without_nodes_is_refused(content: object, tmp_path: Path) -> None:
    (tmp_path / "t.0.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"no nodes|not a Chakra node"):
        Chakra(file="t").read(tmp_path / "t")
