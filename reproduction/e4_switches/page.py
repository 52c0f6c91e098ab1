"""E4 on the page: the bandwidths that fell, the reason, and the alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prism_sim.toolkit import paint, table
from reproduction import pages
from reproduction.base import METHOD, OTHER_METHOD, Done, PageFigure
from reproduction.e4_switches.measure import SLICE_S
from reproduction.pages import with_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Published:
    """A published range of rates [Gbit/s].

    ``figure`` is its name in a result; ``leaves`` and ``label`` name it on the page and in the
    picture.
    """

    figure: str
    leaves: str
    label: str
    low: int
    high: int


PUBLISHED = (
    Published("healthy_gbps", "leaves before the fault", "healthy", 100, 180),
    Published("affected_gbps", "affected leaves during the fault", "fallen", 30, 60),
)


def section(done: Sequence[Done]) -> str:
    """Rates and alerts next to the published ones, then by seed with the closed form."""
    hours = _hours(done)
    if not hours:
        return "Nothing finished.\n"
    return pages.text(
        "e4",
        **_setting(hours[0]),
        hours=[(one.trial.scenario.seed, one.result) for one in hours],
        published=PUBLISHED,
        alerts=_alerts(hours),
        alert_text=_alert_text,
    )


def _setting(one: Done) -> dict[str, Any]:
    scenario = one.trial.scenario
    cluster = scenario.cluster
    begin_s, end_s = one.result["fault_s"]
    return {
        "gpus": f"{sum(job.ranks for _, job in scenario.modelled):,}",
        "leaves": cluster.leaves,
        "minutes": f"{float(scenario.duration_s or 0) / 60:g}",
        "begin": f"{begin_s / 60:g}",
        "end": f"{end_s / 60:g}",
        "failed": cluster.uplinks - one.result["closed_form"]["uplinks_left"],
        "uplinks": cluster.uplinks,
        "nic": f"{cluster.nic_gbps:g}",
    }


def _alerts(done: Sequence[Done]) -> str:
    """A row for each figure of the alerts, and a column for each method."""
    names = [
        "alert about an affected leaf",
        "alert about the failed leaf itself",
        "first alert after the failure",
        "alerts about affected leaves / false alerts, all seeds",
        "other findings (slow steps, groups, contention)",
    ]
    published = ["yes", "-", "-", "-", "-"]
    failed = [one.trial.scenario.faults[0].model_dump()["leaf"] for one in done]
    results = [one.result for one in done]
    others = [{**result, **result[OTHER_METHOD]} for result in results]
    columns = [_alert_figures(results, failed), _alert_figures(others, failed)]
    rows = [list(row) for row in zip(names, published, *columns, strict=True)]
    return table(["", "published", f"ours, `{METHOD}`", f"ours, `{OTHER_METHOD}`"], rows)


def _alert_figures(results: Sequence[dict[str, Any]], failed: Sequence[str]) -> list[str]:
    """Figures of the alerts of one method; ``failed`` is the failed leaf of each result."""
    true = [_true_alerts(result) for result in results]
    named = [
        any(alert["switch"] == leaf for alert in alerts)
        for leaf, alerts in zip(failed, true, strict=True)
    ]
    raised, right = sum(map(bool, true)), sum(map(len, true))
    wrong = sum(len(result["alerts"]) for result in results) - right
    of = f"{raised} of {len(results)} seeds"
    delay = with_range(map(_delay_s, results), "{:.0f}", " s")
    return [
        of,
        f"{sum(named)} of {len(results)} seeds",
        f"{delay} ({of})" if raised else "-",
        f"{right} / {wrong}",
        with_range((result["other_findings"] for result in results), "{:.0f}"),
    ]


def _alert_text(result: dict[str, Any]) -> str:
    alerts = _true_alerts(result)
    if not alerts:
        return "none"
    return f"{', '.join(dict.fromkeys(a['switch'] for a in alerts))} after {_delay_s(result):.0f} s"


def _true_alerts(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Alerts about an affected leaf during the fault."""
    start, end = result["fault_s"]
    return [
        alert
        for alert in result["alerts"]
        if alert["switch"] in result["affected"]
        and alert["end_s"] > start
        and alert["start_s"] < end
    ]


def _delay_s(result: dict[str, Any]) -> float | None:
    """Time from the start of the fault to the first DP burst of a true alert [s]."""
    alerts = _true_alerts(result)
    start: float = result["fault_s"][0]
    return max(0.0, min(alert["start_s"] for alert in alerts) - start) if alerts else None


def gaps(done: Sequence[Done]) -> list[str]:
    """Rates outside the published ranges, seeds without an alert, and facts not published."""
    hours = _hours(done)
    short_gap = [
        {"seed": one.trial.scenario.seed, **_low_and_high([one.result["affected_gbps"]])}
        for one in done
        if one not in hours
    ]
    return pages.paragraphs(
        "e4-gaps", outside=_outside(hours), quiet=_without_alert(hours), short_gap=short_gap
    )


