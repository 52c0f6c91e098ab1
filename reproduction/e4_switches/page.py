"""E4 on the page: the bandwidths that fell, the reason, and the alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prism_sim.toolkit import table
from reproduction import pages
from reproduction.base import METHOD, OTHER_METHOD, Done
from reproduction.pages import with_range


@dataclass(frozen=True)
class Published:
    """A published range of rates [Gbit/s].

    ``figure`` is its name in a result, and ``leaves`` on the page.
    """

    figure: str
    leaves: str
    low: int
    high: int


PUBLISHED = (
    Published("healthy_gbps", "leaves before the fault", 100, 180),
    Published("affected_gbps", "affected leaves during the fault", 30, 60),
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
