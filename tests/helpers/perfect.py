"""The diagnosis of a method that knows the truth of a run, as far as records can show it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from llmprism.io.tables import DIAGNOSIS
from prism_common.kinds import OTHER
from prism_sim.score.parallelism import true_groups
from prism_sim.toolkit import Run, ScoreTables, true_work


def perfect(run: Run) -> ScoreTables:
    """The case of ``run`` with the tables that follow from its truth."""
    names = ("ranks", "pairs", "steps", "spans", "layouts", "hiccups", "faults")
    truth = {name: run.truth(name) for name in names}
    case = ScoreTables(truth, {}, run.read_json(run.topology), run.read_json(run.manifest))
    pairs = truth["pairs"].assign(kind_unrefined=truth["pairs"]["kind"], confidence=1.0)
    own = pairs[pairs["kind"] != OTHER]
    seen = {*own["src"], *own["dst"]}
    ranks = truth["ranks"][truth["ranks"]["address"].isin(seen)].reset_index(drop=True)
    shown = replace(case, truth=truth | {"ranks": ranks})
    diagnosis = {
        "jobs": truth["ranks"][["job", "address"]].drop_duplicates(),
        "layouts": truth["layouts"].assign(confidence=1.0, evidence="{}"),
        "pairs": pairs,
        "groups": _groups(ranks),
        "steps": _steps(shown),
        "spans": DIAGNOSIS["spans"].empty_table().to_pandas(),
        "findings": findings(truth["faults"]),
    }
    return replace(case, diagnosis=diagnosis)


def _groups(ranks: pd.DataFrame) -> pd.DataFrame:
    rows = [
        (job, kind, number, address, position)
        for job, own in ranks.groupby("job")
        for kind, groups in true_groups(own).items()
        for number, group in enumerate(groups)
        for position, address in enumerate(group)
    ]
    return pd.DataFrame(rows, columns=["job", "kind", "group", "address", "position"])


def _steps(case: ScoreTables) -> pd.DataFrame:
    ranks, steps = case.truth["ranks"].assign(row=lambda f: np.arange(len(f))), case.truth["steps"]
    steps = steps.merge(ranks[["job", "rank", "address", "row"]], on=["job", "rank"])
    work = true_work(case)["dp"]
    ends = work.groupby(["rank_row", "step"])["own_end_ns"].max()
    at = pd.MultiIndex.from_frame(steps[["row", "step"]])
    steps["dp_end_ns"] = ends.reindex(at).astype("Int64").to_numpy()
    steps["dp_end_ns"] = steps["dp_end_ns"].astype("Int64")
    return steps.drop_duplicates(["job", "address", "step"]).assign(confidence=1.0)


def findings(faults: pd.DataFrame) -> pd.DataFrame:
    """One finding for each fault, with its culprit, its cause, its window and its cost."""
    rows = [
        {
            "finding": number,
            "level": "cross_step",
            "symptom": "slow",
            "cause": fault["kind"],
            "job": fault["slowed_job"],
            "culprit_kind": fault["culprit_kind"],
            "culprit": fault["culprit"],
            "first_step": 0,
            "last_step": 0,
            "start_ns": fault["start_ns"],
            "end_ns": fault["end_ns"],
            "magnitude": fault["magnitude"],
            "cost": float(fault["extra_ns"]) if pd.notna(fault["extra_ns"]) else np.nan,
            "confidence": 1.0,
            "evidence": "{}",
        }
        for number, fault in enumerate(faults.to_dict("records"))
    ]
    return pd.DataFrame(rows, columns=DIAGNOSIS["findings"].names)
