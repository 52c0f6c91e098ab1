"""The regression suite: headlines pass or fail, and a drift of the simulator is distinguished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from prism_common.errors import UserError
from prism_sim.studies.pool import Outcome
from prism_sim.studies.regression.comparing import Comparison, Move, as_data, compare
from prism_sim.studies.regression.documents import junit, markdown
from prism_sim.studies.regression.headlines import GATES, headlines
from prism_sim.studies.regression.reference import (
    NONE,
    Reference,
    read_former,
    read_reference,
    reference_of,
    refuse_stale,
    write_reference,
)
from prism_sim.studies.regression.running import CaseRun, Simulation
from prism_sim.studies.regression.suite import Case, read_suite

SUITE = """\
cases:
  - {scenario: tiny/pair, seeds: [1, 2], group: small, methods: [paper]}
  - {scenario: tiny/clean, seeds: [1], group: large, methods: [paper]}
"""
WORLD = Simulation("digest", "amounts", (1e9, 2e6, 1e9, 3e6))
RIGHT = {"jobs.accuracy": 1.0, "timeline.step_error_all_mean": 0.01, "pairs.total": 20}


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return read_suite(path)


def runs(cases: list[Case], **changed: Any) -> dict[str, CaseRun]:
    """Every case with the same figures; ``changed`` are figures of the first, dots as ``__``."""
    figures = [{**RIGHT} for _ in cases]
    figures[0] |= {name.replace("__", "."): value for name, value in changed.items()}
    each = zip(cases, figures, strict=True)
    return {case.name: CaseRun(WORLD, {"paper": own}, 1.5) for case, own in each}


def reference(cases: list[Case]) -> Reference:
    found = runs(cases)
    return reference_of(cases, headlines(cases, found), found)


def compared(cases: list[Case], found: dict[str, CaseRun]) -> Comparison:
    return compare(cases, {name: Outcome(one) for name, one in found.items()}, reference(cases))


def test_a_headline_is_the_mean_of_its_group(cases):
    found = {one.key: one.value for one in headlines(cases, runs(cases, jobs__accuracy=0.0))}
    assert found["paper", "small", "jobs exact"] == 0.5
    assert found["paper", "large", "jobs exact"] == 1.0


@pytest.mark.parametrize(
    ("figure", "now", "verdict"),
    [
        ("jobs.accuracy", 1.0, "same"),
        ("jobs.accuracy", 0.5, "lost"),
        ("jobs.accuracy", None, "same"),  # the other case of the group still has it
        ("timeline.step_error_all_mean", 0.0101, "same"),  # a tenth of the tolerance, halved
        ("timeline.step_error_all_mean", 0.02, "lost"),
        ("timeline.step_error_all_mean", 0.0, "gained"),
        ("faults.localized_top1", 1.0, "new"),
    ],
)
def test_a_headline_moves_one_way_or_the_other(cases, figure, now, verdict):
    found = compared(cases, runs(cases, **{figure.replace(".", "__"): now}))
    assert {move.verdict for move in found.moves} - {"same"} == {verdict} - {"same"}
    assert found.failed == (verdict == "lost")
    assert all((move.group, move.by) == ("small", "method") for move in found.moved)


def test_a_headline_that_has_no_value_any_more_is_lost(cases):
    found = runs(cases)
    figures = {"paper": {"pairs.total": 20}}
    found = {name: replace(one, figures=figures) for name, one in found.items()}
    lost = {(one.group, one.name) for one in compared(cases, found).moved if one.failed}
    assert lost == {(g, n) for g in ("small", "large") for n in ("jobs exact", "step error")}


def test_raw_figures_are_shown_and_pass(cases):
    found = compared(cases, runs(cases, pairs__total=19))
    (raw,) = found.raw
    assert (raw.figure, raw.was, raw.now) == ("pairs.total", 20, 19)
    assert not found.failed
    assert "raw" not in as_data(found, raw=False)
    assert as_data(found, raw=True)["raw"][0]["case"] == cases[0].name


@pytest.mark.parametrize(
    ("figure", "was", "now", "verdict"),
    [
        ("pairs.confusion.dp.dp", 8, 9, "gained"),
        ("pairs.confusion.pp.pp", 8, None, "lost"),  # absent: no pair has this type
        ("pairs.confusion.dp.pp", 1, 2, "lost"),
        ("pairs.confusion_unrefined.dp.pp", 1, None, "gained"),
        ("pairs.confusion.ep.dp", 0, None, None),
        ("timeline.boundary_bias_ns", -5e6, 8e6, "lost"),
        ("timeline.boundary_bias_ns", -5e6, 1e6, "gained"),
        ("pairs.total", 2, 3, "moved"),
        ("pairs.accuracy", 0.9, 0.899, None),
        ("pairs.accuracy", 0.9, None, "lost"),
    ],
)
def test_a_raw_figure_moves_by_the_rules_of_the_catalogue(cases, figure, was, now, verdict):
    held = reference(cases)
    held.raw[cases[0].name]["paper"][figure] = was
    found = runs(cases)
    found[cases[0].name].figures["paper"][figure] = now
    result = compare(cases, {name: Outcome(one) for name, one in found.items()}, held)
    assert [one.verdict for one in result.raw if one.figure == figure] == [verdict] * bool(verdict)


@pytest.mark.parametrize(
    ("changed", "drifts"),
    [
        ({"digest": "other"}, False),  # the last digits, on another machine
        ({"digest": "other", "times_ns": (1e9 + 900, 2e6, 1e9, 3e6)}, False),
        ({"digest": "other", "times_ns": (1e9 + 50_000, 2e6, 1e9, 3e6)}, True),
        ({"digest": "other", "amounts": "other"}, True),
    ],
)
def test_a_drift_of_the_simulator_fails_and_is_the_reason_of_what_moved(cases, changed, drifts):
    found = runs(cases, jobs__accuracy=0.0)
    first = found[cases[0].name]
    found[cases[0].name] = replace(first, simulation=replace(WORLD, **changed))
    result = compared(cases, found)
    assert result.drifted == [cases[0].name] * drifts
    (moved,) = result.moved
    assert moved.by == ("simulator" if drifts else "method")
    assert ("the simulator has changed" in markdown(result, "")) == drifts


def test_a_rule_that_changed_fails(cases):
    held = reference(cases)
    turned = [replace(one, better="lower") if one.name == "jobs exact" else one
              for one in held.headlines]  # fmt: skip
    outcomes = {name: Outcome(one) for name, one in runs(cases).items()}
    found = compare(cases, outcomes, replace(held, headlines=turned))
    assert {move.verdict for move in found.moved} == {"redefined"}
    assert found.failed


def test_a_case_without_a_result_fails(cases):
    outcomes: dict[str, Outcome[CaseRun]] = {name: Outcome(r) for name, r in runs(cases).items()}
    outcomes[cases[2].name] = Outcome(error="no memory")
    found = compare(cases, outcomes, reference(cases))
    assert found.errors == {cases[2].name: "no memory"}
    assert found.failed


def test_a_reference_is_the_same_after_writing_and_reading(cases, tmp_path):
    path, held = tmp_path / "held.json", reference(cases)
    write_reference(path, held)
    assert read_reference(path) == held
    refuse_stale(held, cases, path)
    assert held.made_by.keys() == {"prism_sim", "scenarios"}


def test_a_reference_of_other_scenarios_is_refused_with_every_difference(cases, tmp_path):
    changed = cases[0].scenario.model_copy(update={"seed": 9})
    others = [replace(cases[0], scenario=changed), cases[1], replace(cases[2], name="third")]
    with pytest.raises(UserError) as caught:
        refuse_stale(reference(cases), others, tmp_path / "held.json")
    found = [problem.what for problem in caught.value.problems]
    assert found == [
        f"the scenario of the case {cases[0].name!r} has changed since the reference was made",
        "the reference does not have the case 'third'",
        f"the suite does not have the case {cases[2].name!r} of the reference",
    ]
    assert {problem.how for problem in caught.value.problems} == {"make it again with --update"}


def test_a_reference_of_another_version_is_refused_and_may_be_replaced(tmp_path):
    path = tmp_path / "held.json"
    path.write_text('{"cases": {}}')
    with pytest.raises(UserError, match="another version"):
        read_reference(path)
    assert read_former(path) == NONE


def test_junit_has_a_test_case_for_each_simulation_and_headline():
    moves = [Move("m", "g", "a", 1.0, 1.0, "same"), Move("m", "g", "b", 1.0, 0.5, "lost"),
             Move("m", "g", "c", 1.0, 2.0, "gained")]  # fmt: skip
    took_s = {"one": 1.25, "two": 2.0}
    found = Comparison(moves, ["two"], {"three": "no <memory>"}, took_s=took_s)
    simulations, held = ElementTree.fromstring(junit(found, "suite").partition("\n")[2])
    assert simulations.attrib == {
        "name": "suite: simulations", "tests": "3", "time": "3.250", "failures": "1", "errors": "1",
    }  # fmt: skip
    assert [(case.attrib["time"], [part.tag for part in case]) for case in simulations] == [
        ("1.250", []), ("2.000", ["failure"]), ("0.000", ["error"]),
    ]  # fmt: skip
    assert [[part.attrib["message"] for part in case] for case in held] == [
        [], ["1 -> 0.5: lost"], [],
    ]  # fmt: skip


def test_markdown_lists_what_moved_the_losses_first():
    moves = [Move("m", "g", "a", 1.0, 1.0, "same"), Move("m", "g", "b", None, 0.5, "new"),
             Move("m", "g", "c", 1.0, 0.25, "lost", "simulator")]  # fmt: skip
    rows = [line for line in markdown(Comparison(moves), "title").splitlines() if line[:1] == "|"]
    assert rows[2:] == [
        "| m | g | c | 1 | 0.25 | lost (simulator) |",
        "| m | g | b | - | 0.5 | new |",
    ]


def test_every_gate_has_a_direction_and_a_reason(cases):
    assert all(gate.reason and gate.tolerance >= 0 for gate in GATES)
    found = headlines(cases, runs(cases, **{gate.figure.replace(".", "__"): 1.0 for gate in GATES}))
    assert {one.name for one in found} == {gate.name for gate in GATES}
    assert {one.better for one in found} == {"higher", "lower"}


def test_a_suite_is_refused_with_every_error_at_its_line(tmp_path):
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
    tmp_path, lines, line, what
):
    path = tmp_path / "suite.yaml"
    path.write_text(f"cases:\n{lines}\n")
    with pytest.raises(UserError) as caught:
        read_suite(path)
    problem = caught.value.problems[0]
    assert what in problem.what
    assert problem.where == (f"{path}:{line}" if line else str(path))


def test_an_unknown_method_is_refused(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("cases:\n  - {scenario: tiny/pair, seeds: [1], methods: [guess]}\n")
    with pytest.raises(UserError, match="there is no method 'guess'"):
        read_suite(path)
