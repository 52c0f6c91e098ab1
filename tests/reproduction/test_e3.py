"""E3: the job is close to the published one, and its errors follow closed forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism_sim.toolkit import (
    Run,
    Scenario,
    ScoreTables,
    find_scenario,
    load_scenario,
    simulate,
    stage_costs,
    true_work,
)
from reproduction import EXPERIMENTS, running
from reproduction.base import Done, Trial
from reproduction.e3_timeline import measure, page

pytestmark = pytest.mark.slow  # several worlds

SMALL = {"cluster.servers": 16, "jobs.0.dp": 8, "jobs.0.steps": 4}
QUIET = {**SMALL, "jobs.0.compute_jitter": 0, "jobs.0.step_overhead_jitter": 0}


def small_scenario(**changes: object) -> Scenario:
    return load_scenario(find_scenario(measure.SCENARIO), {**QUIET, **changes})


def measured(scenario: Scenario) -> measure.Result:
    return measure.measure(Trial("e3", "x", scenario))


def test_steps_and_their_dp_traffic_are_about_as_published(tmp_path: Path) -> None:
    """Published, read from a plot: steps of about 23.6 s with about 1.2 s of DP at the end."""
    published = load_scenario(find_scenario(measure.SCENARIO), {"jobs.0.steps": 2})
    assert published.jobs[0].ranks == 1024
    run = Run(tmp_path)
    simulate(published, run)
    steps, ranks, spans = (run.truth(name) for name in ("steps", "ranks", "spans"))
    assert len(steps) == 2 * 1024
    lengths_s = (steps["end_ns"] - steps["start_ns"]) / 1e9
    assert lengths_s.mean() == pytest.approx(23.6, rel=0.05)
    dp = true_work(ScoreTables({"ranks": ranks, "spans": spans}, {}, {}, {}))["dp"]
    step = dp.groupby(["rank_row", "step"])
    lasted_s = (step["end_ns"].max() - step["start_ns"].min()) / 1e9
    assert lasted_s.mean() == pytest.approx(1.2, rel=0.1)
    backward = spans[spans["kind"] == "bwd"].groupby(["rank", "step"])["end_ns"].max()
    assert (step["start_ns"].min().to_numpy() >= backward.to_numpy()).all()


def test_the_error_of_a_step_is_the_host_work_before_it() -> None:
    """Without jitter, host work h and step T: inferred T + h, so error h / T for every step."""
    result = measured(small_scenario(**{"jobs.0.step_overhead_ms": 100}))
    error = result["readings"]["step"]
    assert result["coverage"] == 1
    assert error["error_mean"] == pytest.approx(0.1 / result["step_s"], rel=0.02)
    assert error["error_bias"] == error["error_mean"]
    assert error["within_published"] == 0  # 0.3 % of the step are less than 100 ms
    assert result["readings"]["dp_end"]["error_max"] == pytest.approx(0, abs=1e-9)


def test_the_wait_of_a_later_stage_is_its_error_with_the_definition_first_forward() -> None:
    """Stage 1 ends a backward pass before stage 0, then waits for a forward pass of stage 0.

    With this definition only T - w of its time T is a step, so the error is w / (T - w).
    """
    idle_host = small_scenario(**{"jobs.0.step_overhead_ms": 0})
    result = measured(idle_host)
    first, _ = stage_costs(idle_host.jobs[0], idle_host.cluster)
    wait_s = (first.forward_ns + first.backward_ns) / 1e9
    percentiles = result["readings"]["first_forward"]["percentiles"]
    assert percentiles[25] == pytest.approx(0, abs=1e-5)
    assert percentiles[75] == pytest.approx(wait_s / (result["step_s"] - wait_s), rel=0.05)


def test_both_methods_are_measured_on_the_same_steps() -> None:
    """Without jitter nothing is uncertain at the end of DP; the start of a step is estimated."""
    result = measured(small_scenario(**{"jobs.0.step_overhead_ms": 100}))
    other = result["prism"]
    assert other["coverage"] == result["coverage"] == 1
    assert other["readings"]["dp_end"]["error_max"] == pytest.approx(0, abs=1e-6)
    of_step = [part["readings"]["step"]["error_mean"] for part in (other, result)]
    assert of_step[0] < of_step[1]


def test_an_unmatched_step_counts_as_one() -> None:
    """All records of some steps are lost; these steps have an error of 1."""
    outage = [{"kind": "loss", "burst_probability": 1.0, "mean_good_s": 40, "mean_bad_s": 20}]
    result = measured(small_scenario(**{"collector.effects": outage}))
    step = result["readings"]["step"]
    assert result["coverage"] < 1
    missed = 1 - result["coverage"]
    assert sum(p == 1 for p in step["percentiles"]) == pytest.approx(100 * missed, abs=2)
    assert step["error_all_mean"] >= missed


@pytest.fixture(scope="module")
def done(reduced_e3: Path) -> list[Done]:
    trials = running.trials_of([EXPERIMENTS["e3"]], [1], reduced=True)
    (results,) = running.results_of(trials, reduced_e3 / "out")
    assert not results.failed
    return results.done


def test_the_page_has_published_and_ours(done: list[Done]) -> None:
    text = page.section(done)
    rows = [line.split(" | ")[0].lstrip("| ") for line in text.splitlines() if "|" in line]
    for row in ("published, read from a plot", "ours", "jitter and host work as measured",
                "neither (clean)", "as measured, records exported", "16.6", "200"):  # fmt: skip
        assert row in rows, row
    assert page.gaps(done)


def test_the_page_leaves_out_failed_variants(done: list[Done]) -> None:
    for name in (measure.MEASURED, measure.EXPORTED):
        some = [one for one in done if one.trial.settings["variant"] != name]
        assert "published" in page.section(some)
