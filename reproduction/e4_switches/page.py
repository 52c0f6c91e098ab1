"""E4 on the page: what fell, why, and whether somebody was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prism_sim.render import paint
from prism_sim.render.markdown import table
from reproduction.base import Done, Picture
from reproduction.e4_switches.measure import SLICE_S
from reproduction.words import with_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEALTHY, FALLEN = (100, 180), (30, 60)
"""Published ranges of switches as they should be, and of those that fell [Gbit/s]."""

_WORDS = """\
One job of {gpus:,} GPUs on {leaves} leaves, for {minutes:g} minutes. From minute {begin:g} to
{end:g} one leaf has lost {failed} of its {uplinks} uplinks, and the hash sends all that crosses it
over what is left. No bandwidth is written anywhere: healthy rates follow from NICs of {nic:g}
Gbit/s, SimAI's measured efficiency and collisions of hashed connections, the low ones from the
number of connections that share the uplink. Where a stage's servers lie is not in the scenario's
file: with each seed `reproduction/e4_switches/measure.py` shuffles them within their
two blocks, as if they had come free one by one. A leaf's rate is the mean over the DP records that
cross it, as published. Pipeline messages share the uplink too, so DP records across it stay a
little below the closed form.
"""


def section(done: Sequence[Done]) -> str:
    """Rates and alerts beside the published ones, then seed by seed with the closed form."""
    hours = _hours(done)
    if not hours:
        return "Nothing finished.\n"
    return "\n".join([_setting(hours[0]), _overall(hours), "Seed by seed\n", _by_seed(hours)])


def _setting(one: Done) -> str:
    scenario = one.trial.scenario
    cluster = scenario.cluster
    begin_s, end_s = one.result["fault_s"]
    return _WORDS.format(
        gpus=sum(job.ranks for _, job in scenario.modelled),
        leaves=cluster.leaves,
        minutes=float(scenario.duration_s or 0) / 60,
        begin=begin_s / 60,
        end=end_s / 60,
        failed=cluster.uplinks - one.result["closed_form"]["uplinks_left"],
        uplinks=cluster.uplinks,
        nic=cluster.nic_gbps,
    )


def _overall(done: Sequence[Done]) -> str:
    results = [one.result for one in done]
    raised = sum(bool(_right(r)) for r in results)
    right = sum(len(_right(r)) for r in results)
    wrong = sum(len(r["alerts"]) for r in results) - right
    further = with_range((r["other_findings"] for r in results), "{:.0f}")
    delay = with_range(map(_delay_s, results), "{:.0f}", " s")
    of = f"{raised} of {len(results)} seeds"
    rows = [
        *_rate_rows(results, "leaves before the fault", HEALTHY, "healthy_gbps"),
        *_rate_rows(results, "struck leaves while it lasts", FALLEN, "struck_gbps"),
        ["alert raised", "yes", of],
        ["first alert after the failure", "-", f"{delay} ({of})" if raised else "-"],
        ["alerts about struck leaves / false ones, all seeds", "-", f"{right} / {wrong}"],
        ["further findings (slow steps, groups, contention)", "-", further],
    ]
    return table(["", "published", "ours"], rows)


def _rate_rows(
    results: list[dict[str, Any]], what: str, published: tuple[int, int], name: str
) -> list[list[str]]:
    """Lowest, mean and highest leaf, each with its mean and range over the seeds."""
    told = (f"from {published[0]} Gbit/s", "-", f"to {published[1]} Gbit/s")
    return [
        [f"{what}, {which}", of, with_range((r[name][at] for r in results), "{:.0f}", " Gbit/s")]
        for at, (which, of) in enumerate(zip(("lowest", "mean", "highest"), told, strict=True))
    ]


def _by_seed(done: Sequence[Done]) -> str:
    head = [
        "seed",
        "connections out / in",
        "closed form: uplink / connections",
        "records across it",
        "struck leaves",
        "lowest lies",
        "if others were alike",
        "alert",
    ]
    rows = []
    for one in done:
        r, form = one.result, one.result["closed_form"]
        rows.append(
            [
                str(one.trial.scenario.seed),
                f"{form['connections_out']} / {form['connections_in']}",
                f"{form['gbps']:.1f} Gbit/s",
                f"{r['crossing_gbps']:.1f} Gbit/s",
                f"{', '.join(r['struck'])}: {r['struck_gbps'][0]:.0f} to {r['struck_gbps'][2]:.0f}",
                f"{r['sigmas']['seen']:.2f} sigma out",
                f"{r['sigmas']['at_most']:.2f}",
                _told(r),
            ]
        )
    return table(head, rows)


def _told(result: dict[str, Any]) -> str:
    right = _right(result)
    if not right:
        return "none"
    return f"{', '.join(dict.fromkeys(a['switch'] for a in right))} after {_delay_s(result):.0f} s"


def _right(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Alerts about a struck leaf while the fault lasts."""
    start, end = result["fault_s"]
    return [
        alert
        for alert in result["alerts"]
        if alert["switch"] in result["struck"] and alert["end_s"] > start and alert["start_s"] < end
    ]


def _delay_s(result: dict[str, Any]) -> float | None:
    """From the failure to the first DP burst that an alert is about [s]."""
    right = _right(result)
    start: float = result["fault_s"][0]
    return max(0.0, min(alert["start_s"] for alert in right) - start) if right else None


