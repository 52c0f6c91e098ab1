"""A scenario names a trace; the result is a scenario or a list of mistakes."""

from __future__ import annotations

import pytest

from prism_common.errors import UserError
from prism_sim.toolkit import Scenario, load_scenario
from traces import comp, write_chakra

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
