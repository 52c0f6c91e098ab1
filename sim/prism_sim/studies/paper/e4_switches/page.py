"""E4 on the page: what fell, why, and whether somebody was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prism_sim.render import paint
from prism_sim.studies.paper.base import Done, Picture
from prism_sim.studies.paper.e4_switches.measure import SLICE_S
from prism_sim.studies.paper.words import table, with_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WORDS = """\
One job of 1,024 GPUs on 64 leaves, for an hour. From minute 30 to 40 one leaf has lost 15 of its 16
uplinks, and the hash sends all that crosses it over the last one. No bandwidth is written anywhere:
healthy rates follow from NICs of 400 Gbit/s, SimAI's measured efficiency and collisions of hashed
connections, the low ones from the number of connections that share the uplink. A leaf's rate is
the mean over the DP records that cross it, as published. Pipeline messages share the uplink too, so
DP records across it stay a little below the closed form.
"""


def section(done: Sequence[Done]) -> str:
    """Rates and alerts beside the published ones, then seed by seed with the closed form."""
    hours = _hours(done)
    return "\n".join([_WORDS, _overall(hours), "Seed by seed\n", _by_seed(hours)])


def _overall(done: Sequence[Done]) -> str:
    results = [one.result for one in done]
    healthy, struck = (_low_high(results, name) for name in ("healthy_gbps", "struck_gbps"))
    mean = with_range((r["healthy_gbps"][1] for r in results), "{:.0f}", " Gbit/s")
    raised = f"{sum(bool(_right(r)) for r in results)} of {len(results)} seeds"
    right = sum(len(_right(r)) for r in results)
    wrong = sum(len(r["alerts"]) for r in results) - right
    further = with_range((r["other_findings"] for r in results), "{:.0f}")
    rows = [
        ["leaves before the fault, lowest to highest", "100 to 180 Gbit/s", healthy],
        ["their mean", "-", mean],
        ["struck leaves while it lasts", "30 to 60 Gbit/s", struck],
        ["alert raised", "yes", raised],
        ["first alert after the failure", "-", with_range(map(_delay_s, results), "{:.0f}", " s")],
        ["alerts about struck leaves / false ones, all seeds", "-", f"{right} / {wrong}"],
        ["further findings (slow steps, groups, contention)", "-", further],
    ]
    return table(["", "published", "ours"], rows)


def _low_high(results: list[dict[str, Any]], name: str) -> str:
    low, high = min(r[name][0] for r in results), max(r[name][2] for r in results)
    return f"{low:.0f} to {high:.0f} Gbit/s"


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
    """When no alert was raised, and what is not published."""
    hours = _hours(done)
    quiet = [one for one in hours if not _right(one.result)]
    told = []
    if quiet:
        seeds = ", ".join(str(one.trial.scenario.seed) for one in quiet)
        sigma = with_range((one.result["sigmas"]["seen"] for one in quiet), "{:.2f}")
        told.append(
            f"E4: no alert for seed {seeds}. The rule wants more than 3 sigma; over the whole "
            f"fault the lowest leaf lies {sigma} sigma below the mean. Healthy leaves differ by "
            "as much as the published range says, and the low ones are in the sample that they "
            "are held against. The publication shows one incident, and no rate of alerts."
        )
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


def _hours(done: Sequence[Done]) -> list[Done]:
    """The hours as such, without those whose records are cut otherwise."""
    return [one for one in done if not one.trial.settings["cut_short"]]


def pictures(done: Sequence[Done]) -> list[Picture]:
    """The hour of the first seed with an alert, or of the first."""
    hours = _hours(done)
    shown = next((one for one in hours if _right(one.result)), hours[0])
    caption = (
        f"Mean rate of DP records by leaf, in slices of {SLICE_S:.0f} s (seed "
        f"{shown.trial.scenario.seed}). Yellow: the uplinks are gone. Blue: the published "
        "ranges, of healthy switches and of those that fell. Triangles: alerts."
    )
    return [Picture("e4-hour", caption, _draw(shown))]


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
    for low, high, label in ((100, 180, "healthy"), (30, 60, "fallen")):
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