def gaps(done: Sequence[Done]) -> list[str]:
    """What leaves the published ranges, when no alert was raised, and what is not published."""
    hours = _hours(done)
    told = [*_beyond(hours), *_quiet(hours)]
    told.append(
        "E4: which switches fell, for how long and why is not published, nor what delimits a flow."
    )
    for one in done:
        if one not in hours:
            low, _, high, _ = one.result["struck_gbps"]
            told.append(
                f"E4 hangs on how records are cut: with an idle gap of 1 ms instead of 15 ms (seed "
                f"{one.trial.scenario.seed}), a slowed ring shows single bursts at full rate, and "
                f"the struck leaves' mean is {low:.0f} to {high:.0f} Gbit/s while the fault lasts."
            )
    return told


def _beyond(hours: Sequence[Done]) -> list[str]:
    """A sentence for every range that ours leave."""
    told = []
    for name, published, whose in (
        ("healthy_gbps", HEALTHY, "leaves before the fault"),
        ("struck_gbps", FALLEN, "struck leaves"),
    ):
        ranges = {one.trial.scenario.seed: one.result[name] for one in hours}
        out = [s for s, r in ranges.items() if r[0] < published[0] or r[2] > published[1]]
        if out:
            low, high = min(r[0] for r in ranges.values()), max(r[2] for r in ranges.values())
            told.append(
                f"E4: {whose}: published {published[0]} to {published[1]} Gbit/s, ours {low:.0f} "
                f"to {high:.0f} Gbit/s over all seeds; beyond the published range with seed "
                f"{', '.join(map(str, out))}. {_CAUSES[name]}"
            )
    return told


_CAUSES = {
    "healthy_gbps": "How connections are hashed onto uplinks decides how far leaves differ, and "
    "neither fabric nor hash is published.",
    "struck_gbps": "The fewer connections share the uplink that is left, the more has each; the "
    "placement decides how many do.",
}
"""Where rates beyond the published ones come from, by figure."""


def _quiet(hours: Sequence[Done]) -> list[str]:
    """Seeds without an alert, and how far the lowest leaf was from one."""
    quiet = [one for one in hours if not _right(one.result)]
    if not quiet:
        return []
    seeds = ", ".join(str(one.trial.scenario.seed) for one in quiet)
    sigma = with_range((one.result["sigmas"]["seen"] for one in quiet), "{:.2f}")
    return [
        f"E4: no alert for seed {seeds}. The rule wants more than 3 sigma; over the whole fault "
        f"the lowest leaf lies {sigma} sigma below the mean, since healthy leaves differ among "
        "themselves and the low ones are in the sample that they are held against. The "
        "publication shows one incident, and no rate of alerts."
    ]


def _hours(done: Sequence[Done]) -> list[Done]:
    """The hours as such, without those whose records are cut otherwise."""
    return [one for one in done if not one.trial.settings["cut_short"]]


def pictures(done: Sequence[Done]) -> list[Picture]:
    """The hour of the first seed, whatever became of it."""
    hours = _hours(done)
    if not hours:
        return []
    shown = hours[0]
    caption = (
        f"Mean rate of DP records by leaf, in slices of {SLICE_S:.0f} s (seed "
        f"{shown.trial.scenario.seed}, the first). Yellow: the uplinks are gone. Blue: the "
        "published ranges, of healthy switches and of those that fell. "
        f"{_alerts_told(shown.result)}"
    )
    return [Picture("e4-hour", caption, _draw(shown))]


def _alerts_told(result: dict[str, Any]) -> str:
    return "Triangles: alerts." if result["alerts"] else "No alert was raised."


@paint.styled
def _draw(one: Done) -> Figure:
    result = one.result
    made = paint.figure(11, 4.0)
    axes = made.subplots()
    _bands(axes)
    _lines(axes, result)
    start, end = (value / 60 for value in result["fault_s"])
    axes.axvspan(start, end, color=paint.FAULT, alpha=0.22, linewidth=0, zorder=0)
    for n, alert in enumerate(result["alerts"]):
        right = alert in _right(result)
        axes.scatter(
            [alert["start_s"] / 60], [8], marker="^", s=44,
            color=paint.FINDING if right else paint.WRONG, zorder=4,
            label="alert" if n == 0 else None,
        )  # fmt: skip
    slices = len(next(iter(result["series"].values())))
    axes.set_xlim(0, slices * SLICE_S / 60)
    axes.set_ylim(0)
    axes.set_xlabel("time [min]")
    axes.set_ylabel("mean rate of DP records [Gbit/s]")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    form = result["closed_form"]
    paint.title(
        made,
        f"{max(form['connections_out'], form['connections_in'])} connections share the one uplink "
        f"that is left, {form['gbps']:.0f} Gbit/s each",
    )
    return made


def _bands(axes: Axes) -> None:
    for low, high, label in ((*HEALTHY, "healthy"), (*FALLEN, "fallen")):
        axes.axhspan(low, high, facecolor=paint.KINDS["cp"], alpha=0.13, linewidth=0, zorder=0)
        axes.text(1.01, (low + high) / 2, f"published:\n{label}", fontsize=8, va="center",
                  transform=axes.get_yaxis_transform())  # fmt: skip


def _lines(axes: Axes, result: dict[str, Any]) -> None:
    colours = iter(("#aa3377", "#0072b2", "#d55e00", "#332288"))
    first = True
    for leaf, rates in result["series"].items():
        x = [(n + 0.5) * SLICE_S / 60 for n, rate in enumerate(rates) if rate is not None]
        y = [rate for rate in rates if rate is not None]
        if leaf in result["struck"]:
            axes.plot(x, y, color=next(colours, paint.INK), linewidth=1.6, label=leaf, zorder=3)
        else:
            axes.plot(x, y, color=paint.MUTED, alpha=0.35, linewidth=0.7,
                      label="other leaves" if first else None)  # fmt: skip
            first = False
