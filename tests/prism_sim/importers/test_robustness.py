"""Damaged traces, and how trace files are found and read."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest
from hypothesis import given, settings

from evaluation.attacks.targets import damaged, edits
from prism_common.errors import UserError
from prism_sim.importers import KINDS
from prism_sim.scenario.graph import Graph
from prism_sim.scenario.timings import Timings
from prism_sim.toolkit import Scenario, load_scenario
from traces import as_json, as_messages, coll, comp, node, recv, send, simai, write_chakra

NODES = [
    node(0, "METADATA", name="ProfilerStep#3"), comp(1, 5, 0, is_cpu_op=False),
    send(2, 64, 1, 1, comm_tag=2), recv(3, 64, 1, 0, comm_tag=4),
    coll(4, "all_reduce", 128, 1, 3, pg_name="g", involved_dim=[True, True]),
]  # fmt: skip
OTHER = [
    comp(0, 5), send(1, 64, 0, 0, comm_tag=4), recv(2, 64, 0, comm_tag=2),
    coll(3, "all_reduce", 128, 1, 2, pg_name="g"),
]  # fmt: skip
TABLE = pd.DataFrame(
    [
        {"dp_rank": 0, "stage": 0, "step": 1, "optype": op, "duration": 0.5, "mc": 0, "mb_id": 0}
        for op in ("optimizer", "optimizer-clip-main-grad", "forward-compute", "backward-compute")
    ]
)
LAYERS = simai(
    "a 5 ALLREDUCE 64 6 NONE 0 7 ALLGATHER_DP_EP 64 100", "b 1 NONE 0 1 NONE 0 1 NONE 0 0"
)
GIVEN = {"chakra": {"file": "t", "groups": {"g": [0, 1]}}}
FILES = {
    "et": ("chakra", "t.0.et", as_messages(NODES)),
    "json": ("chakra", "t.0.json", as_json(NODES, None).encode()),
    "gzip": ("chakra", "t.0.et.gz", gzip.compress(as_messages(NODES), mtime=0)),
    "simai": ("simai", "t", LAYERS.encode()),
    "csv": ("timeline", "t", TABLE.to_csv(index=False).encode()),
}


def outcome(folder, form, content):
    """The result for ``content`` in place of a good file: a trace, or a UserError."""
    kind, name, _ = FILES[form]
    (folder / name).write_bytes(content)
    if kind == "chakra" and not (folder / "t.1.json").exists():
        (folder / "t.1.json").write_text(as_json(OTHER))
    trace = KINDS[kind].model_validate({"kind": kind, "file": "t", **GIVEN.get(kind, {})})
    try:
        return trace.read(folder / "t")
    except UserError as refusal:
        return refusal


@pytest.mark.parametrize("form", FILES)
def test_the_files_are_good_to_begin_with(tmp_path, form):
    assert isinstance(outcome(tmp_path, form, FILES[form][2]), Graph | Timings)


@pytest.mark.parametrize("form", FILES)
def test_a_file_cut_at_any_byte_is_refused_or_read(tmp_path, form):
    """Only references show how much a file should hold, so a cut may go unnoticed."""
    good = FILES[form][2]
    cuts = range(0, len(good), 5 if form == "json" else 1)
    refused = sum(isinstance(outcome(tmp_path, form, good[:n]), UserError) for n in cuts)
    assert refused >= 0.9 * len(cuts)


@pytest.mark.parametrize("form", FILES)
@settings(max_examples=80)
@given(drawn=edits())
def test_a_damaged_file_is_refused_or_read(tmp_path, form, drawn):
    made = outcome(tmp_path, form, damaged(FILES[form][2], drawn))
    for problem in made.problems if isinstance(made, UserError) else ():
        assert problem.what
        assert problem.where


RESOLVED = "trace: {kind: chakra, file: t, graph: {%s}}"
WORLD = "cluster: {servers: 4}\njobs: [{name: a, %s}]\n"


@pytest.mark.parametrize(
    "words",
    [
        "trace: 3",
        "trace: []",
        "trace: chakra",
        "trace: {}",
        "trace: {kind: [1]}",
        "trace: {kind: chakra}",
        "trace: {kind: chakra, file: [t]}",
        "trace: {kind: chakra, file: ''}",
        'trace: {kind: chakra, file: "a\\0b"}',
        'trace: {kind: simai, file: "a\\0b"}',
        "trace: {kind: simai, file: .}",
        "trace: {kind: timeline, file: /nowhere/at/all}, model: llama-7b",
        "trace: {kind: chakra, file: t, graph: 3}",
        "trace: {kind: chakra, file: t, graph: {programs: [[x]]}}",
        "trace: {kind: chakra, file: t, groups: {g: [a]}}",
        RESOLVED % "families: {}, programs: [[nap 5 step 0]], ranks: [0], steps: 1",
        RESOLVED % "families: {}, programs: [[compute x]], ranks: [0], steps: 1",
        RESOLVED % "families: {}, programs: [[compute 5 step 0]], ranks: [0, 7], steps: 1",
        RESOLVED % "families: {}, programs: [[compute 5 step 1]], ranks: [0], steps: 1",
        RESOLVED % "families: {}, programs: [['compute 5 after 0 step 0']], ranks: [0], steps: 1",
        RESOLVED % "families: {}, programs: [[send 5 9 0 step 0]], ranks: [0], steps: 1",
        RESOLVED % "families: {}, programs: [[recv 5 1 0 step 0]], ranks: [0, 0], steps: 1",
        RESOLVED
        % "families: {}, programs: [[collective all_reduce 5 g step 0]], ranks: [0], steps: 1",
        "trace: {kind: chakra, file: t}, model: llama-7b, micro_batches: 2, steps: 2",
        "trace: {kind: timeline, file: t, timings: {passes_ns: [], optimizer_ns: []}}",
        "trace: {kind: timeline, file: t, timings: {passes_ns: [[[['5', '6 7']]]], "
        "optimizer_ns: [['5']]}}, model: llama-7b",
    ],
)
def test_nonsense_is_refused(tmp_path, words):
    write_chakra(tmp_path, [[comp(0, 5)]], "t")
    path = tmp_path / "world.yaml"
    path.write_text(WORLD % words)
    with pytest.raises(UserError) as caught:
        load_scenario(path)
    assert all(problem.what and problem.where for problem in caught.value.problems)


def test_the_path_of_a_trace_is_relative_to_its_scenario(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    write_chakra(folder, [[comp(0, 5)], [comp(0, 5)]], "t")
    (folder / "world.yaml").write_text(WORLD % "trace: {kind: chakra, file: t}")
    monkeypatch.chdir(tmp_path)
    assert load_scenario("mine/world.yaml").jobs[0].ranks == 2


def test_a_trace_that_was_not_read_is_reported():
    trace = {"kind": "simai", "file": "w.txt"}
    scenario = Scenario.model_validate(
        {"cluster": {"servers": 1}, "jobs": [{"name": "a", "trace": trace}]}
    )
    with pytest.raises(UserError, match="the trace of job a was not read"):
        _ = scenario.jobs[0].graph


def test_mistakes_in_two_traces_are_reported_together(tmp_path):
    path = tmp_path / "world.yaml"
    path.write_text(
        "cluster: {servers: 4}\njobs:\n"
        "  - {name: a, trace: {kind: simai, file: gone.txt}}\n"
        "  - {name: b, model: llama-7b, trace: {kind: timeline, file: gone.csv}, mfu: 7}\n"
    )
    with pytest.raises(UserError) as caught:
        load_scenario(path)
    reported = [(p.where.removeprefix(f"{path}:"), p.what) for p in caught.value.problems]
    assert [line for line, _ in reported] == ["3", "4", "4"]
    assert sum("there is no such trace" in what for _, what in reported) == 2
    assert any("mfu is 7" in what for _, what in reported)
