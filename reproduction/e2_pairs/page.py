"""E2 on the page: Table I redrawn, five jobs, and accuracy over the noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from prism_sim.toolkit import paint, table
from reproduction import pages
from reproduction.base import Done, PageFigure
from reproduction.drawing import mean_and_range
from reproduction.e2_pairs.levels import (
    BIT_ERRORS,
    CACHE,
    CAUSES,
    MESSAGES,
    PLATFORMS,
    UNDISTURBED,
    WINDOW,
)
from reproduction.e2_pairs.measure import trials
from reproduction.words import percent_range, with_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PUBLISHED = {60: 0.9600, 180: 0.9793, 300: 0.9803, 600: 0.9961}
"""Accuracy without refinement by window [s] (table I); with it, 1 at all four."""

_RAW, _REFINED = "accuracy_unrefined", "accuracy"
_LOOK = {
    _RAW: (paint.KINDS["dp"], "without refinement"),
    _REFINED: (paint.REBUILT, "with refinement"),
}

_NAMES = {
    UNDISTURBED: "undisturbed",
    MESSAGES: "lossy, messages seen",
    CACHE: "lossy, flow cache",
}
"""Names of the platforms on the page."""


def section(done: Sequence[Done]) -> str:
    """Table I beside ours, then what each job gives, then which way errors go."""
    done = _whole(done)
    if not done:
        return "No seed finished with all its jobs.\n"
    windows = [e for one in done for e in one.result["windows"] if e["platform"] == UNDISTURBED]
    return pages.text(
        "e2",
        **_setting(done),
        by_window=[
            {"label": label, "table": _by_window(done, what)} for what, (_, label) in _LOOK.items()
        ],
        by_job=_by_job(done),
        clean=_misread(windows),
        noisy=_misread([entry for one in done for entry in one.result["curves"]]),
        shortest=_span(_windows(done)[0]),
        crossings=_crossings(done),
    )


def _whole(done: Sequence[Done]) -> list[Done]:
    """The trials of those seeds that have all their jobs: a share over fewer is another share."""
    of_seed = Counter(one.trial.scenario.seed for one in done)
    reduced = any(one.trial.settings["levels_of"] for one in done)
    wanted = len(trials([1], reduced))
    return [one for one in done if of_seed[one.trial.scenario.seed] == wanted]


def _setting(done: Sequence[Done]) -> dict[str, Any]:
    """The jobs, and what each platform does."""
    sizes = sorted({job.ranks for one in done for _, job in one.trial.scenario.modelled})
    cache = PLATFORMS[CACHE]
    return {
        "jobs": len({one.result["job"] for one in done}),
        "gpus": " or ".join(f"{size:,}" for size in sizes),
        "undisturbed": _NAMES[UNDISTURBED],
        "messages": _NAMES[MESSAGES],
        "cache": _NAMES[CACHE],
        "bits": f"{BIT_ERRORS:g}",
        "window": WINDOW,
        "idle": f"{cache['idle_gap_us'] / 1000:g}",
        "age": f"{cache['active_timeout_s']:g}",
    }


def _by_window(done: Sequence[Done], what: str) -> str:
    rows = []
    for window_s in _windows(done):
        published = "-"
        if window_s in PUBLISHED:
            published = f"{100 * PUBLISHED[window_s]:.2f} %" if what == _RAW else "100 %"
        ours = [
            percent_range(_by_seed(done, _at(window_s, platform), what)) for platform in PLATFORMS
        ]
        rows.append([_span(window_s), published, *ours])
    return table(["window", "published", *(f"ours: {_NAMES[name]}" for name in PLATFORMS)], rows)


def _by_job(done: Sequence[Done]) -> str:
    jobs = dict.fromkeys(one.result["job"] for one in done)
    choose = _at(_windows(done)[0], UNDISTURBED)
    rows = []
    for job in jobs:
        own = [one for one in done if one.result["job"] == job]
        step = with_range((one.result["step_s"] for one in own), "{:.1f}", " s")
        right = [percent_range(_by_seed(own, choose, what)) for what in (_RAW, _REFINED)]
        rows.append([job, _layout(own[0]), step, *right])
    return table(["job", "layout", "step", "without refinement", "with refinement"], rows)


def _layout(one: Done) -> str:
    (_, job), *_ = one.trial.scenario.modelled
    return f"DP {job.dp}, PP {job.pp}, TP {job.tp}, ZeRO {job.zero_stage}"


def _misread(entries: Sequence[dict[str, Any]]) -> dict[str, str]:
    """How many pairs were misread in each direction."""
    return {
        name: f"{sum(entry[f'{name}_unrefined'] for entry in entries):,}"
        for name in ("dp_as_pp", "pp_as_dp")
    }


def _crossings(done: Sequence[Done]) -> str:
    """Where each curve comes down to the published figure of the shortest window."""
    shortest = _windows(done)[0]
    wanted = PUBLISHED.get(shortest, PUBLISHED[60])
    start = _mean(_by_seed(done, _at(shortest, UNDISTURBED), _RAW))
    rows = []
    for name, cause in CAUSES.items():
        levels = [0.0, *_levels(done, name)]
        means = [start, *(_mean(_by_seed(done, _level(name, one), _RAW)) for one in levels[1:])]
        below = next((n for n, mean in enumerate(means) if mean < wanted), None)
        where = "not in its range" if below is None else "at none already"
        if below:
            where = f"between {_short(levels[below - 1])} and {_short(levels[below])}"
        worst = min(zip(means, levels, strict=True))
        lowest = f"{100 * worst[0]:.2f} % at {_short(worst[1])}"
        rows.append([cause.title, cause.unit, where, lowest])
    head = ["disturbance", "level", f"falls below {100 * wanted:.2f} %", "lowest"]
    return table(head, rows)


def _levels(done: Sequence[Done], cause: str) -> list[float]:
    entries = (entry for one in done for entry in one.result["curves"])
    return sorted({entry["level"] for entry in entries if entry["cause"] == cause})


def gaps(done: Sequence[Done]) -> list[str]:
    """Where ours leave the published figures, and why."""
    done = _whole(done)
    if not done or not all(window_s in PUBLISHED for window_s in _windows(done)):
        return []  # the reduced form has nothing to be compared with
    longest = _span(_windows(done)[-1])
    return pages.paragraphs("e2-gaps", short=_short_of(done), worse=_worse(done), longest=longest)


def _short_of(done: Sequence[Done]) -> list[dict[str, str]]:
    """Windows in which refinement does not mend everything, though nothing is disturbed."""
    refined = {w: _by_seed(done, _at(w, UNDISTURBED), _REFINED) for w in _windows(done)}
    return [
        {"accuracy": percent_range(values), "window": _span(window_s)}
        for window_s, values in refined.items()
        if min(values) < 1
    ]


def _worse(done: Sequence[Done]) -> list[dict[str, str]]:
    """Platforms on which refinement makes it worse in the longest window."""
    longest = _windows(done)[-1]
    found = []
    for platform in PLATFORMS:
        raw, refined = (_by_seed(done, _at(longest, platform), what) for what in (_RAW, _REFINED))
        if _mean(refined) < _mean(raw):
            shares = {"raw": percent_range(raw), "refined": percent_range(refined)}
            found.append({**shares, "platform": _NAMES[platform]})
    return found


def pictures(done: Sequence[Done]) -> list[PageFigure]:
    """Accuracy over the window, and over the noise."""
    done = _whole(done)
    if not done:
        return []
    noise = pages.sentence("e2-noise", shortest=_span(_windows(done)[0]))
    return [
        PageFigure("e2-windows", pages.sentence("e2-windows"), _draw_windows(done)),
        PageFigure("e2-noise", noise, _draw_noise(done)),
    ]


@paint.styled
def _draw_windows(done: Sequence[Done]) -> Figure:
    made = paint.figure(11, 3.6)
    panels = made.subplots(1, len(PLATFORMS), sharey=True)
    windows = _windows(done)
    for axes, platform in zip(panels, PLATFORMS, strict=True):
        for what, (colour, label) in _LOOK.items():
            values = [_by_seed(done, _at(window_s, platform), what) for window_s in windows]
            dashed = what == _REFINED
            _band(axes, range(len(windows)), values, colour, f"ours, {label}", dashed)
        known = [n for n, window_s in enumerate(windows) if window_s in PUBLISHED]
        for what, (colour, label) in _LOOK.items():
            published = [100 * PUBLISHED[windows[n]] if what == _RAW else 100.0 for n in known]
            axes.scatter(known, published, marker="D", s=26, facecolor="none", edgecolor=colour,
                         label=f"published, {label}", zorder=3)  # fmt: skip
        axes.set_xticks(range(len(windows)), [_span(window_s) for window_s in windows])
        axes.set_title(_NAMES[platform].capitalize(), fontsize=8.5)
        axes.grid(axis="y")
    panels[0].set_ylabel("pair types right [%]")
    handles, labels = panels[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower left", ncols=4)
    paint.title(made, "Pair types right, by the length of the window")
    return made


@paint.styled
def _draw_noise(done: Sequence[Done]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    made = paint.figure(11, 6.2)
    rows = made.subplots(2, 3, sharey="row")
    for axes, name in zip(rows.ravel(), CAUSES, strict=True):
        _draw_cause(axes, done, name)
    for row in rows:
        lowest = min(axes.dataLim.y0 for axes in row)
        floor = 5 * (lowest // 5)
        row[0].set_ylim(floor, 100 + 0.04 * (100 - floor))
        row[0].yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        row[0].set_ylabel("pair types right [%]")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower left", ncols=4)
    shortest = _span(_windows(done)[0])
    paint.title(made, f"Pair types right in {shortest}, one disturbance at a time")
    return made


def _draw_cause(axes: Axes, done: Sequence[Done], name: str) -> None:
    """The curves of one disturbance; levels at equal distances, whose ticks do not collide."""
    cause, levels = CAUSES[name], _levels(done, name)
    clean = _at(_windows(done)[0], UNDISTURBED)
    places = range(1, len(levels) + 1) if cause.log else levels
    for what, (colour, label) in _LOOK.items():
        refined = what == _REFINED
        values = [_by_seed(done, _level(name, level), what) for level in levels]
        _band(axes, places, values, colour, label, dashed=refined)
        start = 100 * _mean(_by_seed(done, clean, what))
        axes.scatter([0], [start], s=14 if refined else 40, color=colour, zorder=3)
        line = 100.0 if refined else 100 * PUBLISHED[60]
        axes.axhline(line, color=colour, linewidth=0.9, linestyle=":", zorder=1,
                     label=f"published, {label}")  # fmt: skip
    none = "messages" if name == "merging" else "0"
    axes.set_xticks([0, *places], [none, *map(_short, levels)])
    axes.tick_params(axis="x", labelsize=7.5)
    axes.set_title(cause.title, fontsize=9)
    axes.set_xlabel(cause.unit)
    axes.grid(axis="y")


def _band(
    axes: Axes,
    places: Iterable[float],
    values: list[list[float]],
    colour: str,
    label: str,
    dashed: bool = False,
) -> None:
    """Mean and range over the seeds; ``dashed``, so that a line below it is seen."""
    scaled = [[100 * value for value in many] for many in values]
    how: dict[str, Any] = {"marker": "o", "markersize": 3.5 if dashed else 4.5, "linewidth": 1.4}
    how |= {"linestyle": (0, (3, 2)) if dashed else "-", "color": colour, "label": label}
    mean_and_range(axes, list(places), scaled, **how)


def _windows(done: Sequence[Done]) -> list[int]:
    return sorted({entry["window_s"] for one in done for entry in one.result["windows"]})


Chosen = Callable[[dict[str, Any]], dict[str, Any]]
"""Finds one score in a trial's result."""


