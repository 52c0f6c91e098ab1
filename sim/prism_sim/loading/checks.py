"""Checks of a scenario whose values are all well-formed.

Each check concerns one rule and yields a :class:`~prism_sim.scenario.base.Remark` for
every violation; all checks run. Errors make a scenario impossible to run; warnings mean that
it runs, but probably not as intended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from prism_sim.loading.job_checks import (
    batch_remarks,
    placement_remarks,
    restart_remarks,
    sharding_remarks,
    stage_remarks,
    timing_remarks,
)
from prism_sim.loading.scenario import Scenario
from prism_sim.loading.size import size_errors, size_warnings
from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.names import server_name

MOST_PORTS = 254
"""Ports of a server that have an address in its network of 256."""

_UNSAFE = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]|^[-.~ ]|[. ]$')


def errors(scenario: Scenario) -> Remarks:
    """All errors of ``scenario``.

    If the cluster is too large for the machine, no other checks run: they would take too long.
    """
    too_large = list(size_errors(scenario))
    yield from too_large
    if any(remark.loc == ("cluster",) for remark in too_large):
        return
    for check in _ERRORS:
        yield from check(scenario)


def warnings(scenario: Scenario) -> Remarks:
    """All warnings about ``scenario``."""
    for check in _WARNINGS:
        yield from check(scenario)


def _names(scenario: Scenario) -> Remarks:
    named: list[tuple[Loc, str]] = [(("name",), scenario.name)]
    named += [(("jobs", index, "name"), job.name) for index, job in enumerate(scenario.jobs)]
    for loc, name in named:
        if _UNSAFE.search(name):
            how = "use letters, digits, _ and -; names become names of files and folders"
            yield Remark(loc, f"the name {name!r} is not safe for a file", how)
    first: dict[str, int] = {}
    for index, job in enumerate(scenario.jobs):
        before = first.setdefault(job.name, index)
        if before != index:
            what = f"two jobs are called {job.name!r}"
            yield Remark(("jobs", index, "name"), what, "rename one", (("jobs", before, "name"),))


def _hardware(scenario: Scenario) -> Remarks:
    cluster, fabric = scenario.cluster, scenario.cluster.fabric
    gpus, nics = cluster.gpus_per_server, cluster.nics_per_server
    if gpus % nics:
        what = f"{nics} NICs cannot be shared evenly by {gpus} GPUs"
        how = "nics_per_server must divide gpus_per_server"
        yield Remark(("cluster", "nics_per_server"), what, how, (("cluster", "gpus_per_server"),))
    yield from _ports(cluster)
    yield from cluster.wiring.remarks(cluster)
    if fabric.uplinks is not None and fabric.uplinks % fabric.spines:
        what = f"{fabric.uplinks} uplinks cannot be shared evenly by {fabric.spines} spines"
        how = f"use a multiple of {fabric.spines}, or another number of spines"
        spines = ("cluster", "fabric", "spines")
        yield Remark(("cluster", "fabric", "uplinks"), what, how, (spines,))


def _ports(cluster: Cluster) -> Remarks:
    """Check the numbers of ports, and NVLink domains."""
    gpus = cluster.gpus_per_server
    if cluster.ports_per_server > MOST_PORTS:
        what = f"a server of {cluster.ports_per_server} ports: there are addresses for {MOST_PORTS}"
        about = (("cluster", "nics_per_server"),)
        yield Remark(("cluster", "nic_ports"), what, "use fewer NICs or ports", about)
    if cluster.domain_gpus % gpus:
        what = f"an NVLink domain of {cluster.domain_gpus} GPUs is not made of servers of {gpus}"
        how = "nvlink_domain must be a multiple of gpus_per_server"
        about = (("cluster", "gpus_per_server"),)
        yield Remark(("cluster", "nvlink_domain"), what, how, about)
    elif not cluster.wiring.has_spines and cluster.servers % cluster.servers_per_domain:
        what = f"{cluster.servers} servers are not whole domains of {cluster.servers_per_domain}"
        how = "without spines a domain needs a NIC on each leaf: use a multiple"
        yield Remark(("cluster", "servers"), what, how, (("cluster", "nvlink_domain"),))


def _layout(scenario: Scenario) -> Remarks:
    """Check the division of a job's model into stages and tensor-parallel parts."""
    for index, job in scenario.modelled:
        at, sizes = ("jobs", index), job.model
        model = (*at, "model")
        yield from stage_remarks(job, at)
        if sizes.heads % job.tp:
            what = f"{sizes.heads} heads of {sizes.name} cannot be cut into {job.tp} equal parts"
            yield Remark((*at, "tp"), what, "tp must divide the heads", (model,))
        if sizes.hidden % sizes.heads:
            what = f"{sizes.heads} heads do not divide a width of {sizes.hidden}"
            yield Remark((*model, "heads"), what, "heads must divide hidden", ((*model, "hidden"),))
        if sizes.kv_heads and sizes.heads % sizes.kv_heads:
            what = f"{sizes.kv_heads} key and value heads do not divide {sizes.heads} heads"
            yield Remark((*model, "kv_heads"), what, "kv_heads must divide heads", (model,))


