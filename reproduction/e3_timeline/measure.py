"""Measure E3: the error of every step of every rank of a 1,024-GPU job, with three definitions.

"Within 0.3 %" is published without a formula. Each of three definitions is
|inferred - true| / true for every (rank, step); an unmatched step has an error of 1:

``step``
    the duration of a step, from the start of the rank's first forward pass, its waiting
    included, to the end of its optimizer (a step of a profiler);
``first_forward``
    the same, but the true step begins when the first forward pass computes, so the wait of a
    later stage for its first activation is not part of it;
``dp_end``
    the time from the end of one step's last DP collective to that of the next, which is the only
    time that flows can show.

Both methods are measured on the same records. The variants of the job are: jitter and host work as
measured; neither of them; records as an exporter writes them; and several amounts of host work
between steps, which no flow shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from llmprism.pipeline import diagnose
from prism_sim.toolkit import (
    Match,
    RelativeErrors,
    Run,
    ScoreTables,
    figures_of,
    find_scenario,
    load_scenario,
    load_tables,
    match_steps,
    rank_rows,
    samples_of,
    simulated,
    to_json,
)
from reproduction.base import METHOD, OTHER_METHOD, Done, Result, Trial

SCENARIO = "paper/e3"
MEASURED, CLEAN, EXPORTED = "measured", "clean", "exported"
READINGS = ("step", "first_forward", "dp_end")

_SHORTER = {"jobs.0.steps": 10}
_EXPORT = [
    {"kind": "loss", "probability": 0.001},
    {"kind": "clocks", "offset_us": 1000},
    {"kind": "granularity", "unit_ns": 1_000_000},
]
"""Effects of NetFlow over UDP and of clocks with NTP; see the defaults of the effects."""
VARIANTS: dict[str, dict[str, Any]] = {
    MEASURED: {},
    CLEAN: {"jobs.0.compute_jitter": 0, "jobs.0.step_overhead_ms": 0, **_SHORTER},
    EXPORTED: {"collector.effects": _EXPORT, **_SHORTER},
    **{
        f"host work of {ms} ms": {"jobs.0.step_overhead_ms": ms, **_SHORTER}
        for ms in (0, 50, 100, 200)
    },
}
"""Changes of the scenario, by the name of the variant."""

_REDUCED = {"cluster.servers": 8, "jobs.0.dp": 4, "jobs.0.steps": 4}
_PERCENTS = range(101)


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """Every variant with every seed."""
    listed = []
    for variant, changes in VARIANTS.items():
        for seed in seeds:
            overrides = changes | (_REDUCED if reduced else {}) | {"seed": seed}
            settings = {"variant": variant}
            scenario = load_scenario(find_scenario(SCENARIO), overrides)
            listed.append(Trial("e3", f"{variant}, seed {seed}", scenario, settings))
    return listed


def host_work_ms(done: Done) -> float:
    """Host work between the steps of a trial's job [ms]."""
    (_, job), *_ = done.trial.scenario.modelled
    return job.step_overhead_ms


def measure(trial: Trial) -> Result:
    """Figures and quantiles of each definition, and figures of the simulated job."""
    with simulated(trial.scenario) as run:
        other = _diagnosed(run, OTHER_METHOD)
        return {
            **_diagnosed(run, METHOD),
            OTHER_METHOD: {name: other[name] for name in ("coverage", "readings")},
        }


def _diagnosed(run: Run, method: str) -> Result:
    """Figures of a diagnosis by ``method``."""
    diagnose(run.flows, run.topology, method=method).write(run.diagnosis_folder)
    case = load_tables(run)
    match = match_steps(case)
    samples = samples_of(case, match)
    figures = figures_of(samples)
    return {
        "step_s": float(samples["step_true"].mean()) / 1e9,
        "dp_s": float(samples["dp_true"].mean()) / 1e9,
        "steps_true": figures.steps_true,
        "coverage": figures.coverage,
        "readings": _readings(case, match, samples),
    }


def _readings(case: ScoreTables, match: Match, samples: pd.DataFrame) -> dict[str, Any]:
    pairs = {
        "step": (samples["step_true"], samples["step_inferred"]),
        "first_forward": (_from_first_forward(case, match), samples["step_inferred"]),
        "dp_end": (samples["period_true"], samples["period_inferred"]),
    }
    return {name: _errors(*pairs[name]) for name in READINGS}


def _errors(true: pd.Series, inferred_ns: pd.Series) -> dict[str, Any]:
    """Figures as in ``score.json``, and percentiles of the errors, with 1 for unmatched steps."""
    inferred = inferred_ns.to_numpy(float)
    actual = true.to_numpy(float)
    defined = actual > 0
    errors = np.abs(inferred[defined] / actual[defined] - 1)
    errors[np.isnan(errors)] = 1.0
    percentiles = np.percentile(errors, list(_PERCENTS)).tolist() if len(errors) else []
    within = float((errors <= 0.003).mean()) if len(errors) else None
    errors_of = to_json(RelativeErrors.between(actual, inferred))
    figures = {f"error_{name}": value for name, value in errors_of.items()}
    return {**figures, "within_published": within, "percentiles": percentiles}


def _from_first_forward(case: ScoreTables, match: Match) -> pd.Series:
    """Time from the start of the first forward pass to the end of each true step [ns]."""
    forwards = case.truth["spans"]
    forwards = forwards[forwards["kind"] == "fwd"]
    forwards = forwards.assign(rank_row=rank_rows(case.truth["ranks"], forwards))
    first = forwards.groupby(["rank_row", "step"])["start_ns"].min()
    where = pd.MultiIndex.from_frame(match.true[["rank_row", "step"]])
    start_ns = first.reindex(where).to_numpy()
    return pd.Series(match.true["end_ns"].to_numpy() - start_ns)