def _at(window_s: int, platform: str) -> Chosen:
    def choose(result: dict[str, Any]) -> dict[str, Any]:
        wanted = (window_s, platform)
        entries: list[dict[str, Any]] = result["windows"]
        return next(e for e in entries if (e["window_s"], e["platform"]) == wanted)

    return choose


def _level(cause: str, level: float) -> Chosen:
    def choose(result: dict[str, Any]) -> dict[str, Any]:
        entries: list[dict[str, Any]] = result["curves"]
        return next(e for e in entries if (e["cause"], e["level"]) == (cause, level))

    return choose


def _by_seed(done: Sequence[Done], choose: Chosen, what: str) -> list[float]:
    """Share of right pairs over all jobs of a seed, one value a seed."""
    right: dict[int, float] = {}
    total: dict[int, int] = {}
    for one in done:
        entry, seed = choose(one.result), one.trial.scenario.seed
        right[seed] = right.get(seed, 0.0) + entry["total"] * entry[what]
        total[seed] = total.get(seed, 0) + entry["total"]
    return [right[seed] / total[seed] for seed in right]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _span(window_s: float) -> str:
    return f"{window_s // 60:g} min" if window_s % 60 == 0 else f"{window_s:g} s"


def _short(level: float) -> str:
    return f"{level:g}" if 1e-3 <= level < 1e4 else f"{level:.2g}".replace("e-0", "e-")
