"""The method fails as predicted in every trap; predictions are formulas or counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reproduction.base import Done
from reproduction.traps import page
from reproduction.traps.measure import TRAPS, measure, trials
from reproduction.traps.printed import change_probabilities

pytestmark = pytest.mark.full  # eight worlds, some of a thousand ranks

PREDICTED: dict[int, dict[str, Any]] = {
    1: {"high_tail": 0, "low_tail": 1},
    # at most sqrt((n - k) / k) sigma: 3 for 1 of 10, 2.55 for 4 of 30, 5.39 for 1 of 30
    2: {"few": 0, "wide": 0, "narrow": 1},
    3: {"fired": 0},
    # DP 4, PP 2, TP 4; two replicas share a server, so a ring has 2 hops between servers, on
    # each of the 2 NICs of each of 4 tensor-parallel ranks: 2 stages x 4 x 2 x 2
    5: {"dp_pairs": 32, "right_before": 0, "right_after": 0, "accuracy": 0.5},
    6: {"same_servers": 1, "torn": 2, "inside": 0, "storage": 1},
    # 3 boundaries of 4 stages, 2 replicas, TP 4, both directions
    7: {"named": 0, "pp_pairs": 48, "pp_right": 0},
    # 4 hops of a ring, TP 8, 2 stages; one boundary, 4 replicas, TP 8, both directions
    8: {"one_way": 64, "without_data": 64, "pp_pairs": 64, "pp_as_dp": 64, "sizes": 2},
}


@pytest.fixture(scope="module")
def done() -> list[Done]:
    return [Done(trial, measure(trial)) for trial in trials([1, 2], True)]


def result_of(done: list[Done], number: int) -> dict[str, Any]:
    (result,) = [one.result for one in done if one.trial.settings["trap"] == number]
    return result


def test_there_are_eight_and_the_reduced_form_has_one_seed_of_each(done: list[Done]) -> None:
    assert [one.trial.settings["trap"] for one in done] == [*range(1, 9)] == [*TRAPS]


@pytest.mark.parametrize("number", range(1, 9))
def test_the_method_fails_as_predicted(done: list[Done], number: int) -> None:
    result = result_of(done, number)
    assert result["fails"]
    expected = PREDICTED.get(number, {})
    assert {name: result[name] for name in expected} == expected


def test_printed_sigma_flags_about_half_of_the_healthy_steps(done: list[Done]) -> None:
    result = result_of(done, 1)
    assert result["sigma"] < 1e-15
    assert 0.3 < result["literal_share"] < 0.7  # all values above the mean of a lognormal jitter
    assert result["corrected_share"] <= 2 / 24 + 0.01  # the two steps of the fault


def test_joined_groups_change_all_pairs_between_them(done: list[Done]) -> None:
    """Two joined groups have DP 8 pairs in each direction between them; no other pair changes."""
    result = result_of(done, 4)
    assert result["after"] >= 16 > result["before"] > 0
    assert result["accuracy_after"] < result["accuracy_before"]


def test_probability_of_run_length_0_is_the_hazard_for_any_data() -> None:
    jump = np.array([0.0, 0.1, -0.1, 0.0, 50.0, 0.1, 0.0])
    np.testing.assert_allclose(change_probabilities(jump, 0.25), 0.25, atol=1e-12)


def test_the_map_names_every_trap_and_there_is_no_gap_if_all_fail_as_predicted(
    done: list[Done],
) -> None:
    text = page.section(done)
    assert text.count("yes, 1 of 1 seeds") == 8
    assert all(one.title in text for one in page.descriptions().values())
    assert page.gaps(done) == []
    for number in (3, 4, 7, 8):
        assert text.count(f"- Trap {number}") == 1
    missed = [Done(done[0].trial, {**done[0].result, "fails": False})]
    assert "no, 0 of 1 seeds" in page.section(missed)
    assert len(page.gaps(missed)) == 1
