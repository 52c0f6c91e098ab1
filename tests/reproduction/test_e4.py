"""E4: only the affected leaves become slow, and their rate follows the closed form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reproduction.base import Done
from reproduction.e4_switches import page
from reproduction.e4_switches.measure import measure, trials

pytestmark = pytest.mark.slow  # hours of a small cluster


@pytest.fixture(scope="module")
def done() -> list[Done]:
    return [Done(trial, measure(trial)) for trial in trials([1], True)]


def hours(done: list[Done]) -> list[dict[str, Any]]:
    return [one.result for one in done if not one.trial.settings["short_gap"]]


def test_connections_share_the_last_uplink(done: list[Done]) -> None:
    """f connections share 400 Gbit/s; pipeline messages take up to a fifth of it."""
    for result in hours(done):
        form = result["closed_form"]
        assert form["gbps"] == 400 / max(form["connections_out"], form["connections_in"])
        assert 0.8 * form["gbps"] < result["crossing_gbps"] <= form["gbps"]


def test_only_leaves_of_the_same_rail_are_affected(done: list[Done]) -> None:
    """Rings stay on their rail; the rail of leaf 2 has one leaf in each of two blocks."""
    for result in hours(done):
        assert result["affected"] == ["leaf002", "leaf010"]
        assert result["affected_gbps"][2] < result["others_gbps"][0]
        assert result["affected_before_gbps"][0] > 100
        np.testing.assert_allclose(result["others_gbps"][1], result["healthy_gbps"][1], rtol=0.1)


def test_a_fault_of_an_eighth_of_the_leaves_cannot_be_flagged(done: list[Done]) -> None:
    """2 of 16 are at most sqrt(14 / 2) sigma below the mean."""
    for result in hours(done):
        assert result["sigmas"]["largest"] == pytest.approx(np.sqrt(7))
        assert not any(alert["switch"] in result["affected"] for alert in result["alerts"])


def test_a_short_idle_gap_hides_the_fault(done: list[Done]) -> None:
    """A ring pauses for ms between two chunks at 400 / f Gbit/s, and each burst is fast."""
    (short,) = [one.result for one in done if one.trial.settings["short_gap"]]
    assert short["affected_gbps"][0] > 2 * hours(done)[0]["affected_gbps"][2]


def test_results_are_json_and_the_page_shows_them(done: list[Done]) -> None:
    json.dumps([one.result for one in done], allow_nan=False)
    text = page.section(done)
    assert "| alert about an affected leaf | yes | 0 of 1 seeds |" in text
    assert "for 5 minutes. From minute 2 to\n3.5 one leaf has lost 15 of its 16" in text
    gaps = page.gaps(done)
    assert any("no alert of `paper` for seed 1" in gap for gap in gaps)
    assert any("idle gap of 1 ms" in gap for gap in gaps)


def changed(done: list[Done], seed: int, **figures: Any) -> Done:
    """The hour with another seed and other figures."""
    (hour,) = [one for one in done if not one.trial.settings["short_gap"]]
    model = hour.trial.scenario.model_copy(update={"seed": seed})
    return Done(replace(hour.trial, scenario=model), {**hour.result, **figures})


def test_a_range_outside_the_published_one_is_listed_with_its_seeds(done: list[Done]) -> None:
    inside = {"healthy_gbps": [100, 140, 180, 1], "affected_gbps": [30, 40, 60, 1]}
    three = [
        changed(done, 1, **inside),
        changed(done, 2, **inside | {"affected_gbps": [40, 50, 61, 1]}),
        changed(done, 3, **inside | {"healthy_gbps": [99, 150, 170, 1]}),
    ]
    listed = [gap for gap in page.gaps(three) if "outside" in gap]
    assert [gap.partition(". ")[0].rpartition("seed ")[2] for gap in listed] == ["3", "2"]
    assert "ours 99 to 180 Gbit/s" in listed[0]
    assert "ours 30 to 61 Gbit/s" in listed[1]
    assert not any("outside" in gap for gap in page.gaps(three[:1]))
    text = page.section(three)
    assert "lowest | from 100 Gbit/s | 100 (99 to 100) Gbit/s |" in text
    assert "affected leaves during the fault, mean | - | 43 (40 to 50) Gbit/s |" in text


def test_a_delay_is_shown_with_its_number_of_seeds(done: list[Done]) -> None:
    start_s = changed(done, 1).result["fault_s"][0]
    alert = {"switch": "leaf002", "start_s": start_s + 10, "end_s": start_s + 20}
    before = alert | {"start_s": start_s - 20, "end_s": start_s - 10}
    text = page.section([changed(done, 1, alerts=[before]), changed(done, 2, alerts=[alert])])
    assert "| first alert after the failure | - | 10 s (1 of 2 seeds) |" in text


def test_alerts_of_the_other_method_are_about_switches_in_the_same_time(done: list[Done]) -> None:
    start_s = changed(done, 1).result["fault_s"][0]
    right = {"switch": "leaf002", "start_s": start_s, "end_s": start_s + 60}
    wrong = {"switch": "spine00", "start_s": start_s, "end_s": start_s + 60}
    of_seeds = [{"alerts": [right, wrong], "other_findings": 0, "reported": []},
                {"alerts": [], "other_findings": 1, "reported": []}]  # fmt: skip
    two = [changed(done, seed, alerts=[], prism=of) for seed, of in enumerate(of_seeds, 1)]
    lines = page.section(two).splitlines()
    ends = {line.split(" | ")[0]: line.split(" | ")[-1] for line in lines if " | " in line}
    assert ends["| alert about the failed leaf itself"] == "1 of 2 seeds |"
    assert ends["| alerts about affected leaves / false alerts, all seeds"] == "1 / 1 |"
    assert ends["| first alert after the failure"] == "0 s (1 of 2 seeds) |"
    assert "| 2 | none | - | - | - |" in lines


def test_a_page_without_hours_is_complete(done: list[Done]) -> None:
    (short,) = [one for one in done if one.trial.settings["short_gap"]]
    assert page.section([short]) == "Nothing finished.\n"
    assert any("idle gap of 1 ms" in gap for gap in page.gaps([short]))
