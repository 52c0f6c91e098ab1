"""The regression suite: it passes with its own reference and fails with every planted defect."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import llmprism.methods.paper.timeline
from llmprism import methods
from llmprism.errors import UserError
from llmprism.methods.paper import StagedMethod
from llmprism.methods.paper.cutting import Cuts, cut_steps
from llmprism.methods.paper.groups import form_groups
from llmprism.methods.paper.parallelism import classify_pairs
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from prism_sim.studies import regression
from prism_sim.studies.cases import RunCase
from prism_sim.studies.pool import Outcome
from prism_sim.studies.regression import CaseResult, Move, Reference, compare, junit, read_suite

SUITE = """\
cases:
  - scenario: tiny/pair
    seeds: [1]
  - scenario: tiny/clean
    seeds: [1]
    set: {jobs.0.steps: 6, jobs.1.steps: 6}
  - scenario: telemetry/tcp-cluster  # refinement joins pairs that control messages had split
    seeds: [1]
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[RunCase]:
    path = tmp_path_factory.mktemp("suite") / "suite.yaml"
    path.write_text(SUITE)
    return read_suite(path)


@pytest.fixture(scope="module")
def reference(cases: list[RunCase]) -> Reference:
    found = regression.run_suite(cases, processes=1)
    return {name: outcome.result for name, outcome in found.items() if outcome.result}


