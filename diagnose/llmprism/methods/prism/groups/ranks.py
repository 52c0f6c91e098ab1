"""Ranks that compute slowly: one rank, all ranks of a server, of a stage, or of the job."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from llmprism.methods.prism.durations import COMPUTE, Durations
from llmprism.methods.prism.groups.base import Group, Named, group_errors, of_ranks
from llmprism.methods.prism.groups.imbalance import is_uneven, named_uneven
from llmprism.methods.prism.parameters import MOST_NAMED
from llmprism.methods.prism.windows import Window

SLOW = ["slow_gpu", "slow_server", "degraded_nvlink"]
PAUSED = ["gc_pauses", "loader_stalls", "intermittent_gpu", "slow_server"]


def ranks(durations: Durations) -> Iterable[Group]:
    """Each rank by itself."""
    every = range(durations.servers.size)
    return of_ranks(durations, [(np.array([rank]), partial(_rank, rank)) for rank in every])


def _rank(rank: int, durations: Durations, window: Window) -> Named:
    """A rank: a NIC stands for its GPU, and for its server where it has one only."""
    pauses = window.shape == "pauses"
    causes = PAUSED if pauses else SLOW[1:]
    cause, symptom = ("slow_compute", "pauses") if pauses else ("slow_gpu", "slow_passes")
    evidence = {"or_causes": causes, "server": durations.server_name(int(durations.servers[rank]))}
    return Named("rank", symptom, cause, "address", durations.address(rank), evidence)


def servers(durations: Durations) -> Iterable[Group]:
    """All ranks of each server that has several."""
    members = []
    for server in np.unique(durations.servers).tolist():
        rows = np.flatnonzero(durations.servers == server)
        if rows.size > 1:
            members.append((rows, partial(_server, server)))
    return of_ranks(durations, members)


def _server(server: int, durations: Durations, window: Window) -> Named:
    pauses = window.shape == "pauses"
    cause, symptom = ("slow_compute", "pauses") if pauses else ("slow_server", "slow_passes")
    others = PAUSED if pauses else ["slow_gpu", "degraded_nvlink"]
    return Named(
        "rank", symptom, cause, "server", durations.server_name(server), {"or_causes": others}
    )


def stages(durations: Durations) -> Iterable[Group]:
    """All ranks of each stage of a pipeline."""
    stage = durations.job.pipelines.stage
    members = []
    for one in np.unique(stage[stage >= 0]).tolist():
        rows = np.flatnonzero(stage == one)
        if np.unique(durations.servers[rows]).size > 1:
            members.append((rows, partial(_stage, one)))
    return of_ranks(durations, members)


def _stage(stage: int, durations: Durations, window: Window) -> Named | None:
    if window.first == window.last:
        return None  # all of its ranks at once, for one step: a save or an evaluation
    name = f"{durations.job.name} stage {stage}"
    return Named("rank", "slow_passes", "uneven_stage", "stage", name)


def whole_job(durations: Durations) -> Iterable[Group]:
    """All ranks at once: what they have in common."""
    table, lost = durations.compute, durations.on_path.compute_longer.sum(axis=0)
    rows = np.flatnonzero(table.normal_ns > 0)
    if rows.size:
        error = group_errors(durations.common[None], [table.error[rows]])[0]
        yield Group(COMPUTE, rows, 1, durations.common, float(error), lost, _job)


def _job(durations: Durations, window: Window) -> Named | None:
    if window.first == window.last:
        return None  # all ranks at once, for one step: a save or an evaluation
    if is_uneven(durations, window):
        return named_uneven(durations)
    return hidden(durations, "slow_steps", "unknown", [*SLOW, *PAUSED])


def hidden(durations: Durations, symptom: str, cause: str, others: list[str]) -> Named:
    """The job: all of its ranks wait for one at the same moment, so records do not show which."""
    found = [durations.server_name(one) for one in np.unique(durations.servers).tolist()]
    few = {"one_of": found} if len(found) <= MOST_NAMED else {}
    evidence = {"or_causes": others, **few}
    return Named("job", symptom, cause, "job", durations.job.name, evidence)
