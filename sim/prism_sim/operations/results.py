"""Replications as tables: means of policies with intervals, and the points of the curves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from prism_sim.operations import theory
from prism_sim.operations.intervals import Known
from prism_sim.operations.study import Study
from prism_sim.studies.paired import Estimate

COLUMNS = (
    "ettr", "failures", "detect_s", "localise_s", "recover_s", "by_hand", "false_alarms",
    "false_alarm_gpu_hours", "lost_gpu_hours", "hours_below_90",
)  # fmt: skip


def policies(study: Study, rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A row for each replication of the policies to compare."""
    names = [policy.name for policy in study.policies]
    table = pd.DataFrame(list(rows))
    return table[table["policy"].isin(names)].reset_index(drop=True)


def means(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each policy: the mean of each figure, and half of 95 % intervals.

    ``gain`` is the mean difference of the ETTR to the first policy, on the same failures.
    """
    groups = table.groupby("policy", sort=False)
    found = groups[list(COLUMNS)].mean()
    found.insert(1, "ettr_half", groups["ettr"].agg(half_interval))
    wide = table.pivot_table(index="seed", columns="policy", values="ettr")[list(found.index)]
    gains = wide.sub(wide.iloc[:, 0], axis=0)
    found.insert(2, "gain", gains.mean())
    found.insert(3, "gain_half", gains.apply(half_interval))
    return found


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Mean difference of the ETTR of any two policies, on the same failures, and its half interval.

    A row for each policy and each other one (``to``) that comes before it.
    """
    wide = table.pivot_table(index="seed", columns="policy", values="ettr", sort=False)
    rows = [
        (name, other, (wide[name] - wide[other]).mean(), half_interval(wide[name] - wide[other]))
        for at, name in enumerate(wide.columns)
        for other in wide.columns[:at]
    ]
    return pd.DataFrame(rows, columns=["policy", "to", "difference", "half"])


def beside(study: Study, means: pd.DataFrame) -> pd.DataFrame:
    """What follows from the means of each policy: a closed form, standby servers, and money.

    The closed form (:func:`~prism_sim.operations.theory.ettr`) has exponential failures which all
    stop the job for the mean time of the policy. Money is the price of lost GPU-hours and of
    standby servers; NaN if the study has no price.
    """
    policies = {policy.name: policy for policy in study.policies}
    hours, price = 24 * study.days * study.gpus_per_server, study.gpu_hour_price
    rows = []
    for name, row in means.iterrows():
        policy = policies[str(name)]
        cadence = policy.checkpoint.cadence(Known(study.mttf_s))
        down_s = row[["detect_s", "localise_s", "recover_s"]].fillna(0.0).sum()
        ideal = theory.ettr(cadence.work_s, cadence.stall_s, float(down_s), study.mttf_s)
        spares = policy.standby(study.servers)
        paid_hours = row["lost_gpu_hours"] + spares * hours
        money = float("nan") if price is None else price * paid_hours
        rows.append((name, ideal, spares, spares * hours, money))
    heads = ["policy", "closed_form", "standby_servers", "standby_gpu_hours", "money"]
    return pd.DataFrame(rows, columns=heads).set_index("policy")


def half_interval(values: pd.Series) -> float:
    """Half of the 95 % interval of the mean of ``values``, which are independent."""
    return Estimate.of(values).half


def lost_by_cause(table: pd.DataFrame) -> pd.DataFrame:
    """Mean lost GPU-hours: a row for each policy, a column for each cause, the largest first."""
    lost = pd.DataFrame(list(table["lost_by_cause"]), index=table["policy"]).fillna(0.0)
    by_policy = lost.groupby(level=0, sort=False).mean()
    order = by_policy.sum().sort_values(ascending=False).index
    return by_policy[order]


def by_day(table: pd.DataFrame) -> pd.DataFrame:
    """The ETTR of each day of the first seed, and that of all days until then."""
    first = table[table["seed"] == table["seed"].min()]
    days: pd.DataFrame = first[["policy", "ettr_by_day"]].explode("ettr_by_day").dropna()
    days = days.astype({"ettr_by_day": float}).rename(columns={"ettr_by_day": "day's ETTR"})
    groups = days.groupby("policy", sort=False)["day's ETTR"]
    days["day"] = groups.cumcount() + 1
    days["until"] = groups.transform(lambda ratios: ratios.expanding().mean())
    return days


def worth(study: Study, rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A row for each replication of a point: quality, value, localisation, method, ETTR."""
    ratios = pd.DataFrame(list(rows))[["policy", "seed", "ettr"]]
    variants = study.worth.variants(study.policies) if study.worth else []
    points = pd.DataFrame(
        [
            (variant.policy.name, variant.quality, variant.value, variant.localisation,
             variant.method or "")
            for variant in variants
        ],
        columns=["policy", "quality", "value", "localisation", "method"],
    )  # fmt: skip
    return points.merge(ratios, on="policy")


def worth_means(points: pd.DataFrame) -> pd.DataFrame:
    """Mean ETTR of each point, and half of its 95 % interval."""
    keys = ["quality", "value", "localisation", "method"]
    ratios = points.groupby(keys, sort=False)["ettr"]
    return ratios.mean().to_frame().assign(ettr_half=ratios.agg(half_interval)).reset_index()


def sweep_means(study: Study, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Mean ETTR of each policy at each point, and half of its 95 % interval."""
    assert study.sweep is not None
    keys = [*study.sweep.over, "policy"]
    ratios = pd.DataFrame(rows).groupby(keys, sort=False)["ettr"]
    return ratios.mean().to_frame().assign(ettr_half=ratios.agg(half_interval)).reset_index()


def left_out(study: Study) -> list[str]:
    """Which figures of which methods have not been measured, in words."""
    if study.worth is None:
        return []
    return [
        f"{name}: {', '.join(LABELS[quality] for quality in LABELS if missing(method, quality))}"
        for name, method in study.worth.methods.items()
        if any(missing(method, quality) for quality in LABELS)
    ]


def missing(method: Any, quality: str) -> bool:
    """Whether ``quality`` of ``method`` has not been measured."""
    return getattr(method, quality) is None


LABELS = {
    "recall": "recall",
    "precision": "precision",
    "delay_s": "delay [s]",
    "right": "right part of the named servers",
}
"""The qualities of a diagnoser on axes and in sentences."""