@pytest.fixture(scope="module")
def simulated(cases: list[RunCase], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The simulation of each case, by its key: planted defects are in the diagnosis."""
    folders = {case.key: tmp_path_factory.mktemp("simulated") for case in cases}
    for case in cases:
        simulate(case.scenario, Run(folders[case.key]))
    return folders


def boundary_off_by_one_record(patch: pytest.MonkeyPatch) -> None:
    def late(*arguments: Any) -> Cuts:
        cuts = cut_steps(*arguments)
        by = arguments[2]
        step = np.append(0, cuts.step[:-1])  # every record in the step of the one before
        step[by.offsets[:-1][np.diff(by.offsets) > 0]] = 0
        return replace(cuts, step=step)

    patch.setattr(llmprism.methods.paper.timeline, "cut_steps", late)


def micro_for_nanoseconds(patch: pytest.MonkeyPatch) -> None:
    def method(flows: Any, *rest: Any) -> Any:
        short = flows.start_ns + flows.durations_ns // 1000
        return StagedMethod()(replace(flows, end_ns=short), *rest)

    patch.setitem(methods._methods, "paper", method)


def pipeline_stages_swapped(patch: pytest.MonkeyPatch) -> None:
    def groups(*arguments: Any) -> Any:
        found = form_groups(*arguments)
        position = np.where(found.position >= 0, found.position ^ 1, found.position)
        return replace(found, position=position)

    patch.setitem(methods._methods, "paper", StagedMethod(groups=groups))


def refinement_dropped(patch: pytest.MonkeyPatch) -> None:
    def pairs(*arguments: Any) -> Any:
        found = classify_pairs(*arguments)
        return replace(found, kind=found.kind_unrefined)

    patch.setitem(methods._methods, "paper", StagedMethod(pairs=pairs))


def clock_ahead(patch: pytest.MonkeyPatch) -> None:
    def method(flows: Any, *rest: Any) -> Any:
        ahead = {name: getattr(flows, name) + 50_000 for name in ("start_ns", "end_ns")}
        return StagedMethod()(replace(flows, **ahead), *rest)

    patch.setitem(methods._methods, "paper", method)


DEFECTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    boundary_off_by_one_record: "timeline.boundary_abs_error_ns_mean",
    micro_for_nanoseconds: "timeline.dp_time_error_mean",
    pipeline_stages_swapped: "parallelism.stage_order",
    refinement_dropped: "pairs.accuracy",
    clock_ahead: "timeline.boundary_bias_ns",
}
"""Each defect, and a figure that must tell of it."""


@pytest.mark.slow
def test_an_unchanged_suite_has_no_changed_figure(
    cases: list[RunCase], reference: Reference
) -> None:
    verdicts = compare(regression.run_suite(cases, processes=1), reference)
    assert [verdict.moves for verdict in verdicts] == [[], [], []]
    assert all(verdict.figures > 100 and not verdict.failed for verdict in verdicts)


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_turns_it_red(
    plant: Callable[[pytest.MonkeyPatch], None],
    cases: list[RunCase],
    reference: Reference,
    simulated: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def copy(scenario: Scenario, run: Run) -> None:
        (key,) = [case.key for case in cases if case.scenario == scenario]
        shutil.copytree(simulated[key], run.folder, dirs_exist_ok=True)

    monkeypatch.setattr("prism_sim.simulate.simulate", copy)
    methods.get("paper")
    plant(monkeypatch)
    verdicts = compare(regression.run_suite(cases, processes=1), reference)
    assert all(verdict.error is None for verdict in verdicts)
    lost = {move.figure for verdict in verdicts for move in verdict.lost}
    assert DEFECTS[plant] in lost


REFERENCE = {"case": {"pairs.accuracy": 0.9, "timeline.step_error_mean": 0.01, "jobs.true": 2}}


@pytest.mark.parametrize(
    ("figure", "now", "verdict"),
    [
        ("pairs.accuracy", 0.8, "lost"),
        ("pairs.accuracy", 0.95, "gained"),
        ("pairs.accuracy", 0.899, None),
        ("pairs.accuracy", None, "lost"),
        ("timeline.step_error_mean", 0.02, "lost"),
        ("timeline.step_error_mean", 0.005, "gained"),
        ("timeline.step_error_mean", 0.0101, None),
        ("jobs.true", 3, "moved"),
        ("jobs.true", 1, "moved"),
        ("pairs.total", 3, "new"),
    ],
)
def test_a_figure_moves_one_way_or_the_other(
    figure: str, now: float | None, verdict: str | None
) -> None:
    found = {"case": Outcome({**REFERENCE["case"], figure: now})}
    moves = compare(found, REFERENCE)[0].moves
    assert [(move.figure, move.verdict) for move in moves] == ([(figure, verdict)] * bool(verdict))


def test_a_move_that_is_neither_better_nor_worse_fails() -> None:
    """A change of the scenarios is noticed in both directions."""
    for now in (1, 3):
        verdict = compare({"case": Outcome({**REFERENCE["case"], "jobs.true": now})}, REFERENCE)[0]
        assert verdict.failed
    better = compare({"case": Outcome({**REFERENCE["case"], "pairs.accuracy": 1})}, REFERENCE)[0]
    assert not better.failed


@pytest.mark.parametrize("table", ["confusion", "confusion_unrefined"])
@pytest.mark.parametrize(
    ("cell", "was", "now", "verdict"),
    [
        ("dp.dp", 8, 9, "gained"),
        ("pp.pp", 8, 7, "lost"),
        ("pp.pp", 8, None, "lost"),
        ("dp.pp", 1, 2, "lost"),
        ("dp.pp", 1, None, "gained"),
        ("pp.missing", None, 1, "lost"),
        ("ep.dp", 0, None, None),
        ("pp.pp", None, 1, "gained"),
    ],
)
def test_correct_pairs_should_grow_and_wrong_ones_fall(
    table: str, cell: str, was: int | None, now: int | None, verdict: str | None
) -> None:
    """An absent entry counts as 0: no pair had this type."""
    figure = f"pairs.{table}.{cell}"
    before, after = ({} if n is None else {figure: n} for n in (was, now))
    moves = compare({"case": Outcome(after)}, {"case": before})[0].moves  # type: ignore[dict-item]
    assert [move.verdict for move in moves] == [verdict] * bool(verdict)


def test_a_bias_is_better_the_nearer_it_is_to_zero() -> None:
    was = {"case": {"timeline.boundary_bias_ns": -5e6}}
    for now, verdict in ((-8e6, "lost"), (8e6, "lost"), (1e6, "gained")):
        found: Any = {"case": Outcome({"timeline.boundary_bias_ns": now})}
        assert compare(found, was)[0].moves[0].verdict == verdict


def test_cases_that_one_side_does_not_have_fail() -> None:
    found: Any = {"new": Outcome({}), "broken": Outcome(error="no memory")}
    verdicts = {v.case: v for v in compare(found, {"broken": {}, "gone": {}})}
    assert {name: verdict.error for name, verdict in verdicts.items()} == {
        "new": "the reference does not have this case",
        "broken": "no memory",
        "gone": "the reference has this case, and the suite does not",
    }
    assert all(verdict.failed for verdict in verdicts.values())


def test_a_reference_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "reference.json"
    found: Any = {"case": Outcome(REFERENCE["case"] | {"faults.recall": None})}
    regression.write_reference(path, found)
    assert not compare(found, regression.read_reference(path))[0].moves


def test_a_failed_case_does_not_become_a_reference(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="case: no memory"):
        regression.write_reference(tmp_path / "r.json", {"case": Outcome(error="no memory")})
    assert not (tmp_path / "r.json").exists()


def test_junit_has_a_test_case_for_each_case() -> None:
    worse = CaseResult("b", 3, [Move("b", "jobs.true", 2, 1, "moved"), Move("b", "y", 1, 2, "lost"),
                            Move("b", "x", 1, 2, "gained")])  # fmt: skip
    top = ElementTree.fromstring(
        junit([CaseResult("a", 3), worse, CaseResult("c", error="no <memory>")], "suite").partition(
            "\n"
        )[2]
    )
    group = top[0]
    assert {key: group.attrib[key] for key in ("tests", "failures", "errors")} == {
        "tests": "3", "failures": "1", "errors": "1",
    }  # fmt: skip
    reported = [(case.attrib["name"], [child.tag for child in case]) for case in group]
    assert reported == [("a", []), ("b", ["failure"]), ("c", ["error"])]
    assert group[1][0].text == "jobs.true: 2 -> 1 (moved)\ny: 1 -> 2 (lost)"
    assert group[1][0].attrib["message"] == "1 lost, 1 moved against the reference"
    assert group[2][0].attrib["message"] == "no <memory>"


def test_a_suite_is_refused_with_every_error_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("cases:\n  - scenario: tiny/pair\n    seed: [1]\n    methods: []\n")
    with pytest.raises(UserError) as caught:
        read_suite(path)
    reported = {problem.where.rpartition("/")[2]: problem for problem in caught.value.problems}
    assert "did you mean seeds?" in reported["suite.yaml:3"].how
    assert "needs the key 'seeds'" in reported["suite.yaml:2"].what
    assert "at least 1 item" in reported["suite.yaml:4"].what


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        ("  - {scenario: tiny/pare, seeds: [1]}", 2, "no bundled scenario"),
        (
            "  - scenario: tiny/pair\n    seeds: [1]\n    set:\n      jobs.0.dp: 0",
            5,
            "jobs.0.dp is 0",
        ),
        ("  - {scenario: tiny/pair, seeds: [1, 1]}", None, "occurs twice"),
    ],
)
def test_a_wrong_change_of_a_scenario_is_refused_at_its_line_in_the_suite(
    tmp_path: Path, lines: str, line: int | None, what: str
) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(f"cases:\n{lines}\n")
    with pytest.raises(UserError) as caught:
        read_suite(path)
    problem = caught.value.problems[0]
    assert what in problem.what
    assert problem.where == (f"{path}:{line}" if line else str(path))


def test_an_unknown_method_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("cases:\n  - {scenario: tiny/pair, seeds: [1], methods: [guess]}\n")
    with pytest.raises(UserError, match="there is no method 'guess'"):
        read_suite(path)
