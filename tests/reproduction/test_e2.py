"""E2: a replay gives the same records as a simulation, and the page shows the measured figures."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llmprism.io.flows import FlowTable, read_flows
from llmprism.io.topology import read_topology
from prism_sim.toolkit import Run, Scenario, Stream, simulate
from reproduction.base import Done, diagnosed
from reproduction.e2_pairs import page
from reproduction.e2_pairs.levels import COLLECTORS, UNDISTURBED
from reproduction.e2_pairs.measure import measure, trials
from tiny import TINY_MODEL

pytestmark = pytest.mark.slow  # several worlds

LOSS = {"kind": "loss", "probability": 0.2}
RESENT = {"kind": "retransmissions", "probability": 1e-3, "packets_a_loss": 10}
REPLAYED: list[dict[str, Any]] = [
    {"effects": [LOSS]},
    {"effects": [{"kind": "headers"}, RESENT, LOSS]},
    {"effects": [{"kind": "silent_switches", "switches": ["leaf001"]}]},
    {"effects": [{"kind": "outages", "windows": [{"from_s": 0.01, "to_s": 0.03}]}]},
    {"message_boundary": False, "idle_gap_us": 5000, "active_timeout_s": 60, "effects": [LOSS]},
]


def tiny_scenario(collector: dict[str, Any]) -> Scenario:
    job = {"name": "a", "model": TINY_MODEL, "dp": 4, "pp": 2, "micro_batches": 4, "steps": 4,
           "compute_jitter": 0.05}  # fmt: skip
    cluster = {"servers": 8, "gpus_per_server": 1, "nics_per_server": 1,
               "fabric": {"kind": "tor", "leaf_ports": 2}}  # fmt: skip
    return Scenario.model_validate({"cluster": cluster, "jobs": [job], "collector": collector})


def recorded(scenario: Scenario, folder: Path) -> FlowTable:
    run = Run(folder)
    simulate(scenario, run)
    return read_flows(run.flows, read_topology(run.topology))[0]


@pytest.mark.parametrize("collector", REPLAYED)
def test_a_replayed_collector_exports_the_records_of_a_simulated_one(
    tmp_path: Path, collector: dict[str, Any]
) -> None:
    plain = recorded(tiny_scenario({}), tmp_path / "plain")
    simulated = recorded(tiny_scenario(collector), tmp_path / "noisy")
    replayed = Stream(plain, tiny_scenario({})).exported(collector, 0.0, 1e6)
    assert len(simulated) != len(plain) or (simulated.bytes != plain.bytes).any()
    for name in ("start_ns", "end_ns", "src", "dst", "bytes"):
        np.testing.assert_array_equal(getattr(replayed, name), getattr(simulated, name))


def test_a_window_holds_the_records_that_start_in_it(tmp_path: Path) -> None:
    flows, scenario = recorded(tiny_scenario({}), tmp_path), tiny_scenario({})
    window = Stream(flows, scenario).exported({}, 0.01, 0.03)
    since = flows.start_ns - scenario.epoch_ns
    assert len(window) == ((since >= 10_000_000) & (since < 30_000_000)).sum() > 0


@pytest.fixture(scope="module")
def done() -> list[Done]:
    return [Done(trial, measure(trial)) for trial in trials([1], True)]


def test_a_window_over_everything_scores_as_the_whole_run_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scorer of a run and that of a window agree on the same records."""
    trial = trials([1], True)[0]
    whole = {**trial.settings, "first_s": 0.0, "windows_s": [1000], "levels_of": 0}
    measuring = sys.modules[measure.__module__]
    monkeypatch.setattr(measuring, "COLLECTORS", {UNDISTURBED: COLLECTORS[UNDISTURBED]})
    with diagnosed(trial.scenario) as (run, score):
        monkeypatch.setattr(measuring, "simulated", lambda _: nullcontext(run))
        (entry,) = measure(replace(trial, settings=whole))["windows"]
        for name in ("total", "accuracy", "accuracy_unrefined", "missing"):
            assert entry[name] == score["pairs"][name]


def test_silent_leaves_hide_their_share_of_pairs(done: list[Done]) -> None:
    """One rail of eight is silent: an eighth of all pairs have no type."""
    for one in done:
        (entry,) = [
            e for e in one.result["curves"] if (e["disturbance"], e["level"]) == ("silent", 0.125)
        ]
        assert entry["missing"] == entry["total"] / 8
        assert entry["accuracy"] <= 7 / 8


def test_retransmissions_never_turn_more_dp_pairs_into_pp(done: list[Done]) -> None:
    """They only add sizes, and PP pairs have one size."""
    for one in done:
        (clean,) = [e for e in one.result["windows"]
                    if (e["collector"], e["window_s"]) == (UNDISTURBED, 20)]  # fmt: skip
        for entry in one.result["curves"]:
            if entry["disturbance"] == "retransmission":
                assert entry["dp_as_pp_unrefined"] <= clean["dp_as_pp_unrefined"]


def test_the_page_has_every_window_job_and_collector(done: list[Done]) -> None:
    text = page.section(done)
    for part in ("20 s", "50 s", "llama-33b", "llama-65b", *page.NAMES.values()):
        assert part in text
    assert set(page.NAMES) == set(COLLECTORS)
    assert "2 jobs" in text
    assert "3.3e-09, and for each lost packet 100 packets are retransmitted" in text
    assert "15 ms of silence\n  or at an age of 60 s" in text


def test_published_figures_are_in_the_rows_of_their_windows(done: list[Done]) -> None:
    def in_a_minute(**scores: float) -> list[Done]:
        """All jobs, with one window of a minute and these scores."""
        common = {"window_s": 60, "accuracy_other": 1.0}
        minutes = [
            [entry | common | scores for entry in one.result["windows"]
             if entry["window_s"] == 50]
            for one in done
        ]  # fmt: skip
        return [
            Done(one.trial, {**one.result, "windows": minute})
            for one, minute in zip(done, minutes, strict=True)
        ]

    text = page.section(in_a_minute())
    assert "| 1 min | 96.00 % |" in text
    assert "| 1 min | 100 % |" in text
    gaps = page.gaps(in_a_minute(accuracy=0.9, accuracy_unrefined=0.95))
    assert any("published 100 %, ours 90.00 % in 1 min" in gap for gap in gaps)
    (worse,) = [gap for gap in gaps if "refinement makes it worse" in gap]
    assert worse.count("from 95.00 % to 90.00 %") == len(COLLECTORS)
    assert page.gaps(done) == []  # nothing is published for windows of seconds


def test_a_seed_without_one_of_its_jobs_is_left_out(done: list[Done]) -> None:
    """One job of another seed would change the mean, and it alone has no share."""
    model = done[0].trial.scenario.model_copy(update={"seed": 2})
    other = Done(replace(done[0].trial, scenario=model), done[0].result)
    assert page.section([*done, other]) == page.section(done)
    assert page.section([other]).startswith("No seed finished")
    assert page.gaps([other]) == []


def test_the_other_method_has_its_windows_and_no_others(done: list[Done]) -> None:
    for one in done:
        for entry in one.result["windows"]:
            assert ("accuracy_other" in entry) == (entry["window_s"] == 20)
    text = page.section(done)
    assert "Share of correct pair types, by `prism`" in text
    assert "on the windows of 20 s only" in text
