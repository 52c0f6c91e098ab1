"""E2 on the page: Table I, five jobs, and accuracy over the disturbances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean as mean
from typing import Any

from prism_sim.toolkit import table
from reproduction import pages
from reproduction.base import OTHER_METHOD, Done
from reproduction.e2_pairs.levels import (
    BIT_ERRORS,
    CACHE,
    COLLECTORS,
    DISTURBANCES,
    MESSAGES,
    UNDISTURBED,
    WINDOW,
)
from reproduction.e2_pairs.measure import trials
from reproduction.pages import percent_range, with_range

PUBLISHED = {60: 0.9600, 180: 0.9793, 300: 0.9803, 600: 0.9961}
"""Accuracy without refinement by window [s] (table I); with it, 1 at all four."""

RAW, REFINED, OTHER = "accuracy_unrefined", "accuracy", "accuracy_other"
LABELS = {RAW: "without refinement", REFINED: "with refinement"}

NAMES = {UNDISTURBED: "undisturbed", MESSAGES: "lossy, messages known", CACHE: "lossy, flow cache"}
"""Names of the collectors on the page."""

Entry = tuple[int, dict[str, Any]]
"""Seed, and the scores of one window of its records."""


def _entries(done: Sequence[Done], what: str, wanted: Mapping[str, Any]) -> Iterator[Entry]:
    """The scores that have a figure, and have the wanted window, collector, or disturbance."""
    for one in done:
        for entry in (*one.result["windows"], *one.result["curves"]):
            if what in entry and wanted.items() <= entry.items():
                yield one.trial.scenario.seed, entry


def values_of(done: Sequence[Done], name: str, what: str = RAW, **wanted: Any) -> list[Any]:
    """The windows or levels with a share of correct pairs, in their order."""
    return sorted({e[name] for _, e in _entries(done, what, wanted) if name in e})


def by_seed(done: Sequence[Done], what: str, **wanted: Any) -> list[float]:
    """Share of correct pairs over all jobs of a seed, one value for each seed."""
    right: dict[int, float] = {}
    total: dict[int, int] = {}
    for seed, entry in _entries(done, what, wanted):
        right[seed] = right.get(seed, 0.0) + entry["total"] * entry[what]
        total[seed] = total.get(seed, 0) + entry["total"]
    return [right[seed] / total[seed] for seed in right]


def span(window_s: float) -> str:
    return f"{window_s // 60:g} min" if window_s % 60 == 0 else f"{window_s:g} s"


def short(level: float) -> str:
    return f"{level:g}" if 1e-3 <= level < 1e4 else f"{level:.2g}".replace("e-0", "e-")


def section(done: Sequence[Done]) -> str:
    """Table I and ours, then the results of each job, then the direction of errors."""
    done = _complete(done)
    if not done:
        return "No seed finished with all its jobs.\n"
    entries = [e for one in done for e in one.result["windows"] if e["collector"] == UNDISTURBED]
    windows, others = (values_of(done, "window_s", what) for what in (RAW, OTHER))
    return pages.text(
        "e2",
        **_setting(done),
        by_window=[
            *(
                {"label": label, "table": _by_window(done, what, windows)}
                for what, label in LABELS.items()
            ),
            {
                "label": f"by `{OTHER_METHOD}`, which has no refinement",
                "table": _by_window(done, OTHER, others),
            },
        ],
        other_windows=" and ".join(map(span, others)),
        by_job=_by_job(done),
        clean=_wrong(entries),
        noisy=_wrong([entry for one in done for entry in one.result["curves"]]),
        shortest=span(windows[0]),
        crossings=_crossings(done),
    )


def _complete(done: Sequence[Done]) -> list[Done]:
    """The trials of the seeds whose jobs all have a result, because shares are over all jobs."""
    of_seed = Counter(one.trial.scenario.seed for one in done)
    reduced = any(one.trial.settings["levels_of"] for one in done)
    wanted = len(trials([1], reduced))
    return [one for one in done if of_seed[one.trial.scenario.seed] == wanted]


def _setting(done: Sequence[Done]) -> dict[str, Any]:
    """Figures about the jobs and the collectors."""
    sizes = sorted({job.ranks for one in done for _, job in one.trial.scenario.modelled})
    cache = COLLECTORS[CACHE]
    return {
        "jobs": len({one.result["job"] for one in done}),
        "gpus": " or ".join(f"{size:,}" for size in sizes),
        "undisturbed": NAMES[UNDISTURBED],
        "messages": NAMES[MESSAGES],
        "cache": NAMES[CACHE],
        "bits": f"{BIT_ERRORS:g}",
        "window": WINDOW,
        "idle": f"{cache['idle_gap_us'] / 1000:g}",
        "age": f"{cache['active_timeout_s']:g}",
    }


def _by_window(done: Sequence[Done], what: str, windows: Sequence[int]) -> str:
    rows = []
    for window_s in windows:
        published = "-"
        if window_s in PUBLISHED:
            published = f"{100 * PUBLISHED[window_s]:.2f} %" if what == RAW else "100 %"
        shares = (by_seed(done, what, window_s=window_s, collector=one) for one in COLLECTORS)
        ours = [percent_range(share) for share in shares]
        rows.append([span(window_s), published, *ours])
    return table(["window", "published", *(f"ours: {NAMES[name]}" for name in COLLECTORS)], rows)


def _by_job(done: Sequence[Done]) -> str:
    jobs = dict.fromkeys(one.result["job"] for one in done)
    chosen = {"window_s": values_of(done, "window_s")[0], "collector": UNDISTURBED}
    rows = []
    for job in jobs:
        own = [one for one in done if one.result["job"] == job]
        step = with_range((one.result["step_s"] for one in own), "{:.1f}", " s")
        right = [percent_range(by_seed(own, what, **chosen)) for what in (RAW, REFINED, OTHER)]
        rows.append([job, _layout(own[0]), step, *right])
    head = ["without refinement", "with refinement", f"by `{OTHER_METHOD}`"]
    return table(["job", "layout", "step", *head], rows)


def _layout(one: Done) -> str:
    (_, job), *_ = one.trial.scenario.modelled
    return f"DP {job.dp}, PP {job.pp}, TP {job.tp}, ZeRO {job.zero_stage}"


def _wrong(entries: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Number of pairs with a wrong type, in each direction."""
    return {
        name: f"{sum(entry[f'{name}_unrefined'] for entry in entries):,}"
        for name in ("dp_as_pp", "pp_as_dp")
    }


