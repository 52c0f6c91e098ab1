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
    true_work,
)
from reproduction.base import METHOD, OTHER_METHOD, Done, Result, Trial

SCENARIO = "paper/e3"
MEASURED, CLEAN, EXPORTED = "measured", "clean", "exported"
READINGS = ("step", "first_forward", "dp_end")

COMPUTING = ("fwd", "bwd", "opt")
"""Kinds of true spans in which ranks compute."""

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
_SHOWN = (1, 3)  # steps of the picture; the end is not part of it
_PERCENTS = range(101)


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """Every variant with every seed; the first measured one keeps the spans of three ranks."""
    listed = []
    for variant, changes in VARIANTS.items():
        for seed in seeds:
            overrides = changes | (_REDUCED if reduced else {}) | {"seed": seed}
            shown = variant == MEASURED and seed == seeds[0]
            settings = {"variant": variant, "shown": shown}
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
        other = _diagnosed(run, OTHER_METHOD, shown=False)
        return {
            **_diagnosed(run, METHOD, trial.settings["shown"]),
            OTHER_METHOD: {name: other[name] for name in ("coverage", "readings")},
        }


def _diagnosed(run: Run, method: str, shown: bool) -> Result:
    """Figures of a diagnosis by ``method``; if ``shown``, with the spans of three ranks."""
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
        **({"shown": _spans(run, case)} if shown else {}),
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


def _spans(run: Run, case: ScoreTables) -> dict[str, Any]:
    """True and rebuilt work of three ranks in a few steps [s from the first]."""
    ranks, steps = case.truth["ranks"], case.truth["steps"]
    last = ranks["dp"].max()
    first_of = ranks[ranks["tp"] == 0]
    chosen = [
        first_of[(first_of["pp"] == stage) & (first_of["dp"] == replica)].iloc[0]
        for stage, replica in ((0, 0), (ranks["pp"].max(), 0), (0, last // 2))
    ]
    near = steps[steps["rank"].isin([rank["rank"] for rank in chosen])]
    near = near[near["step"].between(_SHOWN[0], _SHOWN[1] - 1)]
    window = (int(near["start_ns"].min()), int(near["end_ns"].max()))
    return {
        "seconds": (window[1] - window[0]) / 1e9,
        "ranks": [
            {
                "rank": int(rank["rank"]),
                "stage": int(rank["pp"]),
                "true": _true_line(case, rank, window),
                "rebuilt": _rebuilt_line(run, rank, window),
            }
            for rank in chosen
        ],
    }


def _true_line(case: ScoreTables, rank: pd.Series, window: tuple[int, int]) -> dict[str, Any]:
    row = rank.name
    spans = case.truth["spans"]
    own = spans[spans["rank"] == rank["rank"]]
    work = true_work(case)
    line = {kind: _bars(own[own["kind"] == kind], window) for kind in COMPUTING}
    line |= {
        kind: _bars(work[kind][work[kind]["rank_row"] == row], window) for kind in ("pp", "dp")
    }
    steps = case.truth["steps"]
    return line | {"ends": _ends(steps.loc[steps["rank"] == rank["rank"], "end_ns"], window)}


def _rebuilt_line(run: Run, rank: pd.Series, window: tuple[int, int]) -> dict[str, Any]:
    spans, steps = run.diagnosis("spans"), run.diagnosis("steps")
    own = spans[spans["address"] == rank["address"]]
    line = {kind: _bars(own[own["kind"] == kind], window) for kind in ("compute", "pp", "dp")}
    return line | {"ends": _ends(steps.loc[steps["address"] == rank["address"], "end_ns"], window)}


def _bars(spans: pd.DataFrame, window: tuple[int, int]) -> list[list[float]]:
    """Start and length of each span inside the window [s]."""
    start = spans["start_ns"].clip(*window) - window[0]
    end = spans["end_ns"].clip(*window) - window[0]
    bars = zip(start[end > start] / 1e9, (end - start)[end > start] / 1e9, strict=True)
    return [[round(a, 6), round(b, 6)] for a, b in bars]


def _ends(times: pd.Series, window: tuple[int, int]) -> list[float]:
    near = times[(times > window[0]) & (times <= window[1])]
    return [round((time - window[0]) / 1e9, 6) for time in near]
