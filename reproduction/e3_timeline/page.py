"""E3 on the page: the published 0.3 % and our errors with three definitions of a step."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from prism_sim.toolkit import table
from reproduction import pages
from reproduction.base import METHOD, OTHER_METHOD, Done
from reproduction.e3_timeline.measure import CLEAN, EXPORTED, MEASURED, READINGS, host_work_ms
from reproduction.pages import percent_range, with_range

PUBLISHED = 0.003
"""The published bound on the error."""

_VARIANTS = {
    MEASURED: "jitter and host work as measured",
    CLEAN: "neither (clean)",
    EXPORTED: "as measured, records exported",
}
_READINGS = {"step": "step", "first_forward": "first forward", "dp_end": "DP end"}


def section(done: Sequence[Done]) -> str:
    """Setting, figures of the job, errors, and errors by host work."""
    lead = of(done, MEASURED) or list(done)
    results = [one.result for one in lead]
    world = [
        ["published, read from a plot", "about 23.6 s", "about 1.2 s", "-", "-"],
        ["ours", with_range([r["step_s"] for r in results], "{:.2f}", " s"),
         with_range([r["dp_s"] for r in results], "{:.2f}", " s"),
         f"{sum(r['steps_true'] for r in results):,}",
         percent_range([r["coverage"] for r in results])],
    ]  # fmt: skip
    world_head = ["", "step", "DP traffic at its end", "steps x ranks", "coverage"]
    errors_head = ["", "steps", "definition", "mean", "p50", "p99", "max", "bias",
                   "within 0.3 %", "coverage"]  # fmt: skip
    rows = [["published", "-", "not given", "within 0.3 %", "-", "-", "-", "-", "-", "-"]]
    rows += [
        row for name in _VARIANTS if (some := of(done, name)) for row in _error_rows(name, some)
    ]
    other_head = ["", "definition", f"mean, `{METHOD}`", f"mean, `{OTHER_METHOD}`",
                  "p99", "max", "bias", "within 0.3 %", "coverage"]  # fmt: skip
    others = [
        row for name in _VARIANTS if (some := of(done, name)) for row in _other_rows(name, some)
    ]
    work_head = ["host work [ms]", "steps", f"mean error of the step, `{METHOD}`", "largest",
                 f"mean error, `{OTHER_METHOD}`", "largest"]  # fmt: skip
    rise, steps = _rise(done), by_work(done)
    work_rows = [
        [f"{ms:g}", _steps(steps[ms]), *(percent_range(curve, 3) for curve in rise[ms])]
        for ms in rise
    ]
    allowed = PUBLISHED * 1e3 * mean(r["step_s"] for r in results)
    gpus = sum(job.ranks for job in lead[0].trial.scenario.jobs)
    return pages.text(
        "e3",
        method=f"`{METHOD}`",
        gpus=f"{gpus:,}",
        world=table(world_head, world),
        errors=table(errors_head, rows),
        other_errors=table(other_head, others),
        allowed=f"{allowed:.0f}",
        ours=f"{host_work_ms(lead[0]):g}",
        by_host_work=table(work_head, work_rows),
    )


def of(done: Sequence[Done], variant: str) -> list[Done]:
    """The trials of one variant."""
    return [one for one in done if one.trial.settings["variant"] == variant]


def _error_rows(variant: str, done: Sequence[Done]) -> list[list[str]]:
    """A row for each definition; an unmatched step counts as an error of 1."""
    names = ("mean", "p50", "p99", "max", "bias")
    start = [_VARIANTS[variant], _steps(done)]
    results = [one.result for one in done]
    return [[*start, _READINGS[one], *_figures(results, one, names)] for one in READINGS]


def _other_rows(variant: str, done: Sequence[Done]) -> list[list[str]]:
    """A row for each definition, with the mean error of one method and figures of the other."""
    published = [one.result for one in done]
    other = [result[OTHER_METHOD] for result in published]
    return [
        [
            _VARIANTS[variant],
            _READINGS[one],
            _figures(published, one, ("mean",))[0],
            *_figures(other, one, ("mean", "p99", "max", "bias")),
        ]
        for one in READINGS
    ]


def _figures(results: Sequence[dict[str, Any]], reading: str, names: Sequence[str]) -> list[str]:
    """Errors with these names, then the share within the published bound and the coverage."""
    readings = [result["readings"][reading] for result in results]
    return [
        *(percent_range([t[f"error_all_{name}"] for t in readings], 3) for name in names),
        percent_range([t["within_published"] for t in readings], 1),
        percent_range([result["coverage"] for result in results], 2),
    ]


def _steps(done: Sequence[Done]) -> str:
    """Number of steps of the job in these trials."""
    counts = {job.steps for one in done for _, job in one.trial.scenario.modelled}
    return " or ".join(map(str, sorted(counts)))


def _rise(done: Sequence[Done]) -> dict[float, list[list[float]]]:
    """By host work [ms], over the seeds: mean and largest error by each method."""
    return {
        ms: [
            [one.result.get(method, one.result)["readings"]["step"][name] for one in some]
            for method in (METHOD, OTHER_METHOD)
            for name in ("error_all_mean", "error_all_max")
        ]
        for ms, some in by_work(done).items()
    }


def by_work(done: Sequence[Done]) -> dict[float, list[Done]]:
    """Trials by host work [ms]; they differ only in it and in the number of steps."""
    some = [one for one in done if one.trial.settings["variant"] not in (CLEAN, EXPORTED)]
    found: dict[float, list[Done]] = {}
    for one in sorted(some, key=host_work_ms):
        found.setdefault(host_work_ms(one), []).append(one)
    return found


def gaps(done: Sequence[Done]) -> list[str]:
    """Unknown facts about the publication that change the error."""
    readings = [one.result["readings"] for one in of(done, MEASURED)]
    if not readings:
        return []
    step, forward = (
        percent_range([t[name]["error_all_mean"] for t in readings])
        for name in ("step", "first_forward")
    )
    return pages.paragraphs("e3-gaps", step=step, first_forward=forward)
