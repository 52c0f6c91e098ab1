"""Figures of the study of findings: shares with confidence intervals, by kind and by slowdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fault_study import Row
from prism_sim.render.markdown import table
from prism_sim.render.pages import render_page

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "results" / "reference"
MATTERS = 0.03  # slowdown from which a fault has to be found
NEAR = 0.01  # of the time of its steps, by which the cost of a fault may be wrong
SLOWDOWNS = (0.0, 0.01, 0.03, 0.06, 0.12, 0.25, np.inf)
SURE = (0.0, 0.5, 0.7, 0.85, 0.95, 1.01)  # bounds of confidences
WANTED = 0.95  # recall of the headline
DEVIATIONS = 1.96  # of the normal distribution: an interval of 95 %

Figure = dict[str, Any]


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share (Wilson's score interval).

    >>> [round(bound, 3) for bound in wilson(9, 10)]
    [0.596, 0.982]
    """
    if of == 0:
        return 0.0, 1.0
    z, share = DEVIATIONS, hits / of
    middle = share + z * z / (2 * of)
    half = z * np.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    whole = 1 + z * z / of
    return max(0.0, float((middle - half) / whole)), min(1.0, float((middle + half) / whole))


def share(rows: Sequence[Row], holds: Callable[[Row], Any]) -> Figure:
    """How many of ``rows`` satisfy a condition, with the interval."""
    hits = sum(bool(holds(row)) for row in rows)
    low, high = wilson(hits, len(rows))
    value = hits / len(rows) if rows else None
    return {"hits": hits, "of": len(rows), "share": value, "low": low, "high": high}


def matters(row: Row) -> bool:
    """Whether a fault slows its job enough to be expected, or stops it."""
    return row["slowdown"] is None or row["stops"] or row["slowdown"] >= MATTERS


def summary(rows: Sequence[Row]) -> dict[str, Figure]:
    """All figures of some worlds with a fault."""
    due = [row for row in rows if matters(row)]
    found = [row for row in due if row["detected"]]
    findings = sum(row["findings"] for row in rows)
    true = findings - sum(row["false"] for row in rows)
    low, high = wilson(true, findings)
    precision = {"hits": true, "of": findings, "low": low, "high": high}
    return {
        "recall": share(due, lambda row: row["detected"]),
        "precision": precision | {"share": true / findings if findings else None},
        "culprit first": share(due, lambda row: row["first"]),
        "culprit among three": share(due, lambda row: row["among"]),
        "cause right": share(found, lambda row: row["cause_right"]),
        "cause right, or one of those named": share(found, lambda row: row["one_of_causes"]),
        "cost within 1 point": share(
            [row for row in found if row["cost_error"] is not None],
            lambda row: abs(row["cost_error"]) <= NEAR,
        ),
    }


def wrong_costs(rows: Sequence[Row]) -> Figure:
    """Of the costs that are wrong, those that a reader of the true steps has wrong as well."""
    found = [row for row in rows if matters(row) and row["detected"]]
    wrong = [row for row in found if abs(row["cost_error"] or 0.0) > NEAR]
    return share(wrong, lambda row: abs(row["known_cost_error"] or 0.0) > NEAR)


def delays(rows: Sequence[Row]) -> Figure:
    """Steps until a fault is found."""
    steps = [row["delay"] for row in rows if row["detected"] and row["delay"] is not None]
    if not steps:
        return {"of": 0, "median": None, "p95": None}
    middle, late = np.quantile(steps, [0.5, 0.95])
    return {"of": len(steps), "median": round(float(middle), 1), "p95": round(float(late), 1)}


def false_rate(rows: Sequence[Row]) -> Figure:
    """False findings in 1,000 job-steps of healthy runs; the interval is by runs (bootstrap)."""
    false = np.array([row["false"] for row in rows], float)
    steps = np.array([row["job_steps"] for row in rows], float)
    figure = {"runs": len(rows), "false": int(false.sum()), "job_steps": int(steps.sum())}
    if not rows:
        return figure | {"rate": None, "low": None, "high": None, "runs with": 0}
    stream = np.random.default_rng(12)
    chosen = stream.integers(len(rows), size=(2000, len(rows)))
    rates = 1e3 * false[chosen].sum(axis=1) / steps[chosen].sum(axis=1)
    low, high = np.quantile(rates, [0.025, 0.975])
    rate = float(1e3 * false.sum() / steps.sum())
    bounds = {"low": float(low), "high": float(high)}
    return figure | bounds | {"rate": rate, "runs with": int((false > 0).sum())}


