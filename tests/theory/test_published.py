"""Published training runs: step times and bytes of the scenarios with the same names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.reference import workloads as workloads_page
from prism_sim.loading.bundled import bundled
from prism_sim.toolkit import load_scenario

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "results" / "reference" / "workloads.md"
NAMES = sorted(name for name in bundled() if name.startswith("published/"))


@pytest.fixture(scope="module")
def workloads():
    """The module that makes the reference page."""
    return workloads_page


def _run(workloads, name):
    return next(run for run in workloads.RUNS if run.name == name)


def test_every_kind_of_gpu_has_one_efficiency_for_all_its_runs():
    """Nothing is fitted run by run."""
    found = {}
    for name in NAMES:
        scenario = load_scenario(bundled()[name])
        gpu = scenario.cluster.gpu.peak_tflops
        found.setdefault(gpu, set()).update(job.mfu for _, job in scenario.modelled)
    assert {gpu: len(values) for gpu, values in found.items()} == {312: 1, 989: 1}


def test_a_run_without_one_of_its_costs_is_a_lower_bound(workloads):
    """The optimizer of the logged run of Llama-2-7B runs on CPUs, which is not simulated."""
    one = workloads.outcome(_run(workloads, "Llama-2-7B, without offload"))
    assert f"| {' | '.join(workloads.step_row(one))} |" in PAGE.read_text()
    assert one.step_s < one.published_s
    assert one.sent == pytest.approx(one.implied)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("22B, selective", 0.05),
        ("22B, full recompute", 0.05),
        ("175B, selective", 0.01),  # the one that calibrates
        ("175B, full recompute", 0.05),
        pytest.param("530B, selective", 0.1, marks=pytest.mark.full),
        pytest.param("530B, full recompute", 0.1, marks=pytest.mark.full),
        pytest.param("1T, selective", 0.15, marks=pytest.mark.full),
        pytest.param("1T, full recompute", 0.15, marks=pytest.mark.full),
        ("BLOOM-176B", 0.1),
        pytest.param("Mixtral 8x7B", 0.1, marks=pytest.mark.full),
    ],
)
def test_a_step_takes_about_as_long_as_published_and_as_the_page_says(workloads, name, tolerance):
    """Tolerances cover the effects that are not modelled, which the page lists for each run."""
    one = workloads.outcome(_run(workloads, name))
    assert f"| {' | '.join(workloads.step_row(one))} |" in PAGE.read_text()
    assert one.step_s == pytest.approx(one.published_s, rel=tolerance)
    assert one.sent.keys() == one.implied.keys()
    for kind, size in one.sent.items():
        assert size == pytest.approx(one.implied[kind], rel=1e-3)


def test_the_published_mfu_of_megatron_follows_from_its_step_times(workloads):
    """Korthikanti et al., 2022: 54.2 % of 312 TFLOP/s on 2,240 GPUs; the derived step is longer
    than the one of a single replica, by its data-parallel traffic."""
    run = _run(workloads, "530B, selective, dp 8")
    job = workloads.job_of(workloads.scenario_of(run))
    layers, hidden, tokens, vocab = 105, 20_480, 2048, 51_200
    flops = 72 * 2240 * tokens * layers * hidden**2
    flops *= 1 + tokens / (6 * hidden) + vocab / (12 * hidden * layers)
    assert workloads.counted_flops(job) == pytest.approx(flops, rel=1e-9)
    published_s = flops / 2240 / 0.542 / 312e12
    assert 37.83 < published_s < 1.05 * 37.83


def test_the_page_has_every_run(workloads):
    steps = PAGE.read_text().split("## Step times")[1].split("Size of the error")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in steps.splitlines() if "|" in line]
    assert rows[2:] == [run.name for run in workloads.RUNS]


@pytest.mark.parametrize("name", NAMES)
def test_published_scenarios_have_a_description(name):
    scenario = load_scenario(bundled()[name])
    assert scenario.description
    assert scenario.cluster.gpus == scenario.jobs[0].ranks
    assert json.loads(scenario.model_dump_json())["jobs"][0]["kernels"] != "ideal"
