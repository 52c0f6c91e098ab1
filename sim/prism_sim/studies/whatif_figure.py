"""The cost of each fault, and the step times of affected jobs with and without it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_sim.render import paint
from prism_sim.run_folder import Run
from prism_sim.studies.whatif import RESULT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_JOBS = 4


@paint.styled
def draw(run: Run) -> Figure:
    """Bars of the cost of each change; below, step times of the most affected jobs."""
    content = run.read_json(run.folder / RESULT)
    costs, ends = content["costs"], content["step_ends_s"]
    jobs = _most_hit(costs)
    heights = [0.5 + 0.42 * len(costs)] + [1.5] * len(jobs)
    made = paint.figure(10, 1.1 + 1.1 * sum(heights))
    axes = made.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_costs(axes[0], costs)
    slow, fast = costs[-1]["with"], costs[-1]["without"]
    for panel, job in zip(axes[1:], jobs, strict=True):
        _draw_job(panel, job, {name: ends[name][job] for name in (fast, slow)})
    axes[-1].set_xlabel("step")
    if jobs:
        axes[1].legend(loc="upper left", bbox_to_anchor=(0.0, 1.02), ncols=2)
    paint.title(made, _finding(content))
    return made


def _most_hit(costs: list[dict[str, Any]]) -> list[str]:
    """Jobs in order of the effect of the last change, the largest effect first."""
    jobs = sorted(costs[-1]["jobs"], key=lambda job: -abs(job["gpu_hours"]))
    return [job["job"] for job in jobs[:_JOBS] if abs(job["extra_s"]) > 0]


def _draw_costs(axes: Axes, costs: list[dict[str, Any]]) -> None:
    import seaborn as sns

    values = [cost["gpu_hours"] for cost in costs]
    names = [textwrap.fill(cost["name"], 34) for cost in costs]
    sign = ["costs" if value > 0 else "saves" for value in values]
    palette = {"costs": paint.WRONG, "saves": paint.REBUILT}
    rows = list(range(len(costs)))  # by number: two changes may have the same name
    bars = {"x": values, "y": rows, "hue": sign, "palette": palette, "orient": "h", "width": 0.6}
    sns.barplot(ax=axes, dodge=False, legend=False, saturation=1, **bars)
    for row, value in zip(rows, values, strict=True):
        side = "left" if value >= 0 else "right"
        axes.annotate(f"{value:.3g}", (value, row), (4 if value >= 0 else -4, 0),
                      textcoords="offset points", va="center", ha=side, fontsize=8)  # fmt: skip
    axes.axvline(0, color=paint.MUTED, linewidth=0.7)
    axes.set_yticks(rows, names)
    axes.set_ylim(len(costs) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.set_xlabel("cost [GPU-hours]")
    axes.set_ylabel("")
    axes.tick_params(axis="y", length=0)


def _draw_job(axes: Axes, job: str, variants: dict[str, list[float]]) -> None:
    import seaborn as sns

    for (name, ends), colour, width in zip(
        variants.items(), (paint.REBUILT, paint.WRONG), (2.2, 1.1), strict=True
    ):
        times = np.diff(np.array(ends), prepend=0.0)
        how: dict[str, Any] = {"drawstyle": "steps-mid", "linewidth": width, "color": colour}
        label = name.replace("-", " ")
        sns.lineplot(x=range(len(times)), y=times, label=label, legend=False, ax=axes, **how)
    axes.set_ylim(0, 1.35 * max(float(np.diff(e, prepend=0.0).max()) for e in variants.values()))
    axes.set_ylabel("step time [s]")
    axes.set_title(f"Job {job}")
    axes.grid(axis="y")


def _finding(content: dict[str, Any]) -> str:
    last = content["costs"][-1]
    verb = "costs" if last["gpu_hours"] >= 0 else "saves"
    where = f"{content['scenario']}, seed {content['seed']}"
    return f"{last['name']}: {verb} {abs(last['gpu_hours']):.3g} GPU-hours ({where})"
