"""E4, what is measured: DP bandwidth by leaf and time, the alerts, and what should have come out.

What should have come out follows from counting: f DP connections leave the sick leaf at once,
one uplink of rate C is left, so each has C / f; the rings that they belong to run at that
pace, and their other leaves see it as well. Those are the *affected* leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from prism_sim.toolkit import Run, Scenario, find_scenario, load_scenario, server_name
from reproduction.base import Result, Trial, diagnosed

NAME = "e4"
SLICE_S = 30.0  # about a step, so a slice rarely lacks a DP burst
BLOCKS = 32  # servers of the two blocks that a stage lies on
SYMPTOM = "low_switch_bandwidth"

_REDUCED = {
    "cluster.servers": 32,
    "jobs.0.pp": 1,
    "jobs.0.model.layers": 20,
    "duration_s": 300,
    "faults.0.from_s": 120,
    "faults.0.to_s": 210,
}


_SHORT = {
    "collector.idle_gap_us": 1000,  # tens of records a message
    "duration_s": 300,
    "faults.0.from_s": 120,
    "faults.0.to_s": 240,
}


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """One trial a seed; minutes of the first once more, with records cut after 1 ms of silence."""
    hours = [
        Trial(NAME, f"seed {seed}", _scenario(seed, reduced), {"cut_short": False})
        for seed in seeds
    ]
    short = _scenario(seeds[0], reduced, _SHORT)
    return [*hours, Trial(NAME, f"seed {seeds[0]}, 1 ms", short, {"cut_short": True})]


def _scenario(seed: int, reduced: bool, more: Mapping[str, Any] | None = None) -> Scenario:
    """The hour, each stage's replicas on two blocks in the order in which servers came free."""
    servers = 32 if reduced else 128
    shuffled = np.random.default_rng(seed).permuted(
        np.arange(servers).reshape(-1, BLOCKS), axis=1
    )  # fmt: skip
    names = [server_name(server) for server in shuffled.ravel().tolist()]
    overrides = {"seed": seed, "jobs.0.placement": {"servers": names}}
    return load_scenario(
        find_scenario("paper/e4"), overrides | (_REDUCED if reduced else {}) | dict(more or {})
    )


def measure(trial: Trial) -> Result:
    """Bandwidths, alerts, and the closed form of the fault."""
    with diagnosed(trial.scenario) as (run, score):
        dp = _dp_records(run)
        fault = run.truth("faults").iloc[0]
        findings = run.diagnosis("findings")
        affected = _affected(dp, str(fault["culprit"]))
        steps = run.truth("steps")
        closed_form = _closed_form(dp, trial.scenario, str(fault["culprit"]))
    epoch_ns = trial.scenario.epoch_ns
    window_s = [float(fault[end] - epoch_ns) / 1e9 for end in ("start_ns", "end_ns")]
    return {
        "step_s": float((steps["end_ns"] - steps["start_ns"]).mean() / 1e9),
        "fault_s": window_s,
        "affected": affected,
        "closed_form": closed_form,
        **_rates(dp, fault, affected),
        "series": _series(dp, trial.scenario),
        "alerts": _alerts(findings, epoch_ns),
        "other_findings": int((findings["symptom"] != SYMPTOM).sum()),
        "detected": bool(score["faults"]["detected"]),
        "named_first": bool(score["faults"]["localized_top1"]),
    }


def _dp_records(run: Run) -> pd.DataFrame:
    """DP records with their leaves and rate [bit/s]; pairs as they truly are."""
    columns = ["start_ns", "end_ns", "src", "dst", "bytes", "path"]
    flows = pd.read_parquet(run.flows, columns=columns)
    pairs = run.truth("pairs").query("kind == 'dp'")[["src", "dst"]]
    names = pd.Index(np.unique(pairs.to_numpy()))
    src, dst = (flows[end].cat.set_categories(names).cat.codes for end in ("src", "dst"))
    wanted = [names.get_indexer(pairs[end]) for end in ("src", "dst")]
    width = len(names) + 1  # codes begin with -1, for addresses without a DP pair
    key = src.to_numpy(np.int64) * width + dst.to_numpy(np.int64)
    flows = flows[np.isin(key, wanted[0] * width + wanted[1])]
    rate = 8e9 * flows["bytes"] / (flows["end_ns"] - flows["start_ns"])
    hops = flows["path"].cat.categories.str.split("|")
    leaves = {
        name: hops.str[at].to_numpy()[flows["path"].cat.codes]
        for name, at in (("first", 0), ("last", -1))
    }
    return flows.drop(columns="path").assign(rate=rate, **leaves)


