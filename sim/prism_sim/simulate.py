"""The first stage of a run: simulates a scenario; writes flows, topology and truth."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

from llmprism.errors import Problem
from llmprism.io.writing import replacing
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.version import __version__
from prism_sim.world import World, write_truth

Progress = Callable[[float, str], None]
"""Called with the fraction done in [0, 1] and a description of the work."""


def simulate(
    scenario: Scenario,
    run: Run,
    progress: Progress | None = None,
    command: list[str] | None = None,
) -> list[Problem]:
    """Run ``scenario`` and write ``flows``, ``topology``, ``truth`` and ``manifest`` of ``run``.

    Returns warnings about faults without effect; the manifest lists them too.

    The flows and the spans are written in batches under temporary names, so memory does not grow
    with simulated time, and an interrupted run leaves no file that looks complete.
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        flows = stack.enter_context(replacing(run.flows))
        spans = stack.enter_context(replacing(run.folder / "truth" / "spans.parquet"))
        world = World(scenario, flows, spans)
        world.run(_reporter(world, progress))
        write_truth(world, run)
    run.write_json(run.topology, world.topology())
    run.write_json(run.manifest, _manifest(world, command, time.perf_counter() - began))
    return list(world.faults.warnings())


def _reporter(world: World, progress: Progress | None) -> Callable[[int], None]:
    """A function that turns simulation time into progress: the fraction of all steps."""
    total = sum(len(job.workers) * job.model.steps for job in world.jobs.values())

    def report(now_ns: int) -> None:
        if progress is None:
            return
        done = sum(job.steps_done for job in world.jobs.values())
        fraction = done / total if total else 1.0
        if world.scenario.duration_s:
            fraction = max(fraction, now_ns / (world.scenario.duration_s * 1e9))
        progress(min(fraction, 1.0), f"simulating, {now_ns / 1e9:.1f} s of cluster time")

    return report


def _manifest(world: World, command: list[str] | None, seconds: float) -> dict[str, Any]:
    packages = ("numpy", "pandas", "pyarrow", "simpy", "numba", "pydantic")
    return {
        "schema": 1,
        "name": world.scenario.name,
        "seed": world.scenario.seed,
        "command": command or [],
        "versions": {
            "prism-sim": __version__,
            "python": sys.version.split()[0],
            **{name: version(name) for name in packages},
        },
        "warnings": [str(warning) for warning in world.faults.warnings()],
        "simulated_ns": int(world.env.now),
        "records": world.collector.records,
        "attempts": {
            name: [{"first_step": first, "lost_steps": lost} for first, lost in job.attempts]
            for name, job in world.jobs.items()
        },
        "timings_s": {"simulate": round(seconds, 3)},
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "scenario": world.scenario.model_dump(mode="json"),
    }
