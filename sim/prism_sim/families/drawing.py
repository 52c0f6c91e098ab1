"""Draws the worlds of a family: seed in, scenario out.

The parts are drawn one after another: jobs, the cluster around them, telemetry, other traffic, and
faults. What is impossible or too large is drawn again, so long runs are those of small jobs.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from prism_common.errors import Problem, UserError
from prism_sim.draws import Draws
from prism_sim.families.dice import Dice, rounded
from prism_sim.families.family import Family
from prism_sim.loading import checks
from prism_sim.loading.scenario import Scenario
from prism_sim.loading.size import estimate, step_s
from prism_sim.scenario.names import server_name

ATTEMPTS = 500
"""Draws of one world before a family is called impossible."""

World = dict[str, Any]


def draw(family: Family, seed: int) -> World:
    """The world of ``seed``: the values of a scenario, valid and of at most ``family.rows`` rows.

    Raises
    ------
    UserError : the ranges of the family allow no such world.
    """
    for attempt in range(ATTEMPTS):
        world = _attempt(family, seed, Dice(Draws(seed), (family.name, attempt)))
        if world is not None:
            return world
    what = f"{ATTEMPTS} draws of family {family.name} gave no possible world"
    raise UserError(Problem(what, f"seed {seed}", f"widen its ranges, or rows ({family.rows:,})"))


def _attempt(family: Family, seed: int, dice: Dice) -> World | None:
    """One world; None if it is impossible or too large."""
    try:
        healthy = _healthy(family, seed, dice)
    except UserError:  # a model that the drawn servers cannot hold
        return None
    scenario = _valid(healthy)
    if scenario is None or estimate(scenario).rows > family.rows:
        return None
    faults = family.faults.draw(dice, scenario)
    world = healthy | ({"faults": faults, "measure_faults": True} if faults else {})
    return world if _valid(world) is not None else None


def _healthy(family: Family, seed: int, dice: Dice) -> World:
    """A world without faults."""
    jobs = family.work.draw(dice, family.hardware.domain_gpus(dice))
    ranks = sum(job["dp"] * job["pp"] * job["tp"] * job["cp"] for job in jobs)
    storage = any("checkpoint" in job for job in jobs)
    cluster = family.hardware.draw(dice, ranks, storage=storage)
    world: World = {
        "name": f"{family.name}-{seed}",
        "description": family.purpose,
        "seed": seed,
        "cluster": cluster,
        "jobs": jobs,
        "collector": family.telemetry.draw(dice),
    }
    if storage:
        world["storage"] = [server_name(cluster["servers"] - 1)]
    return _in_time(family, dice, world)


def _in_time(family: Family, dice: Dice, world: World) -> World:
    """``world`` with what follows from the length of a step: starts, and other traffic."""
    scenario = Scenario.model_validate(world)
    first_s = step_s(scenario.cluster, scenario.modelled[0][1])
    jobs = [
        job | ({"start_s": rounded(first_s * dice.uniform(f"start {n}", family.work.start_steps))})
        for n, job in enumerate(world["jobs"])
    ]
    jobs[0].pop("start_s")
    flows = dice.maybe("other flows", family.traffic.flows_per_step)
    if flows is None:
        return world | {"jobs": jobs}
    size = dice.log_uniform("size of other flows", family.traffic.median_bytes)
    background = {"name": "services", "flows_per_s": rounded(flows / first_s), "sigma": 2.0}
    return world | {"jobs": jobs, "background": [background | {"median_bytes": size}]}


def _valid(world: World) -> Scenario | None:
    """The scenario of ``world``; None if it has an error or a warning."""
    try:
        scenario = Scenario.model_validate(world)
    except ValidationError:
        return None
    remarks = (*checks.errors(scenario), *checks.warnings(scenario))
    return None if remarks else scenario