def _schedules(scenario: Scenario) -> Remarks:
    for index, job in scenario.modelled:
        yield from job.kind_remarks(("jobs", index), bool(scenario.storage))
        yield from batch_remarks(job, ("jobs", index))
        yield from timing_remarks(job, ("jobs", index))


def _sharding(scenario: Scenario) -> Remarks:
    for index, job in scenario.modelled:
        yield from sharding_remarks(job, ("jobs", index))
        yield from restart_remarks(job, ("jobs", index))


def _background(scenario: Scenario) -> Remarks:
    """Names of background traffic must be unique, and its two ends different servers."""
    everywhere = [server_name(number) for number in range(scenario.cluster.servers)]
    jobs, first = {job.name for job in scenario.jobs}, dict[str, int]()
    for index, background in enumerate(scenario.background):
        at = ("background", index)
        before = first.setdefault(background.name, index)
        if background.name in jobs:
            what = f"a job and background traffic are both called {background.name!r}"
            yield Remark((*at, "name"), what, "give one another name")
        if before != index:
            what = f"background traffic is called {background.name!r} twice"
            reads = (("background", before, "name"),)
            yield Remark((*at, "name"), what, "give one another name", reads)
        targets = everywhere if background.to is None else [background.to]
        ends = {*(background.servers or everywhere), *targets}
        if len(ends) == 1:
            what = f"background traffic {background.name!r} goes from {ends.pop()} to itself"
            yield Remark(at, what, "name another server that sends, or another one in to")


def _services(scenario: Scenario) -> Remarks:
    """Servers that jobs and background traffic need."""
    cluster = scenario.cluster
    named: list[tuple[Loc, str]] = [(("storage", i), n) for i, n in enumerate(scenario.storage)]
    for index, background in enumerate(scenario.background):
        at = ("background", index)
        named += [((*at, "servers", i), n) for i, n in enumerate(background.servers or ())]
        named += [((*at, "to"), background.to)] if background.to is not None else []
    for loc, name in named:
        if not cluster.has_server(name):
            what = f"there is no server {name!r} in the cluster"
            yield Remark(loc, what, "", (("cluster", "servers"),))


def _end(scenario: Scenario) -> Remarks:
    if not scenario.jobs and scenario.duration_s is None:
        what = "without jobs the simulation has no end"
        yield Remark(("jobs",), what, "add a job, or duration_s for an idle cluster")


def _faults(scenario: Scenario) -> Remarks:
    for index, fault in enumerate(scenario.faults):
        at = ("faults", index)
        for remark in fault.remarks(scenario):
            yield Remark((*at, *remark.loc), remark.what, remark.how, remark.reads)


def _campaign(scenario: Scenario) -> Remarks:
    for remark in scenario.campaign.remarks(scenario) if scenario.campaign else ():
        yield Remark(("campaign", *remark.loc), remark.what, remark.how, remark.reads)


def _effects(scenario: Scenario) -> Remarks:
    for index, effect in enumerate(scenario.collector.effects):
        at = ("collector", "effects", index)
        for remark in effect.remarks(scenario):
            yield Remark((*at, *remark.loc), remark.what, remark.how, remark.reads)


def _bubbles(scenario: Scenario) -> Remarks:
    for index, job in scenario.modelled:
        if job.micro_batches < job.pp:
            what = f"{job.micro_batches} micro-batches leave {job.pp} pipeline stages mostly idle"
            yield Remark(("jobs", index, "micro_batches"), what, "use several for every stage")


def _silent_jobs(scenario: Scenario) -> Remarks:
    for index, job in scenario.modelled:
        if job.members == job.pp == 1 and job.tp <= scenario.cluster.domain_gpus:
            what = f"job {job.name} has neither replicas nor stages, so it makes no flows"
            yield Remark(("jobs", index), what, "raise dp or pp")


def _late_jobs(scenario: Scenario) -> Remarks:
    for index, job in enumerate(scenario.jobs):
        if scenario.duration_s is not None and job.start_s >= scenario.duration_s:
            what = f"job {job.name} starts after the simulation's {scenario.duration_s} s"
            yield Remark(("jobs", index, "start_s"), what, "raise duration_s or start it earlier")


def _pointless_faults(scenario: Scenario) -> Remarks:
    for index, fault in enumerate(scenario.faults):
        at = ("faults", index)
        for doubt in fault.doubts(scenario):
            yield Remark((*at, *doubt.loc), doubt.what, doubt.how, doubt.reads)


def _logs(scenario: Scenario) -> Remarks:
    if scenario.logs is not None:
        for remark in scenario.logs.remarks(scenario.cluster):
            yield replace(remark, loc=("logs", *remark.loc))


_ERRORS: tuple[Callable[[Scenario], Remarks], ...] = (
    _names,
    _hardware,
    _layout,
    _schedules,
    _sharding,
    _background,
    _services,
    placement_remarks,
    _end,
    _faults,
    _campaign,
    _effects,
    _logs,
)
_WARNINGS: tuple[Callable[[Scenario], Remarks], ...] = (
    _bubbles,
    _silent_jobs,
    _late_jobs,
    _pointless_faults,
    size_warnings,
)