def _outside(hours: Sequence[Done]) -> list[dict[str, Any]]:
    """Each published range that our rates leave, with its figures."""
    found = []
    for published in PUBLISHED:
        ranges = {one.trial.scenario.seed: one.result[published.figure] for one in hours}
        out = [s for s, r in ranges.items() if r[0] < published.low or r[2] > published.high]
        if out:
            ours = _low_and_high(ranges.values())
            found.append({"published": published, "seeds": out, **ours})
    return found


def _low_and_high(ranges: Iterable[Sequence[float]]) -> dict[str, str]:
    """Lowest and highest rate of ``ranges`` (lowest, mean, highest, spread) [Gbit/s]."""
    listed = list(ranges)
    low, high = min(one[0] for one in listed), max(one[2] for one in listed)
    return {"low": f"{low:.0f}", "high": f"{high:.0f}"}


def _without_alert(hours: Sequence[Done]) -> dict[str, Any] | None:
    """Seeds without a true alert, and the distance of their lowest leaf from the mean."""
    quiet = [one for one in hours if not _true_alerts(one.result)]
    if not quiet:
        return None
    sigma = with_range((one.result["sigmas"]["observed"] for one in quiet), "{:.2f}")
    return {"seeds": [one.trial.scenario.seed for one in quiet], "sigma": sigma}


def _hours(done: Sequence[Done]) -> list[Done]:
    """The trials of an hour, without the one with a short idle gap."""
    return [one for one in done if not one.trial.settings["short_gap"]]


def pictures(done: Sequence[Done]) -> list[PageFigure]:
    """The hour of the first seed."""
    hours = _hours(done)
    if not hours:
        return []
    shown = hours[0]
    seed, alerts = shown.trial.scenario.seed, shown.result["alerts"]
    others = shown.result[OTHER_METHOD]["alerts"]
    caption = pages.sentence(
        "e4-hour", slice=f"{SLICE_S:.0f}", seed=seed, alerts=alerts, others=others
    )
    return [PageFigure("e4-hour", caption, _draw(shown))]


@paint.styled
def _draw(one: Done) -> Figure:
    result = one.result
    made = paint.figure(11, 4.0)
    axes = made.subplots()
    _bands(axes)
    _lines(axes, result)
    start, end = (value / 60 for value in result["fault_s"])
    axes.axvspan(start, end, color=paint.FAULT, alpha=0.22, linewidth=0, zorder=0)
    _alert_marks(axes, result)
    slices = len(next(iter(result["series"].values())))
    axes.set_xlim(0, slices * SLICE_S / 60)
    axes.set_ylim(0)
    axes.set_xlabel("time [min]")
    axes.set_ylabel("mean rate of DP records [Gbit/s]")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    form = result["closed_form"]
    paint.title(
        made,
        f"{max(form['connections_out'], form['connections_in'])} connections share the "
        f"remaining uplink, {form['gbps']:.0f} Gbit/s each",
    )
    return made


def _alert_marks(axes: Axes, result: dict[str, Any]) -> None:
    """Draw a triangle for each alert of the published method, and a bar for each of the other."""
    for method, found in ((METHOD, result), (OTHER_METHOD, {**result, **result[OTHER_METHOD]})):
        for n, alert in enumerate(found["alerts"]):
            colour = paint.FINDING if alert in _true_alerts(found) else paint.WRONG
            how: dict[str, Any] = {"color": colour, "zorder": 4}
            how |= {"label": f"alert of {method}" if n == 0 else ""}
            begin, end = alert["start_s"] / 60, alert["end_s"] / 60
            if method == METHOD:
                axes.scatter([begin], [8], marker="^", s=44, **how)
            else:
                axes.hlines(20, begin, end, linewidth=4, **how)


def _bands(axes: Axes) -> None:
    for one in PUBLISHED:
        low, high = one.low, one.high
        axes.axhspan(low, high, facecolor=paint.KINDS["cp"], alpha=0.13, linewidth=0, zorder=0)
        axes.text(1.01, (low + high) / 2, f"published:\n{one.label}", fontsize=8, va="center",
                  transform=axes.get_yaxis_transform())  # fmt: skip


def _lines(axes: Axes, result: dict[str, Any]) -> None:
    import seaborn as sns

    colours = iter(("#aa3377", "#0072b2", "#d55e00", "#332288"))
    first = True
    for leaf, rates in result["series"].items():
        x = [(n + 0.5) * SLICE_S / 60 for n, rate in enumerate(rates) if rate is not None]
        y = [rate for rate in rates if rate is not None]
        if leaf in result["affected"]:
            how: dict[str, Any] = {"color": next(colours, paint.INK), "linewidth": 1.6}
            how |= {"label": leaf, "zorder": 3}
        else:
            how = {"color": paint.MUTED, "alpha": 0.35, "linewidth": 0.7}
            how |= {"label": "other leaves" if first else None}
            first = False
        sns.lineplot(x=x, y=y, estimator=None, legend=False, ax=axes, **how)
