"""Both methods on the scenarios of this repository: ``prism`` is at least as good as ``paper``.

Errors are those over all true steps, where a step that was not found counts as an error of 100 %.
"""

from __future__ import annotations

from functools import reduce

import pytest

from llmprism.pipeline import diagnose
from prism_sim.loading.bundled import bundled
from prism_sim.toolkit import Run, load_scenario, score_run, simulate

HIGHER = (
    "jobs.accuracy", "pairs.accuracy", "pairs.accuracy_bytes", "parallelism.groups_exact",
    "parallelism.stage_order", "parallelism.sizes_exact", "timeline.coverage",
    "timeline.dp_end_coverage", "faults.recall", "faults.localized_top1", "faults.cause_accuracy",
)  # fmt: skip
LOWER = (
    "timeline.step_error_all_mean", "timeline.step_error_all_p99", "timeline.dp_end_error_all_mean",
    "timeline.dp_time_error_all_mean", "timeline.pp_time_error_all_mean",
    "timeline.steps_unexplained", "faults.false_alarms",
)  # fmt: skip
ALIKE = 1e-3  # of a step: errors that differ by less are alike
GROUPS = ("faults/", "hostile/", "published/", "telemetry/", "tiny/", "twins/", "workloads/")
OFTEN = (
    "hostile/", "published/bloom-176b", "published/megatron-175b", "published/mixtral-8x7b",
    "telemetry/",
)  # fmt: skip
"""Scenarios that every run of the tests compares; the others take minutes together."""
DP_END = (
    "timeline.dp_end_coverage", "timeline.dp_end_error_all_mean", "timeline.dp_time_error_all_mean",
)  # fmt: skip
KINDS = ("pairs.accuracy", "pairs.accuracy_bytes")
GROUPED = (*KINDS, "parallelism.groups_exact", "parallelism.stage_order")
WORSE = {
    # Ranks of one server may be replicas or share tensors: both ways are named, and none is stated.
    **dict.fromkeys(
        ("hostile/clean", "hostile/reduces", "published/megatron-175b"),
        ("parallelism.sizes_exact",),
    ),
    # Two rings that are joined may be stages, or tensor-parallel groups of two replicas: unknown.
    "hostile/long-records": (*KINDS, "parallelism.sizes_exact"),
    # Gradients stay in servers; paper takes activations for them, with errors of 80 %.
    "workloads/small-reduces": DP_END,
    "workloads/varying-lengths": DP_END,
    # Nothing is sent before the first gradients: the begin of the first step is estimated.
    "workloads/scale-up-domain": ("timeline.step_error_all_p99",),
    # What is found is true, but it is no injected fault: a long last stage, a slow replica.
    "workloads/uneven-stages": ("faults.false_alarms",),
    "workloads/import-timeline": ("faults.false_alarms",),
    # Servers hide every second hop of the rings, and records hold many steps: kinds are unknown.
    "telemetry/netflow": KINDS,
    # An address translator hides what one server sends, so that nothing circulates through it.
    "telemetry/reused-addresses": ("jobs.accuracy", "parallelism.sizes_exact", *GROUPED),
    # All gradients of two couples of stages were lost with their leaf: they count as other jobs.
    "telemetry/late-and-lossy": (
        "timeline.coverage",
        "timeline.step_error_all_mean",
        "timeline.dp_time_error_all_mean",
        "timeline.pp_time_error_all_mean",
        *DP_END[:2],
        *GROUPED,
    ),
}
"""Figures that are worse, with the reason."""


NOTHING = {1: 0.0, -1: 1.0}
"""What a table that is not answered is worth: nothing is found, every step is off by all of it."""


def marked(name):
    return pytest.param(
        name, marks=pytest.mark.slow if name.startswith(OFTEN) else pytest.mark.full
    )


def figure(score, path):
    """The figure at a ``path`` of keys; None if the score does not have it."""
    return reduce(lambda own, key: None if own is None else own.get(key), path.split("."), score)


@pytest.mark.parametrize(
    "name", [marked(name) for name in sorted(bundled()) if name.startswith(GROUPS)]
)
def test_prism_is_at_least_as_good_in_every_figure(name, tmp_path):
    run = Run(tmp_path)
    simulate(load_scenario(bundled()[name]), run)
    scores = {}
    for method in ("paper", "prism"):
        diagnose(run.flows, run.topology, method=method).write(run.diagnosis_folder)
        scores[method] = score_run(run).to_json()
    worse = {}
    for paths, sign in ((HIGHER, 1), (LOWER, -1)):
        for path in paths:
            paper, prism = (figure(scores[method], path) for method in ("paper", "prism"))
            prism = NOTHING[sign] if prism is None else prism
            if paper is not None and sign * (prism - paper) < -ALIKE:
                worse[path] = paper, prism
    assert worse.keys() <= set(WORSE.get(name, ()))
