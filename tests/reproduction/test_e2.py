"""E2: what is replayed is what would have been simulated, and the page tells what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llmprism.io.flows import FlowTable, read_flows
from llmprism.io.topology import read_topology
from prism_sim.loading.scenario import Scenario
from prism_sim.render.paint import png
from prism_sim.replay import Stream
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from reproduction.base import Done, diagnosed
from reproduction.e2_pairs import page
from reproduction.e2_pairs.levels import CAUSES, PLATFORMS, UNDISTURBED
from reproduction.e2_pairs.measure import measure, trials
from tiny import TINY_MODEL

LOSS = {"kind": "loss", "probability": 0.2}
RESENT = {"kind": "retransmissions", "probability": 1e-3, "packets_a_loss": 10}
COLLECTORS: list[dict[str, Any]] = [
    {"effects": [LOSS]},
    {"effects": [{"kind": "headers"}, RESENT, LOSS]},
    {"effects": [{"kind": "silent_switches", "switches": ["leaf001"]}]},
    {"effects": [{"kind": "outages", "windows": [{"from_s": 0.01, "to_s": 0.03}]}]},
    {"message_boundary": False, "idle_gap_us": 5000, "active_timeout_s": 60, "effects": [LOSS]},
]


def world(collector: dict[str, Any]) -> Scenario:
    job = {"name": "a", "model": TINY_MODEL, "dp": 4, "pp": 2, "micro_batches": 4, "steps": 4,
           "compute_jitter": 0.05}  # fmt: skip
    cluster = {"servers": 8, "gpus_per_server": 1, "nics_per_server": 1,
               "fabric": {"kind": "tor", "leaf_ports": 2}}  # fmt: skip
    return Scenario.model_validate({"cluster": cluster, "jobs": [job], "collector": collector})


def recorded(scenario: Scenario, folder: Path) -> FlowTable:
    run = Run(folder)
    simulate(scenario, run)
    return read_flows(run.flows, read_topology(run.topology))[0]


@pytest.mark.parametrize("collector", COLLECTORS)
def test_a_replayed_collector_sees_what_a_simulated_one_does(
    tmp_path: Path, collector: dict[str, Any]
) -> None:
    plain = recorded(world({}), tmp_path / "plain")
    simulated = recorded(world(collector), tmp_path / "noisy")
    replayed = Stream(plain, world({})).seen(collector, 0.0, 1e6)
    assert len(simulated) != len(plain) or (simulated.bytes != plain.bytes).any()
    for name in ("start_ns", "end_ns", "src", "dst", "bytes"):
        np.testing.assert_array_equal(getattr(replayed, name), getattr(simulated, name))


def test_a_window_holds_the_records_that_start_in_it(tmp_path: Path) -> None:
    flows, scenario = recorded(world({}), tmp_path), world({})
    window = Stream(flows, scenario).seen({}, 0.01, 0.03)
    since = flows.start_ns - scenario.epoch_ns
    assert len(window) == ((since >= 10_000_000) & (since < 30_000_000)).sum() > 0


@pytest.fixture(scope="module")
def done() -> list[Done]:
    return [Done(trial, measure(trial)) for trial in trials([1], True)]


def test_a_window_over_everything_scores_as_the_whole_run_does(done: list[Done]) -> None:
    """The scorer of a run and that of a window agree where both see the same records."""
    trial, _ = done[0]
    whole = {**trial.settings, "first_s": 0.0, "windows_s": [1000], "levels_of": 0}
    (entry,) = [
        one
        for one in measure(type(trial)(trial.experiment, "", trial.scenario, whole))["windows"]
        if one["platform"] == UNDISTURBED
    ]
    with diagnosed(trial.scenario) as (_, score):
        for name in ("total", "accuracy", "accuracy_unrefined", "missing"):
            assert entry[name] == score["pairs"][name]


def test_leaves_that_are_silent_hide_their_share_of_pairs(done: list[Done]) -> None:
    """One rail of eight is silent: an eighth of all pairs, and no type can be told."""
    for one in done:
        (entry,) = [
            e for e in one.result["curves"] if (e["cause"], e["level"]) == ("silent", 0.125)
        ]
        assert entry["missing"] == entry["total"] / 8
        assert entry["accuracy"] <= 7 / 8


def test_retransmissions_never_have_dp_read_as_pp_more_often(done: list[Done]) -> None:
    """They only add sizes, and one size is what makes PP."""
    for one in done:
        (clean,) = [e for e in one.result["windows"]
                    if (e["platform"], e["window_s"]) == (UNDISTURBED, 20)]  # fmt: skip
        for entry in one.result["curves"]:
            if entry["cause"] == "retransmission":
                assert entry["dp_as_pp_unrefined"] <= clean["dp_as_pp_unrefined"]


def test_the_page_has_every_window_job_and_platform(done: list[Done]) -> None:
    text = page.section(done)
    for said in ("20 s", "50 s", "llama-33b", "llama-65b", *page.NAMES.values()):
        assert said in text
    assert set(page.NAMES) == set(PLATFORMS)
    assert "2 jobs" in text
    assert "3.3e-09, and 100 packets are retransmitted" in text
    assert "15 ms of silence\n  or at an age of 60 s" in text
    names = [picture.name for picture in page.pictures(done)]
    assert names == ["e2-windows", "e2-noise"]
    assert all(png(picture.figure).startswith(b"\x89PNG") for picture in page.pictures(done))


def test_published_figures_stand_beside_the_windows_they_are_of(done: list[Done]) -> None:
    def told(**scores: float) -> list[Done]:
        """All jobs, with one window of a minute."""
        minutes = [
            [entry | {"window_s": 60} | scores for entry in one.result["windows"]
             if entry["window_s"] == 50]
            for one in done
        ]  # fmt: skip
        return [
            Done(one.trial, {**one.result, "windows": minute})
            for one, minute in zip(done, minutes, strict=True)
        ]

    text = page.section(told())
    assert "| 1 min | 96.00 % |" in text
    assert "| 1 min | 100 % |" in text
    gaps = page.gaps(told(accuracy=0.9, accuracy_unrefined=0.95))
    assert any("published 100 %, ours 90.00 % in 1 min" in gap for gap in gaps)
    (worse,) = [gap for gap in gaps if "refinement makes it worse" in gap]
    assert worse.count("from 95.00 % to 90.00 %") == len(PLATFORMS)
    assert page.gaps(done) == []  # windows of seconds compare with nothing


def test_a_seed_without_one_of_its_jobs_is_left_out(done: list[Done]) -> None:
    """One job of another seed would pull the mean its way; it alone is nothing."""
    model = done[0].trial.scenario.model_copy(update={"seed": 2})
    other = Done(replace(done[0].trial, scenario=model), done[0].result)
    assert page.section([*done, other]) == page.section(done)
    assert page.section([other]).startswith("No seed finished")
    assert page.gaps([other]) == page.pictures([other]) == []


def test_levels_rise() -> None:
    for cause in CAUSES.values():
        assert cause.levels == sorted(set(cause.levels))
