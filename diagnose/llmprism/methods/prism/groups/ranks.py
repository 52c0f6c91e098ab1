"""Ranks that compute slowly: one rank, all ranks of a server, of a stage, or of the job."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from llmprism.methods.prism.durations import COMPUTE, Durations
from llmprism.methods.prism.groups.base import Group, Named, group_errors, of_ranks
from llmprism.methods.prism.groups.imbalance import is_uneven, named_uneven
from llmprism.methods.prism.parameters import MIXED, MOST_NAMED
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
    chance = _chances(rank, durations, window)
    first = max(chance, key=lambda one: chance[one])
    evidence = {
        "or_causes": causes, "server": durations.server_name(int(durations.servers[first])),
        **({"one_of": [durations.address(one) for one in chance]} if len(chance) > 1 else {}),
    }  # fmt: skip
    name = durations.address(first)
    return Named("rank", symptom, cause, "address", name, evidence, chance[first])


def _chances(rank: int, durations: Durations, window: Window) -> dict[int, float]:
    """Chance that a rank, or one that it meets, is slow: by what only one of both can have lost.

    Ranks that wait for each other in every exchange are slow together, whichever is the culprit.
    """
    hit, path = window.hit(durations.steps), durations.on_path
    own = float(path.lost_ns(np.array([rank]))[hit].sum())
    met = np.unique(path.rank[np.isin(path.joined, path.joined[path.rank == rank])])
    weight = {rank: 0.5}
    for other in met[met != rank].tolist():
        both = float(path.lost_ns(np.array([other]))[hit].sum())
        if own <= 0 or both < MIXED * own:
            continue
        alone, instead = (
            float(path.lost_ns(np.array([a]), np.array([b]))[hit].sum())
            for a, b in ((rank, other), (other, rank))
        )
        share = float(np.clip((instead - alone) / own, -1.0, 1.0))
        weight[other] = 0.5 * (1 + share)
        weight[rank] = min(weight[rank], 0.5 * (1 - share))
    ranked = sorted(weight, key=lambda one: -weight[one])[:MOST_NAMED]
    whole = sum(weight[one] for one in ranked)
    return {one: weight[one] / whole for one in ranked}


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
    table, lost = durations.compute, durations.on_path.lost_ns(np.arange(durations.servers.size))
    rows = np.flatnonzero(table.normal_ns > 0)
    if rows.size:
        error = group_errors(durations.common[None], [table.error[rows]])[0]
        yield Group(COMPUTE, rows, 1, durations.common, float(error), lost, any_of_job)


def any_of_job(durations: Durations, window: Window) -> Named | None:
    """The job: all of its ranks are slow, or nothing tells which; None for a single step."""
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
    return Named("job", symptom, cause, "job", durations.job.name, evidence, 1 / len(found))