def _affected(dp: pd.DataFrame, leaf: str) -> list[str]:
    """Leaves that share a ring with a connection over the sick leaf's uplinks."""
    across = dp[(dp["first"] != dp["last"])][["first", "last"]].drop_duplicates()
    own = across[(across["first"] == leaf) | (across["last"] == leaf)]
    return sorted({*own["first"], *own["last"], leaf})


def _closed_form(dp: pd.DataFrame, scenario: Scenario, leaf: str) -> dict[str, Any]:
    """Connections each way over the uplinks of ``leaf``, and the share of the busiest way."""
    apart = dp[dp["first"] != dp["last"]]
    out, back = (
        len(apart.loc[apart[end] == leaf, ["src", "dst"]].drop_duplicates())
        for end in ("first", "last")
    )
    left = scenario.cluster.uplinks - scenario.faults[0].failed  # type: ignore[attr-defined]
    gbps = left * scenario.cluster.uplink_gbps / max(out, back)
    return {"connections_out": out, "connections_in": back, "uplinks_left": left, "gbps": gbps}


def _by_leaf(records: pd.DataFrame) -> pd.Series:
    """Mean rate of the records that cross each leaf [Gbit/s]."""
    inside = records["first"] == records["last"]
    both = pd.concat([records[["first", "rate"]].set_axis(["leaf", "rate"], axis=1),
                      records.loc[~inside, ["last", "rate"]].set_axis(["leaf", "rate"], axis=1)]
                     )  # fmt: skip
    return both.groupby("leaf")["rate"].mean() / 1e9


def _rates(dp: pd.DataFrame, fault: pd.Series, affected: list[str]) -> dict[str, Any]:
    """Range of the leaves' mean rates, before the fault and while it lasts [Gbit/s]."""
    before = _by_leaf(dp[dp["end_ns"] <= fault["start_ns"]])
    since = dp[(dp["start_ns"] >= fault["start_ns"]) & (dp["end_ns"] <= fault["end_ns"])]
    during = _by_leaf(since)
    sick, well = during[during.index.isin(affected)], during[~during.index.isin(affected)]
    crossing = since[(since["first"] != since["last"])
                     & since[["first", "last"]].eq(str(fault["culprit"])).any(axis=1)]  # fmt: skip
    busy_s = (crossing["end_ns"] - crossing["start_ns"]).sum() / 1e9
    return {
        "leaves": len(before),
        "healthy_gbps": _spread(before),
        "others_gbps": _spread(well),
        "affected_gbps": _spread(sick),
        "affected_before_gbps": _spread(before[before.index.isin(affected)]),
        "crossing_gbps": float(8e-9 * crossing["bytes"].sum() / busy_s),
        "sigmas": _sigmas(during, affected),
    }


def _spread(rates: pd.Series) -> list[float]:
    return [float(value) for value in (rates.min(), rates.mean(), rates.max(), rates.std(ddof=0))]


def _sigmas(rates: pd.Series, affected: list[str]) -> dict[str, float]:
    """How far the lowest affected leaf lies below the mean; and how far it could at the most.

    Were all others alike, k of n equally low values would lie sqrt((n - k) / k) sigma out.
    """
    sick = rates[rates.index.isin(affected)]
    n, k = len(rates), max(len(sick), 1)
    return {
        "seen": float((rates.mean() - sick.min()) / rates.std(ddof=0)),
        "at_most": float(np.sqrt((n - k) / k)),
    }


def _series(dp: pd.DataFrame, scenario: Scenario) -> dict[str, list[float | None]]:
    """Mean rate by leaf and slice of time [Gbit/s], None without a record."""
    slices = int(float(scenario.duration_s or 0) // SLICE_S)
    at = ((dp["start_ns"] - scenario.epoch_ns) / 1e9 // SLICE_S).astype(int)
    found: dict[str, list[float | None]] = {}
    for slot, part in dp.groupby(at):
        if slot < slices:
            for leaf, rate in _by_leaf(part).items():
                found.setdefault(str(leaf), [None] * slices)[int(slot)] = round(float(rate), 1)
    return dict(sorted(found.items()))


def _alerts(findings: pd.DataFrame, epoch_ns: int) -> list[dict[str, Any]]:
    """Alerts about low bandwidth, by begin; times of the simulation [s]."""
    alerts = findings[findings["symptom"] == SYMPTOM].sort_values("start_ns")
    return [
        {
            "switch": str(row["culprit"]),
            "start_s": (row["start_ns"] - epoch_ns) / 1e9,
            "end_s": (row["end_ns"] - epoch_ns) / 1e9,
            "steps": int(row["last_step"] - row["first_step"]) + 1,
            "magnitude": float(row["magnitude"]),
        }
        for row in alerts.to_dict("records")
    ]
