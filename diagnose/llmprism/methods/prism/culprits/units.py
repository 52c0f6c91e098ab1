"""Units that compute slowly: one by itself, those of a server, or of a stage.

A unit is a NIC and stands for the GPUs behind it. Units of one tensor group lose the same in every
step, so none of them is likelier than the others, and all are named. A server may be slow as a
whole, or by any of its units in each step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.culprits.base import (
    PAUSED,
    SLOW,
    Attribution,
    Hypothesis,
    Lost,
    Scene,
    hidden,
)
from llmprism.methods.prism.parameters import (
    ALL_AGREE,
    AS_LIKELY,
    HALF,
    MOST_AGREE,
    MOST_NAMED,
    QUARTER,
)
from llmprism.methods.prism.windows import WITH_PAUSES

NEAR = float(np.exp(-AS_LIKELY))


def units(lost: Lost) -> Iterator[Hypothesis]:
    """Each unit by itself; those of a server share its prior."""
    beside = np.bincount(lost.servers[lost.seen], minlength=int(lost.servers.max(initial=0)) + 1)
    for unit in lost.seen.tolist():
        server = int(lost.servers[unit])
        prior = -float(np.log(beside[server]))
        yield Hypothesis("unit", lost.by_units[unit], _unit, prior, who=unit, server=server)


def servers(lost: Lost) -> Iterator[Hypothesis]:
    """All units of each server that has several, and any of them in each step."""
    for server in np.unique(lost.servers[lost.seen]).tolist():
        own = lost.by_units[lost.seen[lost.servers[lost.seen] == server]]
        if len(own) > 1:
            yield Hypothesis("server", np.median(own, axis=0), _server, server=server)
            choice = float(np.log(len(own)))
            yield Hypothesis("server", own.max(axis=0), _server, -0.5, choice, server=server)


def stages(lost: Lost) -> Iterator[Hypothesis]:
    """All units of each stage that has several servers."""
    stage = lost.durations.job.pipelines.stage
    for one in np.unique(stage[stage >= 0]).tolist():
        own = lost.seen[stage[lost.seen] == one]
        if np.unique(lost.servers[own]).size > 1:
            series = np.quantile(lost.by_units[own], QUARTER, axis=0, method="lower")
            parts = frozenset(lost.servers[own].tolist())
            prior = min(ALL_AGREE * (len(parts) - 1), MOST_AGREE)
            yield Hypothesis("stage", series, _stage, prior, who=one, parts=parts)


def _unit(scene: Scene, best: Hypothesis) -> Attribution | None:
    durations = scene.durations
    if _is_anywhere(scene):
        return hidden(scene, best)
    cause, symptom, others = _causes(scene, "slow_gpu")
    named = [durations.address(rival.hypothesis.who) for rival in scene.near(["unit"], NEAR)]
    names = list(dict.fromkeys([durations.address(best.who), *named]))[:MOST_NAMED]
    evidence = {
        "or_causes": others, "server": durations.server_name(int(durations.servers[best.who])),
        **({"one_of": names} if len(names) > 1 else {}),
    }  # fmt: skip
    return Attribution("rank", symptom, cause, "address", names[0], evidence)


def _server(scene: Scene, best: Hypothesis) -> Attribution | None:
    if _is_anywhere(scene):
        return hidden(scene, best)
    durations, shares = scene.durations, dict[str, float]()
    cause, symptom, others = _causes(scene, "slow_server")
    for rival in scene.rivals:
        if rival.hypothesis.kind in ("unit", "server"):
            name = durations.server_name(rival.hypothesis.server)
            shares[name] = shares.get(name, 0.0) + rival.share
    own = durations.server_name(best.server)
    near = [name for name in shares if shares[name] >= NEAR * shares[own] and name != own]
    names = [own, *sorted(near, key=lambda name: -shares[name])][:MOST_NAMED]
    stage = _stage_of(scene, best.server)
    if stage is not None:
        names.append(f"{durations.job.name} stage {stage}")
    evidence = {"or_causes": others, **({"one_of": names} if len(names) > 1 else {})}
    return Attribution("rank", symptom, cause, "server", own, evidence)


def _is_anywhere(scene: Scene, kind: str = "unit") -> bool:
    """Whether all units, or stages, of a job are as likely: all wait for each other at once."""
    shares = [rival.share for rival in scene.rivals if rival.hypothesis.kind == kind]
    return len(shares) > 1 and min(shares) > HALF * max(shares)


def _stage_of(scene: Scene, server: int) -> int | None:
    """The stage whose units are just those of a server: nothing tells the two apart."""
    stage, home = scene.durations.job.pipelines.stage, scene.durations.servers
    own = np.unique(stage[home == server])
    same = own.size == 1 and own[0] >= 0 and (home[stage == own[0]] == server).all()
    return int(own[0]) if same else None


def _stage(scene: Scene, best: Hypothesis) -> Attribution | None:
    if scene.window.first == scene.window.last:
        return None  # all of its units at once, for one step: a save or an evaluation
    if _is_anywhere(scene, "stage"):
        return hidden(scene, best)
    name = f"{scene.durations.job.name} stage {best.who}"
    return Attribution("rank", "slow_passes", "uneven_stage", "stage", name)


def _causes(scene: Scene, slow: str) -> tuple[str, str, list[str]]:
    """Cause, symptom, and causes that look the same."""
    if scene.window.shape == WITH_PAUSES:
        return "slow_compute", "pauses", [*PAUSED]
    return slow, "slow_passes", [cause for cause in SLOW if cause != slow]
