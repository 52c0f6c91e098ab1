"""The timeline of a job close to a finding: its culprit, and the ranks that exchange with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from llmprism.page.activity import WAIT, codes_in
from llmprism.page.cards import Card
from llmprism.page.tables import Tables

_CLOSE_UPS = 6
_ROWS = 12
_ENOUGH = 6
_CULPRITS = 2
_SPANS = 4000
_AFTER_A_STOP = 1.5  # steps of a stop that are shown
_KINDS = ("compute", WAIT, "pp", "dp", "ep", "cp", "tp", "other", "unknown")


def close_ups(tables: Tables, jobs: list[str], cards: list[Card]) -> list[dict[str, Any]]:
    """One timeline for each of the first cards; without cards, one of the first job."""
    made = [
        _close_up(
            tables,
            card.job,
            card.number,
            card.addresses,
            (card.first_step, card.last_step),
            card.start_ns if card.stopped else None,
        )
        for card in cards[:_CLOSE_UPS]
    ]
    if not cards and jobs:
        steps = tables.job_steps(jobs[0]).index
        middle = int(steps[len(steps) // 2]) if len(steps) else 0
        made = [_close_up(tables, jobs[0], None, (), (middle, middle))]
    return [one for one in made if one is not None]


def _close_up(
    tables: Tables,
    job: str,
    number: int | None,
    culprits: tuple[str, ...],
    at: tuple[int, int],
    stopped_ns: int | None = None,
) -> dict[str, Any] | None:
    """Spans of some ranks in the step before the finding, and in its first two steps.

    Of a stop, its beginning is shown: it may last for thousands of steps. The records of the step
    that did not end are shown as traffic, since it has no spans.
    """
    steps = tables.job_steps(job)
    near = steps[(steps.index >= at[0] - 1) & (steps.index <= at[0] + 1)]
    if not len(near):
        return None
    own = tables.spans[(tables.spans["job"] == job) & tables.spans["step"].isin(near.index)]
    rows = _rows(tables, job, culprits)
    spans = _enough(own[own["address"].isin(rows)], rows)
    kept = set(spans["address"].astype(str).unique())
    rows = [address for address in rows if address in kept] or rows
    steps_shown = tables.steps[(tables.steps["job"] == job) & tables.steps["address"].isin(rows)]
    ends = steps_shown[steps_shown["step"].isin(near.index)]
    start, end = int(near["start_ns"].min()), int(near["end_ns"].max())
    if stopped_ns is not None:
        usual = float((steps["end_ns"] - steps["start_ns"]).median())
        end = round(max(start, stopped_ns) + _AFTER_A_STOP * usual)
        whole = ends[ends["end_ns"] <= max(start, stopped_ns)]
        spans = pd.concat([spans, _unfinished(tables, rows, whole, end)], ignore_index=True)
    return {
        "finding": number,
        "job": job,
        "rows": [_label(tables, address, address in culprits) for address in rows],
        "start_ms": (start - tables.origin_ns) / 1e6,
        "length_ms": (end - start) / 1e6,
        "spans": _columns(spans, rows, start),
        "ends": _ends(ends, rows, start),
        "omitted": int((tables.jobs["job"] == job).sum()) - len(rows),
        "kinds": _KINDS,
    }


def _unfinished(tables: Tables, rows: list[str], ends: pd.DataFrame, until_ns: int) -> pd.DataFrame:
    """What each of ``rows`` sent after its last whole step, as spans of the step after it."""
    last = ends.assign(address=ends["address"].astype(str)).groupby("address")
    end_ns, step = last["end_ns"].max(), last["step"].max()
    flows = tables.flows[tables.flows["src"].isin(rows) & (tables.flows["start_ns"] < until_ns)]
    flows = flows.astype({"src": str, "dst": str})
    flows = flows[flows["start_ns"] >= flows["src"].map(end_ns)]
    kinds = tables.pairs.astype({"src": str, "dst": str, "kind": str})
    kinds = kinds.drop_duplicates(["src", "dst"])[["src", "dst", "kind"]]
    sent = flows.merge(kinds, on=["src", "dst"], how="left").rename(columns={"src": "address"})
    after = pd.to_numeric(sent["address"].map(step)) + 1
    sent = sent.assign(kind=sent["kind"].fillna("unknown"), step=after)
    return sent[["address", "step", "kind", "start_ns", "end_ns"]]


def _rows(tables: Tables, job: str, culprits: tuple[str, ...]) -> list[str]:
    """Addresses to show: culprits, then members of their pipelines and groups, then others."""
    members = tables.addresses_of(job)
    chosen = [address for address in members if address in culprits][:_CULPRITS] or members[:1]
    groups = tables.groups[tables.groups["job"] == job]
    for kind in ("pp", "dp"):
        mine = groups[groups["kind"] == kind]
        ids = mine.loc[mine["address"].isin(chosen[:1]), "group"]
        peers = mine[mine["group"].isin(ids)].sort_values(["group", "position", "address"])
        chosen = list(dict.fromkeys([*chosen, *peers["address"].astype(str)]))
    if len(chosen) < _ENOUGH:
        chosen = list(dict.fromkeys([*chosen, *members]))[:_ENOUGH]
    return chosen[:_ROWS]


def _enough(spans: pd.DataFrame, rows: list[str]) -> pd.DataFrame:
    """Spans of as many of ``rows`` as the page has room for."""
    counts = spans["address"].astype(str).value_counts().reindex(rows, fill_value=0).cumsum()
    kept = max(2, int((counts <= _SPANS).sum()))
    own = spans[spans["address"].isin(rows[:kept])]
    return own.sort_values("start_ns").head(2 * _SPANS)


def _label(tables: Tables, address: str, culprit: bool) -> dict[str, Any]:
    return {"address": address, "server": tables.parts.server(address), "culprit": culprit}


def _columns(spans: pd.DataFrame, rows: list[str], start: int) -> dict[str, list[int]]:
    """Spans as columns of integers: row, kind, start and length [us], step; by row and time."""
    row = codes_in(spans["address"], pd.Index(rows))
    kind = codes_in(spans["kind"], pd.Index(_KINDS))
    begin = (spans["start_ns"].to_numpy(np.int64) - start) // 1000
    length = (spans["end_ns"] - spans["start_ns"]).to_numpy(np.int64) // 1000
    order = np.lexsort((begin, row))
    kind = np.where(kind < 0, len(_KINDS) - 1, kind)
    columns = {"row": row, "kind": kind, "start": begin, "length": length, "step": spans["step"]}
    return {name: np.asarray(values)[order].tolist() for name, values in columns.items()}


def _ends(steps: pd.DataFrame, rows: list[str], start: int) -> dict[str, list[int]]:
    """Ends of the steps: row, time [us], step."""
    time = (steps["end_ns"].to_numpy(np.int64) - start) // 1000
    row = codes_in(steps["address"], pd.Index(rows))
    return {"row": row.tolist(), "time": time.tolist(), "step": steps["step"].tolist()}
