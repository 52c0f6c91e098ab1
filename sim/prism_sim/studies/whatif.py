"""Plans of what-if comparisons: the cost of each fault, or the effect of any other change.

The scenario is simulated unchanged, without all of its faults, and without each of
them in turn; for a change, it is simulated unchanged and changed. Every random draw belongs
to a place (job, rank, step, micro-batch), so two of these simulations share all their jitter and
differ only by the change: no statistics are needed.

The cost of a fault compares the unchanged scenario with the one without the fault: the gain of
repairing this fault alone. If faults mask each other, the sum of the costs differs from the
cost of all of them together, which is therefore simulated too.

:mod:`prism_sim.studies.costs` compares the simulations, and :mod:`prism_sim.studies.repairs` plans
those that a diagnosis suggests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism_common.errors import Problem, UserError
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.studies.pool import Remaining, outcomes

AS_WRITTEN, TOGETHER = "as-written", "all faults"
RESULT, PICTURE = "whatif.json", "whatif.png"
_LONGEST = 100  # characters of a question in the name of a folder


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
    """All simulations, and the pairs to compare.

    ``question`` distinguishes plans on one scenario and seed; empty for that of its faults.
    """

    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]
    question: str = ""

    @property
    def folder(self) -> Path:
        """Where the result is written if no folder is named: ``SEED+dp=4`` for a change."""
        first = self.variants[0].scenario
        asked = re.sub(r"[^\w.=,+-]+", "-", self.question)[:_LONGEST]
        name = "+".join(filter(None, [str(first.seed), asked]))
        return Path("results") / "whatif" / first.name / name


def planned(
    path: str, seed: int | None, changes: dict[str, Any], settings: Sequence[str] = ()
) -> Plan:
    """The plan for a file or bundled name: for ``changes``, written as ``settings``, or faults."""
    from prism_sim.loading.bundled import find
    from prism_sim.loading.loader import load

    found, fixed = find(path), {} if seed is None else {"seed": seed}
    written = load(found, fixed)
    if not changes:
        return plan_faults(written)
    settings = settings or [f"{name}={value}" for name, value in changes.items()]
    return plan_change(written, load(found, fixed | changes), settings)


def plan_faults(scenario: Scenario) -> Plan:
    """With and without each fault, and all of them; a UserError if there is none."""
    scenario = scenario.without_draws
    if not scenario.faults:
        how = "add faults, or ask about a change with --set PATH=VALUE"
        raise UserError(Problem("the scenario has no faults to remove", scenario.name, how))
    written = Variant(AS_WRITTEN, scenario)
    variants = [written]
    contrasts = []
    for index, fault in enumerate(scenario.faults):
        variant = Variant(f"without-{index}-{fault.kind}", without(scenario, [index]))
        variants.append(variant)
        contrasts.append(Contrast(f"{index}: {described(fault)}", written.folder, variant.folder))
    if len(scenario.faults) > 1:
        variants.append(Variant("without-faults", without(scenario, range(len(scenario.faults)))))
        contrasts.append(Contrast(TOGETHER, written.folder, variants[-1].folder))
    return Plan(tuple(variants), tuple(contrasts))


def plan_change(written: Scenario, changed: Scenario, settings: Sequence[str]) -> Plan:
    """The unchanged scenario, compared with the one changed by ``settings``."""
    variants = (Variant(AS_WRITTEN, written), Variant("changed", changed))
    asked = ",".join(settings)
    return Plan(variants, (Contrast(", ".join(settings), "changed", AS_WRITTEN),), asked)


def without(scenario: Scenario, numbers: Collection[int]) -> Scenario:
    """The scenario without the faults of these ``numbers``."""
    rest = (fault for number, fault in enumerate(scenario.faults) if number not in numbers)
    return scenario.model_copy(update={"faults": tuple(rest)})


def described(fault: Any) -> str:
    """A short description of a fault: its kind, target, severity and window.

    >>> from prism_sim.faults.computing import SlowGpu
    >>> described(SlowGpu(job="a", rank=3, factor=0.5, from_step=4, to_step=7))
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
        if fault.from_s is None and fault.to_s is None:
            return "all the time"
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
    UserError : a simulation failed, or ``out`` has the result of another question.
    """
    if (out / RESULT).is_file():
        costs = json.loads((out / RESULT).read_bytes()).get("costs", ())
        if [one["name"] for one in costs] != [one.name for one in plan.contrasts]:
            how = "give another folder with --out, or remove it"
            raise UserError(
                Problem("this is the answer to another question", str(out / RESULT), how)
            )
    tasks = [(variant.scenario, str(out / variant.folder)) for variant in plan.variants]
    problems, remaining = [], Remaining()
    for done, (task, outcome) in enumerate(outcomes(_simulate, tasks, processes), 1):
        if outcome.error is not None:
            problems.append(Problem(outcome.error, task[1]))
        if progress:
            left = remaining.sentence(done, len(tasks) - done)
            progress(done / len(tasks), f"{done} of {len(tasks)} runs{left}")
    if problems:
        raise UserError(problems)


def _simulate(task: tuple[Scenario, str]) -> None:
    from prism_sim.products import stage_files
    from prism_sim.simulate import simulate

    scenario, folder = task
    scenario = scenario.model_copy(update={"measure_faults": False})  # the comparison does that
    with stage_files(Path(folder), "simulate") as aside:
        simulate(scenario, Run(aside))
