"""The slowdown that each fault really causes: the same world again, without it.

Every draw has its own key, so the two worlds differ by the fault alone. This takes a further
simulation for each fault, and so is done only if the scenario asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_common.scratch import working_folder
from prism_sim.loading.scenario import Scenario
from prism_sim.world.faults import ActiveFault
from prism_sim.world.world import World

Ends = dict[int, tuple[int, int]]
"""First start and last end of each step of a job [ns]."""


@dataclass(frozen=True)
class Slowdown:
    """What one fault costs the job that it slows most.

    Attributes
    ----------
    job : its name; None if it was not measured.
    share : by how much the job's steps within the fault last longer than without it, as a share of
        what they last without it; None if no step within it has an end in both worlds.
    extra_ns : how much later the job's last step ends; None if the fault ends the job.
    """

    job: str | None
    share: float | None
    extra_ns: int | None


UNKNOWN = Slowdown(None, None, None)
"""Of a fault that was not measured."""


def slowdowns(world: World) -> dict[int, Slowdown]:
    """The slowdown by each fault that began, by its number in the scenario."""
    scenario, found = world.scenario.without_draws, {}
    for number, active in enumerate(world.faults.all):
        if active.start_ns is not None:
            rest = tuple(f for i, f in enumerate(scenario.faults) if i != number)
            other = rerun(scenario.model_copy(update={"faults": rest}))
            found[number] = slowdown_by(world, other, number)
    return found


def slowdown_by(world: World, other: World, number: int) -> Slowdown:
    """The slowdown by fault ``number`` of ``world``; ``other`` is the same world without it."""
    active = world.faults.all[number]
    if active.start_ns is None:
        return UNKNOWN
    own, without = _all_steps(world), _all_steps(other)
    each = [
        _slowdown(job, own[job], without[job], _steps_within(own[job], job, active)) for job in own
    ]
    return max(each, key=lambda one: one.share or 0.0, default=UNKNOWN)


def rerun(scenario: Scenario) -> World:
    """The world of ``scenario``, simulated to its end; its records are not kept."""
    with working_folder() as folder:
        world = World(scenario, folder / "flows.parquet", folder / "spans.parquet")
        world.run(lambda _: None)
    return world


def _all_steps(world: World) -> dict[str, Ends]:
    return {name: _steps(job.record.rows, len(job.workers)) for name, job in world.jobs.items()}


def _steps(rows: list[tuple[int, int, int, int]], workers: int) -> Ends:
    """The steps that all ranks have finished."""
    found: dict[int, list[tuple[int, int]]] = {}
    for _, step, start_ns, end_ns in rows:
        found.setdefault(step, []).append((start_ns, end_ns))
    return {
        step: (min(start for start, _ in ends), max(end for _, end in ends))
        for step, ends in sorted(found.items())
        if len(ends) == workers
    }


def _slowdown(job: str, own: Ends, other: Ends, steps: list[int]) -> Slowdown:
    """Compare ``job`` with (``own``) and without (``other``) the fault in ``steps``."""
    both = [step for step in steps if step in other]
    took, without = (sum(_took(ends, step) for step in both) for ends in (own, other))
    extra_ns = None
    if own and len(own) == len(other):
        extra_ns = max(end for _, end in own.values()) - max(end for _, end in other.values())
    return Slowdown(job, took / without - 1 if without else None, extra_ns)


def _steps_within(ends: Ends, job: str, active: ActiveFault) -> list[int]:
    """Steps of ``job`` in which the fault was active: those of its window, or most of the time."""
    fault = active.fault
    if fault.in_steps and fault.job == job:
        first, stop = fault.from_step or 0, fault.to_step
        return [step for step in ends if first <= step and (stop is None or step < stop)]
    begin_ns, end_ns = active.start_ns or 0, active.end_ns
    middle_ns = {step: ends[step][1] - _took(ends, step) // 2 for step in ends}
    within = [
        step
        for step, at_ns in middle_ns.items()
        if at_ns >= begin_ns and (end_ns is None or at_ns < end_ns)
    ]
    return within or [step for step in ends if ends[step][1] > begin_ns][:1]


def _took(ends: Ends, step: int) -> int:
    """Time from the end of the step before; from its own start, if that one has no end."""
    start_ns, end_ns = ends[step]
    return end_ns - (ends[step - 1][1] if step - 1 in ends else start_ns)
