"""Measure E4: DP bandwidth by leaf, the alerts, and the expected bandwidth.

The expected bandwidth is a closed form. If f DP connections leave the faulty leaf at the same time
over one remaining uplink of rate C, each connection gets C / f. Their rings run at this rate, so
the other leaves of these rings are slow as well. These leaves are the *affected* leaves.

Rates are those of the records. Alerts come from both methods: an alert of the published method is
a finding about the bandwidth of a switch, and one of ``prism`` a finding whose culprit is a switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, find_scenario, load_scenario, server_name
from reproduction.base import OTHER_METHOD, Result, Trial, diagnosed

NAME = "e4"
BLOCKS = 32  # servers in the two blocks of a stage
SYMPTOM = "low_switch_bandwidth"

_REDUCED = {
    "cluster.servers": 32,
    "jobs.0.pp": 1,
    "jobs.0.model.layers": 20,
    "duration_s": 300,
    "faults.0.from_s": 120,
    "faults.0.to_s": 210,
}


_SHORT_GAP = {
    "collector.idle_gap_us": 1000,  # tens of records per message
    "duration_s": 300,
    "faults.0.from_s": 120,
    "faults.0.to_s": 240,
}


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """One trial per seed, and some minutes of the first seed with an idle gap of 1 ms."""
    hours = [
        Trial(NAME, f"seed {seed}", _scenario(seed, reduced), {"short_gap": False})
        for seed in seeds
    ]
    short = _scenario(seeds[0], reduced, _SHORT_GAP)
    return [*hours, Trial(NAME, f"seed {seeds[0]}, 1 ms", short, {"short_gap": True})]


def _scenario(seed: int, reduced: bool, more: Mapping[str, Any] | None = None) -> Scenario:
    """The hour, with the servers of each stage shuffled within two blocks."""
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
    """Bandwidths and alerts, and the closed form of the fault."""
    with diagnosed(trial.scenario) as (run, score):
        dp = _dp_records(run)
        fault = run.truth("faults").iloc[0]
        findings = run.diagnosis("findings")
        others = diagnose(run.flows, run.topology, method=OTHER_METHOD).findings
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
        **_split(findings, findings["symptom"] == SYMPTOM, epoch_ns),
        OTHER_METHOD: {
            **_split(others, others["culprit_kind"] == "switch", epoch_ns),
            "reported": _reported(others, epoch_ns),
        },
        "detected": bool(score["faults"]["detected"]),
        "named_first": bool(score["faults"]["localized_top1"]),
    }


def _dp_records(run: Run) -> pd.DataFrame:
    """Records of the true DP pairs, with their leaves and rate [bit/s]."""
    columns = ["start_ns", "end_ns", "src", "dst", "bytes", "path"]
    flows = pd.read_parquet(run.flows, columns=columns)
    pairs = run.truth("pairs").query("kind == 'dp'")[["src", "dst"]]
    names = pd.Index(np.unique(pairs.to_numpy()))
    src, dst = (flows[end].cat.set_categories(names).cat.codes for end in ("src", "dst"))
    wanted = [names.get_indexer(pairs[end]) for end in ("src", "dst")]
    width = len(names) + 1  # codes begin at -1, for addresses without a DP pair
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
    """Leaves of the rings that have a connection over the uplinks of ``leaf``."""
    across = dp[(dp["first"] != dp["last"])][["first", "last"]].drop_duplicates()
    own = across[(across["first"] == leaf) | (across["last"] == leaf)]
    return sorted({*own["first"], *own["last"], leaf})


def _closed_form(dp: pd.DataFrame, scenario: Scenario, leaf: str) -> dict[str, Any]:
    """Connections over the uplinks of ``leaf`` by direction, and the rate of each."""
    apart = dp[dp["first"] != dp["last"]]
    out, back = (
        len(apart.loc[apart[end] == leaf, ["src", "dst"]].drop_duplicates())
        for end in ("first", "last")
    )
    left = scenario.cluster.uplinks - scenario.faults[0].model_dump()["failed"]
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
    """Range of the leaves' mean rates, before the fault and during it [Gbit/s]."""
    before = _by_leaf(dp[dp["end_ns"] <= fault["start_ns"]])
    since = dp[(dp["start_ns"] >= fault["start_ns"]) & (dp["end_ns"] <= fault["end_ns"])]
    during = _by_leaf(since)
    slow, others = during[during.index.isin(affected)], during[~during.index.isin(affected)]
    crossing = since[(since["first"] != since["last"])
                     & since[["first", "last"]].eq(str(fault["culprit"])).any(axis=1)]  # fmt: skip
    busy_s = (crossing["end_ns"] - crossing["start_ns"]).sum() / 1e9
    return {
        "leaves": len(before),
        "healthy_gbps": _spread(before),
        "others_gbps": _spread(others),
        "affected_gbps": _spread(slow),
        "affected_before_gbps": _spread(before[before.index.isin(affected)]),
        "crossing_gbps": float(8e-9 * crossing["bytes"].sum() / busy_s),
        "sigmas": _sigmas(during, affected),
    }


def _spread(rates: pd.Series) -> list[float]:
    return [float(value) for value in (rates.min(), rates.mean(), rates.max(), rates.std(ddof=0))]


def _sigmas(rates: pd.Series, affected: list[str]) -> dict[str, float]:
    """Distance of the lowest affected leaf from the mean, and its largest possible value.

    If all other leaves were alike, k of n equally low values would be sqrt((n - k) / k) sigma low.
    """
    slow = rates[rates.index.isin(affected)]
    n, k = len(rates), max(len(slow), 1)
    return {
        "observed": float((rates.mean() - slow.min()) / rates.std(ddof=0)),
        "largest": float(np.sqrt((n - k) / k)),
    }


def _split(findings: pd.DataFrame, alert: pd.Series, epoch_ns: int) -> dict[str, Any]:
    """The alerts among the findings, and the number of the others."""
    return {"alerts": _alerts(findings[alert], epoch_ns), "other_findings": int((~alert).sum())}


def _reported(findings: pd.DataFrame, epoch_ns: int) -> list[dict[str, Any]]:
    """The content of all findings in order of time [s]."""
    names = ["symptom", "cause", "culprit_kind", "culprit"]
    return [
        {
            **{name: str(row[name]) for name in names},
            "start_s": (row["start_ns"] - epoch_ns) / 1e9,
            "end_s": (row["end_ns"] - epoch_ns) / 1e9,
            "confidence": float(row["confidence"]),
        }
        for row in findings.sort_values("start_ns").to_dict("records")
    ]


def _alerts(alerts: pd.DataFrame, epoch_ns: int) -> list[dict[str, Any]]:
    """Alerts about switches in order of time; times are those of the simulation [s]."""
    return [
        {
            "switch": str(row["culprit"]),
            "start_s": (row["start_ns"] - epoch_ns) / 1e9,
            "end_s": (row["end_ns"] - epoch_ns) / 1e9,
            "steps": int(row["last_step"] - row["first_step"]) + 1,
            "magnitude": float(row["magnitude"]),
        }
        for row in alerts.sort_values("start_ns").to_dict("records")
    ]
