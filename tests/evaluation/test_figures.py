"""Figures of the exam, each on a case that can be counted by hand."""

from __future__ import annotations

import json

import pytest

from evaluation.exam import answers, figures, log, page, truth
from evaluation.exam.intervals import mean_of, rate, share
from evaluation.paths import REFERENCE

EMPTY = [[0.0] * 4 for _ in range(len(answers.BINS) - 1)]
FAULT = {"kind": "slow_gpu", "stops": False, "slowdown": 0.1, "due": True, "window_steps": 3,
         "from_first": False, "peers": True, "shown": True, "culprit_seen": True,
         "computing": True, "workers": 1}  # fmt: skip
FOUND = {"steps_right": True, "detected": True, "first": True, "cause": True, "delay": 2,
         "in_set": True, "server": True, "near": True, "set_size": 1, "one_of_causes": True,
         "cost_right": True}  # fmt: skip
MISSED = {"steps_right": True, "detected": False, "first": False, "cause": False, "delay": None,
          "in_set": False, "server": False, "near": False, "set_size": None, "one_of_causes": False,
          "cost_right": None}  # fmt: skip
NAMED = ("first", "in_set", "server", "near")
RIGHT = dict.fromkeys(NAMED, True) | {"confidence": 0.95, "counts": True}
WRONG = RIGHT | dict.fromkeys(NAMED, False)


def world(*faults, findings=(), of="exam", telemetry=("exact",), job_steps=100, **changes):
    """The result of one world with pairs of a fault and what was found of it."""
    grade = {
        "refused": None,
        "cpu_s": 1.0,
        "structure": dict.fromkeys(figures.STRUCTURE, 1.0),
        "findings": [*findings],
        "faults": [found for _, found in faults],
        "answers": dict.fromkeys(("pairs", "findings"), EMPTY),
    }
    return {
        "family": "grids",
        "set": of,
        "seed": 1,
        "jobs": 1,
        "job_steps": job_steps,
        "telemetry": [*telemetry],
        "faults": [fault for fault, _ in faults],
        "methods": {"prism": grade | changes},
    }


def findings(*worlds):
    return figures.findings(worlds, "prism")


def test_recall_counts_faults_that_are_due():
    found = findings(
        world((FAULT, FOUND), (FAULT | {"due": False}, MISSED)),
        world((FAULT, FOUND | {"steps_right": False})),
        world((FAULT, MISSED), (FAULT | {"stops": True, "slowdown": None}, FOUND)),
    )
    assert (found["recall"]["value"], found["recall"]["of"]) == (0.75, 4)
    assert found["steps of the job right"]["value"] == 0.75


def test_faults_that_records_cannot_show_are_left_out_of_one_figure_only():
    hidden = world((FAULT | {"shown": False}, MISSED), (FAULT | {"culprit_seen": False}, MISSED))
    found = findings(hidden, world((FAULT, FOUND)))
    assert found["recall"]["of"] == 3
    assert found["recall where steps show the fault"]["of"] == 1


def test_culprits_are_of_all_due_faults_and_causes_of_those_found():
    second = FOUND | {"first": False, "cause": False, "server": False, "set_size": 3}
    third = FOUND | {"first": False, "in_set": False}
    found = findings(world((FAULT, FOUND), (FAULT, second), (FAULT, third), (FAULT, MISSED)))
    value = {name: estimate["value"] for name, estimate in found.items()}
    assert value["culprit first"] == 0.25
    assert value["culprit in a named set of at most three"] == 0.5
    assert value["right server"] == 0.5
    assert value["right server, or in the set"] == 0.75
    assert value["size of the named set"] == pytest.approx(5 / 3)
    assert value["cause right"] == pytest.approx(2 / 3)
    assert value["cause right, or one of those named"] == 1.0


def test_costs_and_delays_are_of_faults_that_are_found():
    late, free = FOUND | {"cost_right": False, "delay": 6}, FOUND | {"cost_right": None}
    found = findings(world((FAULT, FOUND), (FAULT, late), (FAULT, MISSED), (FAULT, free)))
    assert found["cost within 1 point, or both bounds hold it"]["value"] == 0.5
    assert found["delay in steps, median"]["value"] == 2


def test_precision_is_that_of_culprits_and_leaves_out_what_does_not_count():
    near = RIGHT | {"first": False, "in_set": False}
    found = findings(world(findings=[RIGHT, near, WRONG, WRONG | {"counts": False}]))
    assert found["precision"]["value"] == pytest.approx(1 / 3)
    assert found["precision, right server or in the set"]["value"] == pytest.approx(2 / 3)


def test_sure_and_wrong_are_sure_findings_on_another_server():
    near = RIGHT | {"first": False, "in_set": False}
    unsure = WRONG | {"confidence": 0.89}
    hiccup = WRONG | {"counts": False}
    sure = findings(world(findings=[RIGHT, near, WRONG, unsure, hiccup]))["sure and wrong"]
    assert (sure["value"], sure["of"]) == (pytest.approx(1 / 3), 3)


def test_the_brier_score_of_culprits_is_of_the_first_one_named():
    near = RIGHT | {"first": False, "confidence": 0.5}
    found = findings(world(findings=[RIGHT | {"confidence": 0.8}, near]))
    assert found["Brier score of culprits"]["value"] == pytest.approx((0.04 + 0.25) / 2)


