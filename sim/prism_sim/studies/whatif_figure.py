"""The cost of each change, or the gain of each repair; and the step times of affected jobs."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_common.quantities import percent
from prism_sim.render import paint
from prism_sim.run_folder import Run
from prism_sim.studies.whatif import RESULT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_JOBS = 4
_ROWS = 12  # repairs in the picture
_SHOWN_POINTS = 2.0  # smallest shown difference of effective training time ratios [points]
_ABOUT = "Both simulations have the same random draws, so they differ by the change alone."


@paint.styled
def draw(run: Run) -> Figure:
    """Bars of the cost of each change; below, step times of the most affected jobs."""
    content = run.read_json(run.folder / RESULT)
    repairs, costs = content.get("repairs"), content["costs"]
    shown = (costs[0] if repairs else costs[-1]) if costs else {"jobs": []}
    jobs, rows = _most_affected(shown), repairs[:_ROWS] if repairs else costs
    heights = [0.5 + 0.42 * len(rows)] + [1.5] * len(jobs)
    made = paint.figure(10, 1.3 + 1.1 * sum(heights))
    axes = made.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    if repairs:
        _draw_repairs(axes[0], rows)
    else:
        _draw_costs(axes[0], rows)
    for panel, job in zip(axes[1:], jobs, strict=True):
        ends = content["step_ends_s"]
        _draw_job(panel, job, {name: ends[name][job] for name in (shown["without"], shown["with"])})
    if jobs:
        axes[-1].xaxis.get_major_locator().set_params(integer=True)
        axes[-1].set_xlabel("step (one that was repeated after a restart counts once)")
        axes[1].legend(loc="upper left", bbox_to_anchor=(0.0, 1.02), ncols=2)
    made.supxlabel(_ABOUT, fontsize=8, color=paint.MUTED, x=0.01, ha="left")
    paint.title(made, _repair_found(content) if repairs else _cost_found(content))
    return made


def _most_affected(cost: dict[str, Any]) -> list[str]:
    """Jobs in order of the effect of a change, the largest effect first."""
    jobs = sorted(cost["jobs"], key=lambda job: -abs(job["gpu_hours"]))
    return [job["job"] for job in jobs[:_JOBS] if abs(job["extra_s"]) > 0]


def _draw_costs(axes: Axes, costs: list[dict[str, Any]]) -> None:
    import seaborn as sns

    values = [cost["gpu_hours"] for cost in costs]
    sign = ["costs" if value > 0 else "saves" for value in values]
    palette = {"costs": paint.WRONG, "saves": paint.REBUILT}
    rows = list(range(len(costs)))  # by number: two changes may have the same name
    bars = {"x": values, "y": rows, "hue": sign, "palette": palette, "orient": "h", "width": 0.6}
    sns.barplot(ax=axes, dodge=False, legend=False, saturation=1, **bars)
    for row, cost in enumerate(costs):
        _annotate(axes, row, cost["gpu_hours"], f"{cost['gpu_hours']:.3g} h{_slower(cost)}")
    axes.axvline(0, color=paint.MUTED, linewidth=0.7)
    axes.set_xlabel("cost: time with the change minus time without it, on all GPUs [GPU-hours]")
    _name_rows(axes, [cost["name"] for cost in costs])


def _slower(cost: dict[str, Any]) -> str:
    """The job whose steps change most, by how much, and an effective time that explains it.

    Longer steps count as effective, so the share of a slower job rises; that is no gain.
    """
    known = [job for job in cost["jobs"] if job["slower"]]
    if not known:
        return ""
    job = max(known, key=lambda one: abs(one["slower"]))
    sign = "+" if job["slower"] > 0 else ""
    words = f", steps of {job['job']} {sign}{percent(job['slower'])}"
    ratios = [100 * (job[f"effective_ratio_{side}"] or 0.0) for side in ("with", "without")]
    lost = ratios[1] - ratios[0]
    if (lost if job["slower"] > 0 else -lost) >= _SHOWN_POINTS:
        words += "\n" + "effective time {:.0f} % instead of {:.0f} %".format(*ratios)
    return words


def _draw_repairs(axes: Axes, repairs: list[dict[str, Any]]) -> None:
    """Two bars for each repair: the predicted gain, and that of the rerun."""
    import seaborn as sns

    rows = list(range(len(repairs)))
    shares = [100 * row[key] for key in ("predicted_share", "rerun_share") for row in repairs]
    sides = [side for side in ("by the diagnosis", "in the rerun") for _ in repairs]
    palette = {"by the diagnosis": paint.FINDING, "in the rerun": paint.REBUILT}
    bars = {"x": shares, "y": rows * 2, "hue": sides, "palette": palette, "orient": "h"}
    sns.barplot(ax=axes, saturation=1, width=0.7, **bars)
    for number, share in enumerate(shares):
        row, second = number % len(repairs), number >= len(repairs)
        _annotate(axes, row + (0.18 if second else -0.18), share, f"{share:.3g} %")
    axes.axvline(0, color=paint.MUTED, linewidth=0.7)
    axes.set_xlabel("time of the job that the repair gives back [% of its time]")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    _name_rows(axes, [f"{row['culprit']} ({', '.join(row['causes'])}), job {row['job']}"
                      for row in repairs])  # fmt: skip


def _annotate(axes: Axes, row: float, value: float, text: str) -> None:
    side = "left" if value >= 0 else "right"
    axes.annotate(text, (value, row), (4 if value >= 0 else -4, 0), textcoords="offset points",
                  va="center", ha=side, fontsize=8)  # fmt: skip


def _name_rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(list(range(len(names))), [textwrap.fill(name, 34) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.22)
    axes.set_ylabel("")
    axes.tick_params(axis="y", length=0)


def _draw_job(axes: Axes, job: str, variants: dict[str, list[float]]) -> None:
    import seaborn as sns

    for (name, ends), colour, width in zip(
        variants.items(), (paint.REBUILT, paint.WRONG), (2.2, 1.1), strict=True
    ):
        times = np.diff(np.array(ends), prepend=0.0)
        how: dict[str, Any] = {"drawstyle": "steps-mid", "linewidth": width, "color": colour}
        label = re.sub(r"-\d+", "", name).replace("-", " ")
        sns.lineplot(x=range(len(times)), y=times, label=label, legend=False, ax=axes, **how)
    axes.set_ylim(0, 1.35 * max(float(np.diff(e, prepend=0.0).max()) for e in variants.values()))
    axes.set_ylabel("step time [s]")
    axes.set_title(f"Job {job}")
    axes.grid(axis="y")


def _cost_found(content: dict[str, Any]) -> str:
    last = content["costs"][-1]
    verb = "costs" if last["gpu_hours"] >= 0 else "saves"
    where = f"{content['scenario']}, seed {content['seed']}"
    return f"{last['name']}: {verb} {abs(last['gpu_hours']):.3g} GPU-hours ({where})"


def _repair_found(content: dict[str, Any]) -> str:
    first = content["repairs"][0]
    predicted, rerun = (f"{100 * first[key]:.3g} %" for key in ("predicted_share", "rerun_share"))
    where = f"{content['scenario']}, seed {content['seed']}"
    return (
        f"Repairing {first['culprit']} would give back {predicted} of the time of {first['job']}; "
        f"the rerun gives back {rerun} ({where})"
    )
