"""What-if comparisons: the cost of each fault, or the effect of any other change.

The scenario is simulated unchanged, without all of its faults, and without each of
them in turn; for a change, it is simulated unchanged and changed. Every random draw belongs
to a place (job, rank, step, micro-batch), so two of these simulations share all their jitter and
differ only by the change: no statistics are needed.

All figures come from the truth. For each job, over the steps that both simulations completed:

- *step time* [s]: from the start of step 0 on any rank to the end of the last step on all,
  divided by the number of steps; it includes host work between steps;
- *extra time* [s]: the difference of that time between the two simulations;
- *GPU-hours*: the extra time, multiplied by the GPUs of the job.

The cost of a fault compares the unchanged scenario with the one without the fault: the gain of
repairing this fault alone. If faults mask each other, the sum of the costs differs from the
cost of all of them together, which is therefore simulated too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmprism.errors import Problem, UserError
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.studies.pool import outcomes

if TYPE_CHECKING:
    import pandas as pd

AS_WRITTEN, TOGETHER, CHANGED = "as written", "all faults", "changed"
RESULT, PICTURE = "whatif.json", "whatif.png"


@dataclass(frozen=True)
class Variant:
    """One simulation of the comparison, in the subfolder ``folder``."""

    folder: str
    scenario: Scenario


@dataclass(frozen=True)
class Contrast:
    """Two simulations, by their folders, and a name for their difference.

    The cost is that of ``with_`` against ``without``.
    """

    name: str
    with_: str
    without: str


@dataclass(frozen=True)
class Plan:
    """All simulations, and the pairs to compare."""

    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]


def plan_faults(scenario: Scenario) -> Plan:
    """With and without each fault, and all of them; a UserError if there is none."""
    scenario = scenario.without_draws
    if not scenario.faults:
        how = "add faults, or ask about a change with --set PATH=VALUE"
        raise UserError(Problem("the scenario has no faults to remove", scenario.name, how))
    written = Variant("as-written", scenario)
    variants = [written]
    contrasts = []
    for index, fault in enumerate(scenario.faults):
        rest = tuple(other for place, other in enumerate(scenario.faults) if place != index)
        variant = Variant(f"without-{index}-{fault.kind}", _with_faults(scenario, rest))
        variants.append(variant)
        contrasts.append(Contrast(f"{index}: {_described(fault)}", written.folder, variant.folder))
    if len(scenario.faults) > 1:
        variants.append(Variant("without-faults", _with_faults(scenario, ())))
        contrasts.append(Contrast(TOGETHER, written.folder, variants[-1].folder))
    return Plan(tuple(variants), tuple(contrasts))


def plan_change(written: Scenario, changed: Scenario, settings: Iterable[str]) -> Plan:
    """The unchanged scenario, compared with the one changed by ``settings``."""
    variants = (Variant("as-written", written), Variant("changed", changed))
    return Plan(variants, (Contrast(", ".join(settings), "changed", "as-written"),))


def _with_faults(scenario: Scenario, faults: tuple[Any, ...]) -> Scenario:
    return scenario.model_copy(update={"faults": faults})


def _described(fault: Any) -> str:
    """A short description of a fault: its kind, target, severity and window.

    >>> from prism_sim.faults.slow_gpu import SlowGpu
    >>> _described(SlowGpu(job="a", rank=3, factor=0.5, from_step=4, to_step=7))
    'slow_gpu, job a, rank 3, at 0.5, steps 4 to 6'
    """
    values = fault.model_dump(exclude_none=True)
    apart = {"kind", "factor", "from_step", "to_step", "from_s", "to_s"}
    words = [fault.kind, *(f"{key} {value}" for key, value in values.items() if key not in apart)]
    words += [f"at {values['factor']:g}"] if "factor" in values else []
    return ", ".join([*words, _when(fault)])


def _when(fault: Any) -> str:
    """The window of a fault; its last step is the last affected one."""
    if fault.in_seconds:
        end = "on" if fault.to_s is None else f"to {fault.to_s:g} s"
        return f"from {fault.from_s or 0:g} s {end}"
    first, last = fault.from_step or 0, fault.to_step
    if last is None:
        return f"from step {first} on"
    return f"step {first}" if last == first + 1 else f"steps {first} to {last - 1}"


def run_plan(
    plan: Plan, out: Path, processes: int, progress: Callable[[float, str], None] | None = None
) -> None:
    """Simulate every variant of ``plan`` into its folder below ``out``.

    Raises
    ------
    UserError : a simulation failed.
    """
    tasks = [(variant.scenario, str(out / variant.folder)) for variant in plan.variants]
    problems = []
    for done, (task, outcome) in enumerate(outcomes(_simulate, tasks, processes), 1):
        if outcome.error is not None:
            problems.append(Problem(outcome.error, task[1]))
        if progress:
            progress(done / len(tasks), f"{done} of {len(tasks)} runs")
    if problems:
        raise UserError(problems)


def _simulate(task: tuple[Scenario, str]) -> None:
    from prism_sim.products import stage_files
    from prism_sim.simulate import simulate

    scenario, folder = task
    with stage_files(Path(folder), "simulate") as aside:
        simulate(scenario, Run(aside))


def compare(plan: Plan, out: Path) -> dict[str, Any]:
    """The result of each comparison in ``plan``, read from the runs below ``out``.

    Returns the content of ``whatif.json``: for each contrast the total cost (``extra_s`` summed
    over jobs, ``gpu_hours``) and that of each job, and for each simulation the time at which each
    step of each job ended, from the job's start [s].
    """
    scenario = plan.variants[0].scenario
    gpus = {
        variant.folder: {job.name: job.ranks for job in variant.scenario.jobs}
        for variant in plan.variants
    }
    ends = {variant.folder: step_ends_s(Run(out / variant.folder)) for variant in plan.variants}
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "costs": [
            {"name": contrast.name, "with": contrast.with_, "without": contrast.without}
            | _cost(*(_Side(ends[end], gpus[end]) for end in (contrast.with_, contrast.without)))
            for contrast in plan.contrasts
        ],
        "step_ends_s": {
            name: {job: times.tolist() for job, times in jobs.items()}
            for name, jobs in ends.items()
        },
    }


def step_ends_s(run: Run) -> dict[str, pd.Series]:
    """End of each step on all ranks, from the job's first start [s], by job; in order.

    Steps that some rank did not complete (the simulation ended first) are left out.
    """
    steps = run.truth("steps")
    found = {}
    for job, part in steps.groupby("job"):
        by_step = part.groupby("step")
        whole = by_step.size() == part["rank"].nunique()
        ends = by_step["end_ns"].max()[whole] - part["start_ns"].min()
        found[str(job)] = ends / 1e9
    return found


@dataclass(frozen=True)
class _Side:
    """One simulation of a contrast: ends of steps [s] and number of GPUs, by job."""

    ends_s: dict[str, pd.Series]
    gpus: dict[str, int]


def _cost(with_: _Side, without: _Side) -> dict[str, Any]:
    jobs = []
    for job, ends_s in with_.ends_s.items():
        steps = min(len(ends_s), len(without.ends_s.get(job, ())))
        if not steps:
            continue
        slow, fast = (float(side.ends_s[job].iloc[steps - 1]) for side in (with_, without))
        jobs.append(
            {
                "job": job,
                "steps": steps,
                "step_s_with": slow / steps,
                "step_s_without": fast / steps,
                "slower": slow / fast - 1 if fast else None,
                "extra_s": slow - fast,
                "gpu_hours": (slow * with_.gpus[job] - fast * without.gpus[job]) / 3600,
            }
        )
    return {"gpu_hours": sum(job["gpu_hours"] for job in jobs), "jobs": jobs}