def test_false_findings_are_counted_in_worlds_without_faults():
    hiccup = WRONG | {"counts": False}
    healthy = world(findings=[WRONG, hiccup]), world(job_steps=400)
    found = findings(*healthy, world((FAULT, FOUND), findings=[WRONG] * 7))
    assert found["false findings in 1,000 healthy job-steps"]["value"] == 2.0


def test_hard_parts_have_their_own_faults():
    short, old = FAULT | {"window_steps": 5}, FAULT | {"from_first": True}
    dense = FAULT | {"window_steps": None, "workers": 4}
    made = figures.figures_of([world((short, FOUND), (old, FOUND), (dense, MISSED))])
    parts = made["exam"]["prism"]["parts"]
    assert parts["recall: 1 to 4 steps"]["of"] == 1
    assert parts["recall: from the first record on, with peers"]["of"] == 1
    assert parts["culprit first: computing, several workers a server"]["value"] == 0.0


def test_groups_have_their_own_faults_and_slowdown_also_those_that_are_not_due():
    made = figures.figures_of(
        [
            world(
                (FAULT | {"slowdown": 0.02, "due": False}, FOUND),
                (FAULT | {"from_first": True, "window_steps": 1}, MISSED),
                (FAULT | {"stops": True, "slowdown": None, "window_steps": None}, FOUND),
                telemetry=("sampled packets", "1 s late or more"),
            )
        ]
    )["exam"]["prism"]
    of = {
        grouping: {name.partition(": ")[2] or name: own["recall"] for name, own in groups.items()}
        for grouping, groups in made["groups"].items()
    }
    assert of["slowdown of the job"] == {"1 to 3 %": share(1, 1), "6 to 12 %": share(0, 1)}
    assert of["steps of the window"] == {"1": share(0, 1), "until the job stops": share(1, 1)}
    assert of["from the first record on"] == {"yes, with peers": share(0, 1), "no": share(1, 1)}
    assert of["telemetry"] == dict.fromkeys(("sampled packets", "1 s late or more"), share(1, 2))
    assert made["due"] == 2
    assert made["faults"] == 3


def test_the_brier_score_is_the_mean_squared_distance():
    counts = [[*row] for row in EMPTY]
    counts[3], counts[4] = [1, 0.9, 1, 0.01], [1, 1.0, 0, 1.0]
    grade = {"answers": {"pairs": counts, "findings": EMPTY}}
    made = figures.calibration([world(**grade)], "prism")
    assert made["pairs"]["brier"]["value"] == pytest.approx(0.505)
    assert made["pairs"]["answers"] == 2
    assert [one["right"]["value"] for one in made["pairs"]["bins"]] == [1.0, 0.0]
    assert made["findings"]["brier"]["value"] is None


def test_a_method_that_fails_is_counted():
    made = figures.figures_of([world(refused="ValueError: no"), world()])["exam"]["prism"]
    assert made["structure"]["refused"]["value"] == 0.5


def test_intervals_narrow_with_the_number_of_worlds():
    few, many = (rate([1, 0] * n, [1, 1] * n) for n in (5, 200))
    assert few["value"] == many["value"] == 0.5
    assert few["high"] - few["low"] > 3 * (many["high"] - many["low"])
    assert mean_of([None, 1.0, 0.0])["of"] == 2


@pytest.mark.parametrize(("slowdown", "extra_ns", "due"), [(0.03, 1, True), (0.029, 1, False),
                         (0.5, 0, False), (None, 5, False), (0.5, None, False)])  # fmt: skip
def test_a_fault_is_due_if_it_slows_and_costs_its_job(slowdown, extra_ns, due):
    assert truth.is_due(slowdown, extra_ns) is due


def test_the_log_gets_a_line_for_each_run_and_method(tmp_path):
    results = [world((FAULT, FOUND)), world(findings=[WRONG])]
    made = {"date": "2026-01-01", "commit": "abc", "sets": figures.figures_of(results)}
    path = tmp_path / "log.md"
    log.append(made, path)
    log.append(made | {"date": "2026-01-02"}, path)
    log.append(made, path)
    text = path.read_text()
    lines = [line for line in text.splitlines() if "`prism`" in line]
    assert len(lines) == 2
    assert "| `abc` | 2 | `prism` | 100 %" in lines[0]
    assert text.count("| sure and wrong |") == 1


def test_a_log_with_other_columns_keeps_its_lines_and_gets_a_table(tmp_path):
    path = tmp_path / "log.md"
    before = "# Runs\n\n| date | recall |\n|---|---|\n| 2025-01-01 | 1 % |\n\n## New\n"
    path.write_text(before)
    made = {"date": "2026-01-01", "commit": "abc", "sets": figures.figures_of([world()])}
    log.append(made, path)
    head = f"\n| {' | '.join(log.COLUMNS)} |\n|{'---|' * len(log.COLUMNS)}\n"
    assert path.read_text().startswith(before + head + "| 2026-01-01 | `abc` | 1 | `prism` |")


def test_the_page_follows_from_the_figures_beside_it():
    made = json.loads((REFERENCE / "exam.json").read_text())
    assert page.page_of(made) == (REFERENCE / "exam.md").read_text()
