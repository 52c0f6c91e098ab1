"""Measure E2: pair types of five jobs, by window and by disturbance of the records.

Each job is simulated once. Windows are cut from its records, and disturbances are replayed on them
(:mod:`prism_sim.replay`). Only the stages of the published method that find pair types run. The
truth of a window has the pairs that sent data in it. A pair without any record counts as wrong.
``prism`` runs as a whole, which takes longer, so it runs on some of the windows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable, read_flows
from llmprism.io.topology import Topology, read_topology
from llmprism.model import KINDS
from llmprism.pipeline import diagnose
from prism_sim.toolkit import (
    Scenario,
    ScoreTables,
    Stream,
    find_scenario,
    load_scenario,
    score_pairs,
    simulated,
    topology_of,
)
from reproduction.base import OTHER_METHOD, Result, Trial, published_method
from reproduction.e2_pairs.levels import COLLECTORS, DISTURBANCES

NAME = "e2"
JOBS = (1, 2, 3, 4, 5)
WINDOWS_S = (60, 180, 300, 600)
OTHER_WINDOWS_S = (60,)
"""Windows that the other method diagnoses."""
FIRST_S = 25.0  # start of the windows, when the jobs have run for a while

_REDUCED: dict[int, dict[str, Any]] = {
    3: {"jobs.0.dp": 8, "cluster.servers": 16, "duration_s": 60},
    4: {"jobs.0.dp": 4, "jobs.0.pp": 4, "cluster.servers": 16, "duration_s": 60},
}
"""Changes for the reduced form: two of the jobs on 128 GPUs, with windows of seconds."""


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """One trial for each job and seed."""
    settings = {
        "first_s": 5.0 if reduced else FIRST_S,
        "windows_s": [20, 50] if reduced else list(WINDOWS_S),
        "other_windows_s": [20] if reduced else list(OTHER_WINDOWS_S),
        "levels_of": 2 if reduced else None,
    }
    return [
        Trial(NAME, f"job {job} seed {seed}", _scenario(job, seed, reduced), settings)
        for seed in seeds
        for job in (_REDUCED if reduced else JOBS)
    ]


def _scenario(job: int, seed: int, reduced: bool) -> Scenario:
    overrides = {"seed": seed, **(_REDUCED[job] if reduced else {})}
    return load_scenario(find_scenario(f"paper/e2-job{job}"), overrides)


def measure(trial: Trial) -> Result:
    """Scores by collector and window, and by disturbance and level in the shortest window."""
    first_s, windows_s = trial.settings["first_s"], trial.settings["windows_s"]
    with simulated(trial.scenario) as run:
        topology = read_topology(run.topology)
        flows, _ = read_flows(run.flows, topology)
        true, steps = run.truth("pairs"), run.truth("steps")
    stream = Stream(flows, trial.scenario)
    scorer = _PairScorer(true, topology)
    last_s = first_s + max(windows_s)
    windows = []
    for name, collector in COLLECTORS.items():
        exported = stream.exported(collector, first_s, last_s)
        for window_s in windows_s:
            span = (first_s, first_s + window_s)
            sent = stream.window(flows, *span)
            records = stream.window(exported, *span)
            scores = scorer.score(records, sent)
            if window_s in trial.settings["other_windows_s"]:
                scores |= scorer.other(records, sent)
            windows.append({"collector": name, "window_s": window_s, **scores})
    return {
        "job": trial.scenario.jobs[0].name,
        "records": len(flows),
        "step_s": float((steps["end_ns"] - steps["start_ns"]).mean() / 1e9),
        "windows": windows,
        "curves": _curves(trial, stream, scorer),
    }


def _curves(trial: Trial, stream: Stream, scorer: _PairScorer) -> list[dict[str, Any]]:
    first_s, window_s = trial.settings["first_s"], trial.settings["windows_s"][0]
    span = (first_s, first_s + window_s)
    leaves = topology_of(trial.scenario.cluster).leaves.names
    sent = stream.exported({}, *span)
    found = []
    for name, disturbance in DISTURBANCES.items():
        for level in disturbance.levels[: trial.settings["levels_of"]]:
            collector = disturbance.collector(level, span, leaves, trial.scenario.seed)
            exported = stream.exported(collector, *span)
            scores = scorer.score(exported, sent)
            found.append({"disturbance": name, "level": level, **scores})
    return found


class _PairScorer:
    """Compares the pair types of a method with the truth."""

    def __init__(self, true: pd.DataFrame, topology: Topology) -> None:
        self._true, self._topology = true, topology
        self._names = np.array(topology.addresses)

    def score(self, exported: FlowTable, sent: FlowTable) -> dict[str, Any]:
        """Scores of the published method, over the pairs with records in ``sent``."""
        score = score_pairs(self._case(self._diagnosed(exported), sent))
        refined, raw = score.confusion, score.confusion_unrefined
        return {
            **{
                key: getattr(score, key)
                for key in ("total", "accuracy", "accuracy_unrefined", "missing")
            },
            "dp_as_pp_unrefined": raw.get("dp", {}).get("pp", 0),
            "pp_as_dp_unrefined": raw.get("pp", {}).get("dp", 0),
            "dp_as_pp": refined.get("dp", {}).get("pp", 0),
            "pp_as_dp": refined.get("pp", {}).get("dp", 0),
        }

    def other(self, exported: FlowTable, sent: FlowTable) -> dict[str, Any]:
        """Share of correct types of the other method, and its number of missing pairs."""
        pairs = diagnose(exported, self._topology, method=OTHER_METHOD).pairs
        score = score_pairs(self._case(pairs, sent))
        return {"accuracy_other": score.accuracy, "missing_other": score.missing}

    def _case(self, pairs: pd.DataFrame, sent: FlowTable) -> ScoreTables:
        return ScoreTables({"pairs": self._truth(sent)}, {"pairs": pairs}, {}, {})

    def _truth(self, sent: FlowTable) -> pd.DataFrame:
        src, dst, _ = sent.pairs
        there = pd.DataFrame({"src": self._names[src], "dst": self._names[dst]})
        return self._true.merge(there, on=["src", "dst"])

    def _diagnosed(self, exported: FlowTable) -> pd.DataFrame:
        method = published_method()
        pairs = method.pairs(exported, method.jobs(exported, self._topology))
        kinds = np.array(KINDS)
        return pd.DataFrame(
            {
                "src": self._names[pairs.src],
                "dst": self._names[pairs.dst],
                "kind": kinds[pairs.kind],
                "kind_unrefined": kinds[pairs.kind_unrefined],
                "confidence": pairs.confidence,
            }
        )