def smallest(rows: Sequence[Row]) -> float | None:
    """The smallest slowdown from which on the wanted share of faults is found; None if none."""
    known = [row for row in rows if row["slowdown"] is not None and not row["stops"]]
    for row in sorted(known, key=lambda row: float(row["slowdown"])):
        above = [other for other in known if other["slowdown"] >= row["slowdown"]]
        if sum(other["detected"] for other in above) >= WANTED * len(above):
            return float(row["slowdown"])
    return None


def by_slowdown(rows: Sequence[Row]) -> list[list[str]]:
    """Recall and localisation against the slowdown of the job."""
    lines = []
    for label, own in at_slowdowns(rows):
        found = share(own, lambda row: row["detected"])
        first = share(own, lambda row: row["first"])
        lines.append([label, str(len(own)), written(found), written(first)])
    return lines


def at_slowdowns(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The faults whose job goes on, by how much slower it becomes."""
    known = [row for row in rows if row["slowdown"] is not None and not row["stops"]]
    for low, high in pairwise(SLOWDOWNS):
        last = f"{100 * low:g} % and more"
        label = last if high == np.inf else f"{100 * low:g} to {100 * high:g} %"
        yield label, [row for row in known if low <= row["slowdown"] < high]


def responses(rows: Sequence[Row], group: Callable[[Row], str]) -> str:
    """Found, culprit first and drawn faults of each group at each slowdown, as a table."""
    groups = sorted({group(row) for row in rows}, key=size_or_name)
    labels = [label for label, _ in at_slowdowns(rows)]
    lines = []
    for name in groups:
        own = [row for row in rows if group(row) == name]
        cells = [
            f"{sum(row['detected'] for row in part)} / {sum(row['first'] for row in part)}"
            f" / {len(part)}"
            if part
            else ""
            for _, part in at_slowdowns(own)
        ]
        if any(cells):
            lines.append([name, *cells])
    return table(["", *labels], lines)


def reliability(rows: Sequence[Row]) -> str:
    """Share of worlds whose first finding is true, and names the culprit, by its confidence."""
    lines = []
    sure = [(row.get("confidence") or row["found"][0][-1], row) for row in rows if row["found"]]
    for low, high in pairwise(SURE):
        own = [(value, row) for value, row in sure if low <= value < high]
        if own:
            true = share([row for _, row in own], lambda row: row["injected"] and row["detected"])
            right = share([row for _, row in own], lambda row: row["injected"] and row["first"])
            mean = sum(value for value, _ in own) / len(own)
            lines.append([f"{low:g} to {min(high, 1.0):g}", f"{mean:.2f}", str(len(own)),
                          written(true), written(right)])  # fmt: skip
    return table(["confidence", "mean", "worlds", "a fault was found", "its culprit first"], lines)


def size_or_name(name: str) -> tuple[int, str]:
    first = name.split()[0]
    return int(first) if first.isdigit() else 0, name


def job_size(row: Row) -> str:
    """Ranks of the job, in a few groups."""
    ranks = row["dp"] * row["pp"] * row["tp"]
    return "8 ranks" if ranks <= 8 else "9 to 16 ranks" if ranks <= 16 else "17 to 64 ranks"


def pairs_table(rows: Sequence[Row]) -> str:
    """The figures of two faults in one job, one after the other and at once."""
    lines = []
    for label, at_once in (("one after the other", False), ("at once", True)):
        own = [row for row in rows if row["at_once"] == at_once]
        due = [one for row in own for one in row["faults"] if matters(one)]
        found = [one for one in due if one["detected"]]
        costs = [one for one in found if one["cost_error"] is not None]
        figures = [
            share(due, lambda one: one["detected"]),
            share(due, lambda one: one["first"]),
            share(found, lambda one: one["cause_right"]),
            share(costs, lambda one: abs(one["cost_error"]) <= NEAR),
        ]
        false = f"{sum(row['false'] for row in own)} of {sum(row['findings'] for row in own)}"
        lines.append([label, str(len(own)), str(len(due)), *map(written, figures), false])
    names = ["recall", "culprit first", "cause right", "cost within 1 point", "false findings"]
    return table(["two faults", "worlds", "3 % or more", *names], lines)


def written(figure: Figure) -> str:
    """A share with its interval, in percent."""
    if not figure["of"]:
        return "-"
    low, high = 100 * figure["low"], 100 * figure["high"]
    return f"{100 * figure['share']:.0f} % ({low:.0f} to {high:.0f})"


NAMES = ("recall", "precision", "culprit first", "culprit among three", "cause right",
         "cause right, or one of those named", "cost within 1 point")  # fmt: skip


def grouped_table(rows: Sequence[Row], key: str) -> str:
    """The figures for each value of ``key``."""
    values = sorted({str(row[key]) for row in rows})
    lines = []
    for value in values:
        own = [row for row in rows if str(row[key]) == value]
        figures = summary(own)
        due = sum(map(matters, own))
        lines.append([f"`{value}`", f"{len(own)} / {due}", *(written(figures[n]) for n in NAMES)])
    return table([key, "drawn / 3 % or more", *NAMES], lines)


def write_pages(rows: Sequence[Row], pairs: Sequence[Row], first: int) -> None:
    """Write ``faults.md`` and ``faults.json``."""
    content = content_of(rows, pairs, first)
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    (REFERENCE / "faults.json").write_text(text, encoding="utf-8")
    (REFERENCE / "faults.md").write_text(page_of(content), encoding="utf-8")


def content_of(rows: Sequence[Row], pairs: Sequence[Row], first: int) -> dict[str, Any]:
    """Every figure of the study, and the rows that they follow from."""
    faulty = [row for row in rows if row["injected"]]
    kinds = sorted({row["kind"] for row in faulty})
    sudden = [row for row in faulty if "at_once" in row]
    return {
        "first_seed": first,
        "faults": len(faulty),
        "due": sum(map(matters, faulty)),
        "healthy": false_rate([row for row in rows if not row["injected"]]),
        "all": summary(faulty),
        "wrong_costs": wrong_costs(faulty),
        "delay": delays(faulty),
        "at_once": share(sudden, lambda row: row["at_once"]),
        "smallest_slowdown_with_recall_95": smallest(faulty),
        "by_kind": {kind: summary([r for r in faulty if r["kind"] == kind]) for kind in kinds},
        "rows": [*map(_without_key, rows)],
        "pairs": [*map(_without_key, pairs)],
    }


def _without_key(row: Row) -> Row:
    return {name: row[name] for name in row if name != "key"}


def page_of(content: dict[str, Any]) -> str:
    """The page with the figures of ``content``."""
    faulty = [row for row in content["rows"] if row["injected"]]
    whole, headline = content["all"], content["smallest_slowdown_with_recall_95"]
    return render_page(
        ROOT / "scripts" / "templates", "faults",
        faults=content["faults"], due=content["due"], first=content["first_seed"],
        healthy=content["healthy"], delay=content["delay"], wrong_costs=content["wrong_costs"],
        at_once=content["at_once"], named_at_once=written(content["at_once"]),
        pairs=len(content["pairs"]), by_order=pairs_table(content["pairs"]),
        headline="none" if headline is None else f"{100 * headline:.1f} %",
        figures=table(["figure", "all kinds"], [[name, written(whole[name])] for name in NAMES]),
        by_kind=grouped_table(faulty, "kind"), by_telemetry=grouped_table(faulty, "telemetry"),
        by_schedule=grouped_table(faulty, "schedule"),
        reliability=reliability(content["rows"]),
        by_kind_and_slowdown=responses(faulty, lambda row: f"`{row['kind']}`"),
        by_telemetry_and_slowdown=responses(faulty, lambda row: f"`{row['telemetry']}`"),
        by_size_and_slowdown=responses(faulty, job_size),
        by_slowdown=table(
            ["slowdown of the job", "faults", "found", "culprit first"], by_slowdown(faulty)
        ),
    )  # fmt: skip