def _crossings(done: Sequence[Done]) -> str:
    """The level at which each curve falls below the published figure of the shortest window."""
    shortest = values_of(done, "window_s")[0]
    wanted = PUBLISHED.get(shortest, PUBLISHED[60])
    start = mean(by_seed(done, RAW, window_s=shortest, collector=UNDISTURBED))
    rows = []
    for name, disturbance in DISTURBANCES.items():
        levels = [0.0, *values_of(done, "level", disturbance=name)]
        shares = (by_seed(done, RAW, disturbance=name, level=one) for one in levels[1:])
        means = [start, *map(mean, shares)]
        below = next((n for n, mean in enumerate(means) if mean < wanted), None)
        where = "at no level" if below is None else "at level 0"
        if below:
            where = f"between {short(levels[below - 1])} and {short(levels[below])}"
        worst = min(zip(means, levels, strict=True))
        lowest = f"{100 * worst[0]:.2f} % at {short(worst[1])}"
        rows.append([disturbance.title, disturbance.unit, where, lowest])
    head = ["disturbance", "level", f"falls below {100 * wanted:.2f} %", "lowest"]
    return table(head, rows)


def gaps(done: Sequence[Done]) -> list[str]:
    """Differences from the published figures, and their reasons."""
    done = _complete(done)
    windows = values_of(done, "window_s")
    if not done or not all(window_s in PUBLISHED for window_s in windows):
        return []  # the reduced form has nothing to be compared with
    longest = span(windows[-1])
    return pages.paragraphs("e2-gaps", short=_short_of(done), worse=_worse(done), longest=longest)


def _short_of(done: Sequence[Done]) -> list[dict[str, str]]:
    """Windows in which types are wrong after refinement, without any disturbance."""
    return [
        {"accuracy": percent_range(values), "window": span(window_s)}
        for window_s in values_of(done, "window_s")
        if min(values := by_seed(done, REFINED, window_s=window_s, collector=UNDISTURBED)) < 1
    ]


def _worse(done: Sequence[Done]) -> list[dict[str, str]]:
    """Collectors for which refinement lowers the accuracy in the longest window."""
    longest = values_of(done, "window_s")[-1]
    found = []
    for collector in COLLECTORS:
        raw, refined = (
            by_seed(done, what, window_s=longest, collector=collector) for what in (RAW, REFINED)
        )
        if mean(refined) < mean(raw):
            shares = {"raw": percent_range(raw), "refined": percent_range(refined)}
            found.append({**shares, "collector": NAMES[collector]})
    return found
