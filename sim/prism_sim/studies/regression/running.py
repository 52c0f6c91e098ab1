"""Runs the cases of a suite: each is simulated once, and diagnosed by each of its methods.

A few values say what a simulation made: whether the same seed still gives the same world.
The digest covers every flow record and every row of the truth. Another machine, or another
version of a numerical library, may round the last digit of a time otherwise, and so have another
digest. Then the amounts (records and bytes of each pair, members of jobs, kinds of pairs, faults)
are still equal, and mean times differ by nanoseconds. Only a larger difference is a drift.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from prism_sim.run_folder import Run
from prism_sim.score.encoding import flatten
from prism_sim.studies.cases import scored_figures, simulated_figures
from prism_sim.studies.pool import Outcome, outcomes
from prism_sim.studies.regression.suite import Case

_ROUNDING_NS = 1_000.0  # far below every time that a scenario gives, far above the last digit
_TRUTH = ("ranks", "pairs", "steps", "faults")


@dataclass(frozen=True)
class Simulation:
    """The content of a simulated run.

    Attributes
    ----------
    digest : hash of all flow records, and of the truth without spans.
    amounts : hash of all that is counted or named, without times.
    times_ns : means of start and duration, of flows and of true steps, from the epoch [ns].
    """

    digest: str
    amounts: str
    times_ns: tuple[float, ...]

    def as_data(self) -> dict[str, Any]:
        """The values for a JSON document."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Simulation:
        """The values of a JSON document."""
        return cls(data["digest"], data["amounts"], tuple(data["times_ns"]))

    def is_as(self, other: Simulation) -> bool:
        """Whether both are the same world, apart from the last digits of times."""
        if self.digest == other.digest:
            return True
        both = zip(self.times_ns, other.times_ns, strict=True)
        near = all(abs(one - two) <= _ROUNDING_NS for one, two in both)
        return self.amounts == other.amounts and near


def simulation_of(run: Run, epoch_ns: int) -> Simulation:
    """The content of ``run``, whose clock begins at ``epoch_ns``."""
    flows, truth = pd.read_parquet(run.flows), {name: run.truth(name) for name in _TRUTH}
    times = [_times(frame, epoch_ns) for frame in (flows, truth["steps"])]
    volumes = flows.groupby(["src", "dst"], observed=True)["bytes"].agg(["sum", "count"])
    counted = [
        volumes.reset_index(),
        truth["ranks"],
        truth["pairs"],
        truth["steps"][["job", "rank", "step"]],
        truth["faults"][["kind", "culprit", "job"]],
    ]
    return Simulation(
        digest=_digest([flows, *truth.values()]),
        amounts=_digest(counted),
        times_ns=tuple(value for pair in times for value in pair),
    )


def _times(frame: pd.DataFrame, epoch_ns: int) -> tuple[float, float]:
    """Mean start from ``epoch_ns``, and mean duration [ns]; 0 of an empty table."""
    if frame.empty:
        return 0.0, 0.0
    starts_ns, lengths_ns = frame["start_ns"] - epoch_ns, frame["end_ns"] - frame["start_ns"]
    return float(starts_ns.mean()), float(lengths_ns.mean())


def _digest(frames: Iterable[pd.DataFrame]) -> str:
    """Hash of the values of ``frames``, whatever the order of their columns."""
    digest = hashlib.blake2b(digest_size=8)
    for frame in frames:
        ordered = frame[sorted(frame.columns)]
        digest.update(",".join(ordered.columns).encode())
        digest.update(pd.util.hash_pandas_object(ordered, index=False).to_numpy().tobytes())
    return digest.hexdigest()


Figures = dict[str, float | None]
"""Every figure of one run, by its path."""

_LEFT_OUT = "meta.schema"
_DIGITS = 9  # of a figure in the reference; further digits differ between machines


@dataclass(frozen=True)
class CaseRun:
    """What one case gave: its simulation, all figures of each method, and the time it took [s]."""

    simulation: Simulation
    figures: dict[str, Figures]
    took_s: float


def run_suite(
    cases: Sequence[Case], processes: int, progress: Callable[[float, str], None] | None = None
) -> dict[str, Outcome[CaseRun]]:
    """Run all cases; result or error by case name, in the order of the suite."""
    found: dict[str, Outcome[CaseRun]] = {}
    for case, outcome in outcomes(run_case, cases, processes):
        found[case.name] = outcome
        if progress:
            progress(len(found) / len(cases), f"{len(found)} of {len(cases)}: {case.name}")
    return {case.name: found[case.name] for case in cases}


def run_case(case: Case) -> CaseRun:
    """Simulate ``case`` in a temporary folder, diagnose it by each method, and score that."""
    from prism_sim.simulate import simulated

    began_s = time.perf_counter()
    with simulated(case.scenario) as run:
        truth = flatten(simulated_figures(run))
        figures = {
            method: _plain(truth | flatten(scored_figures(run, method))) for method in case.methods
        }
        simulation = simulation_of(run, case.scenario.epoch_ns)
    return CaseRun(simulation, figures, time.perf_counter() - began_s)


def _plain(figures: Figures) -> Figures:
    return {name: rounded(value) for name, value in figures.items() if name != _LEFT_OUT}


def rounded(value: float | None) -> float | None:
    """``value`` with the digits that do not depend on the machine."""
    return value if value is None or isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
