"""The first stage of a run: simulates a scenario; writes flows, topology, truth and logs."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from itertools import chain
from typing import Any

import numpy as np

from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_common.scratch import working_folder
from prism_sim.collector.inspector_records import LoggedJob, write_collectives
from prism_sim.draws import Draws
from prism_sim.loading.job import Job
from prism_sim.loading.scenario import Scenario
from prism_sim.logs.config import Logs
from prism_sim.logs.corpus import CorpusWriter, Logged, drawn_jobs
from prism_sim.logs.simulated import simulated_jobs
from prism_sim.run_folder import Run
from prism_sim.training.costs import pipeline_message_bytes
from prism_sim.version import __version__
from prism_sim.world import World, logged_jobs, write_truth

Progress = Callable[[float, str], None]
"""Called with the fraction done in [0, 1] and a description of the work."""


@contextmanager
def simulated(scenario: Scenario) -> Iterator[Run]:
    """The run of ``scenario`` in a temporary folder, which goes with the block."""
    with working_folder() as folder:
        run = Run(folder)
        simulate(scenario, run)
        yield run


def simulate(
    scenario: Scenario, run: Run, progress: Progress | None = None, command: list[str] | None = None
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
        if scenario.collector.counters is not None:
            world.collector.write_counters(stack.enter_context(replacing(run.counters)))
    run.write_json(run.topology, world.topology())
    logs: dict[str, int] = {}
    if scenario.logs is not None:
        gpus = scenario.cluster.gpus_per_server
        jobs = simulated_jobs(logged_jobs(world, run), scenario.logs, gpus, scenario.seed)
        logs = _write_logs(scenario, scenario.logs, run, list(jobs), progress)
    collectives = _write_collectives(world, run)
    facts = _manifest(world, command, time.perf_counter() - began)
    run.write_json(run.manifest, facts | ({"logs": logs} if logs else {}) | collectives)
    return list(world.faults.warnings())


def write_drawn_logs(
    scenario: Scenario, run: Run, progress: Progress | None = None, command: list[str] | None = None
) -> None:
    """Write the logs of the jobs that the section ``logs`` of ``scenario`` draws, and their truth.

    Raises
    ------
    UserError : the scenario draws no jobs.
    """
    began = time.perf_counter()
    options = scenario.logs
    if options is None or not options.failures:
        how = "add it, or write the logs of the simulated jobs: prism-sim simulate SCENARIO"
        raise UserError(Problem("the scenario has no failures in its section logs", "logs", how))
    logs = _write_logs(scenario, options, run, [], progress)
    facts = _facts(scenario, command, time.perf_counter() - began)
    run.write_json(run.manifest, facts | {"logs": logs})


def _write_logs(
    scenario: Scenario, options: Logs, run: Run, simulated: list[Logged], progress: Progress | None
) -> dict[str, int]:
    """Write the logs of drawn jobs, which end before the first simulated one, and of these.

    Returns the numbers of jobs, failures, lines and bytes.
    """
    begins = [logged.job.times.submit_ns for logged in simulated]
    before_ns = min([scenario.epoch_ns, *begins])
    count, drawn = drawn_jobs(options, scenario.cluster, scenario.seed, before_ns)
    jobs = chain(drawn, sorted(simulated, key=lambda logged: logged.job.times.begin_ns))
    writer = CorpusWriter(run.folder, options)
    writer.write_all(jobs, count + len(simulated), progress)
    return writer.counts


def _write_collectives(world: World, run: Run) -> dict[str, int]:
    """Write what libraries record, if the scenario asks for it; returns the number of records."""
    options = world.scenario.collectives
    if options is None:
        return {}
    jobs = {
        name: LoggedJob(
            job.ranks(),
            pipeline_message_bytes(job.model) if isinstance(job.model, Job) else 0,
            tuple(first for first, _ in job.attempts),
        )
        for name, job in world.jobs.items()
    }
    first, size = (np.array(one, np.int64) for one in world.log.sizes)
    spans = run.folder / "truth" / "spans.parquet"
    draws = Draws(world.scenario.seed)
    written = write_collectives(options, jobs, spans, (first, size), draws, run.collectives)
    return {"collectives": written}


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
    return {
        **_facts(world.scenario, command, seconds),
        "warnings": [str(warning) for warning in world.faults.warnings()],
        "simulated_ns": int(world.env.now),
        "records": world.collector.records,
        "attempts": {
            name: [{"first_step": first, "lost_steps": lost} for first, lost in job.attempts]
            for name, job in world.jobs.items()
        },
    }


def _facts(scenario: Scenario, command: list[str] | None, seconds: float) -> dict[str, Any]:
    """The part of the manifest that does not need a simulation."""
    packages = ("numpy", "pandas", "pyarrow", "simpy", "numba", "pydantic")
    return {
        "schema": 1,
        "name": scenario.name,
        "seed": scenario.seed,
        "command": command or [],
        "versions": {
            "prism-sim": __version__,
            "python": sys.version.split()[0],
            **{name: version(name) for name in packages},
        },
        "timings_s": {"simulate": round(seconds, 3)},
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "scenario": scenario.model_dump(mode="json"),
    }
