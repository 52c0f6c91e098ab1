"""Units that compute slowly: one by itself, those of a server, of a stage, or of the whole job.

A unit is a NIC and stands for the GPUs behind it. Units of one tensor group lose the same in every
step, so none of them is likelier than the others, and all are named. A server may be slow as a
whole, or by any of its units in each step. In a job other units may be slow in every step, or none
that records show.
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
    EXACT,
    HALF,
    HEALTHY_DEVIATIONS,
    MOST_AGREE,
    MOST_NAMED,
    NOISE_FLOOR,
    QUARTER,
    UNEXPLAINED,
)
from llmprism.methods.prism.windows import WITH_PAUSES, log_density
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import nanmedian, nanquantile, spread

NEAR = float(np.exp(-AS_LIKELY))
CAUSES = ("length_imbalance", "expert_imbalance")


def units(lost: Lost) -> Iterator[Hypothesis]:
    """Each unit by itself; those of a server share its prior."""
    beside = np.bincount(lost.servers[lost.seen], minlength=int(lost.servers.max(initial=0)) + 1)
    for unit in lost.seen.tolist():
        server = int(lost.servers[unit])
        prior = -float(np.log(beside[server]))
        noise_ns, losses = float(lost.durations.noise_ns[unit]), lost.by_units[unit]
        yield Hypothesis("unit", losses, _unit, prior, noise_ns=noise_ns, who=unit, server=server)


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
        "or_causes": others, "server": durations.server_of(best.who),
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
    names = [own, *sorted(near, key=lambda name: -shares[name])]
    names = [name for home in names for name in _servers_in(scene, home)][:MOST_NAMED]
    stage = _stage_of(scene, best.server)
    if stage is not None:
        names.append(f"{durations.job.name} stage {stage}")
    evidence = {"or_causes": others, **({"one_of": names} if len(names) > 1 else {})}
    return Attribution("rank", symptom, cause, "server", names[0], evidence)


def _servers_in(scene: Scene, home: str) -> list[str]:
    """The server ``home``; of an NVLink domain the one that lost most, or itself and those."""
    durations, lost_ns = scene.durations, dict[str, list[float]]()
    for one in (rival.hypothesis for rival in scene.rivals):
        if one.kind == "unit" and durations.server_name(one.server) == home:
            own_ns = float(one.lost_ns[scene.affected].sum())
            lost_ns.setdefault(durations.server_of(one.who), []).append(own_ns)
    usual_ns = {name: float(np.median(own)) for name, own in lost_ns.items()}
    most_ns = max(usual_ns.values(), default=0.0)
    some = [name for name in usual_ns if usual_ns[name] >= HALF * most_ns]
    return some if len(some) == 1 else [home, *(name for name in some if name != home)]


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


def whole_job(lost: Lost) -> Iterator[Hypothesis]:
    """What most units lost at the same time."""
    if lost.seen.size > 1:
        yield Hypothesis("job", lost.common, hidden, -1.0)


def imbalance(lost: Lost) -> Iterator[Hypothesis]:
    """Work that is divided unevenly: in every step another unit lost what the step is longer by.

    Others have less work then: nothing else makes a unit faster than normal. And what is sent for
    each token, to experts or to the next stage, has more or fewer bytes than usual.
    """
    if lost.seen.size > 1:
        most = lost.by_units[lost.seen].max(axis=0)
        choice = float(np.log(lost.seen.size))
        shown = np.minimum(_faster(lost) + _other_bytes(lost), choice + UNEXPLAINED)
        yield Hypothesis("imbalance", most, _uneven, -1.0, choice, shown)


def _faster(lost: Lost) -> Floats:
    """Log likelihood ratio of units that both measures show faster than normal, by steps."""
    durations, seen = lost.durations, lost.seen
    own = np.fmax(durations.own_ns[seen], durations.excess_ns[seen])
    noise = np.maximum(spread(own), NOISE_FLOOR * durations.usual_ns)
    shown: Floats = _surprise(-own / noise[:, None]).sum(axis=0)
    return np.minimum(shown, float(np.log(seen.size)))


def _other_bytes(lost: Lost) -> Floats:
    """Log likelihood ratio of exchanges that mostly have other bytes than usual, by steps."""
    durations = lost.durations
    sizes = [
        durations.traffic.bytes_of(one.connections)
        for one in durations.graph.nodes.communicators
        if one.kind != "dp"
    ]
    if not sizes:
        return np.zeros(durations.steps)
    size = np.concatenate(sizes)
    usual = nanmedian(size, axis=1)[:, None]
    differs = np.abs(size / np.where(usual > 0, usual, np.nan) - 1)
    most = np.nan_to_num(nanquantile(differs.T, QUARTER))
    noise = max(float(np.nan_to_num(spread(most[None])[0])), EXACT)
    return _surprise(most / noise)


def _surprise(deviations: Floats) -> Floats:
    """Log likelihood ratio of clear deviations; 0 of others."""
    known = np.nan_to_num(deviations)
    surprise: Floats = np.where(known > HEALTHY_DEVIATIONS, -log_density(known), 0.0)
    return surprise


def unexplained(lost: Lost) -> Iterator[Hypothesis]:
    """Something that records do not show. It fits every step, at the price of a bad explanation."""
    yield Hypothesis("unexplained", lost.bound_ns, hidden, -1.0, UNEXPLAINED)


def _uneven(scene: Scene, _: Hypothesis) -> Attribution | None:
    """Where nobody exchanges tokens, the length of sequences is the likelier reason."""
    if scene.window.first == scene.window.last:
        return None
    communicators = scene.durations.graph.nodes.communicators
    has_experts = any(one.kind == "ep" for one in communicators)
    cause, other = CAUSES[has_experts], CAUSES[not has_experts]
    name = scene.durations.job.name
    return Attribution("job", "uneven_work", cause, "job", name, {"or_causes": [other]})
