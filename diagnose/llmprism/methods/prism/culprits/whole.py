"""The job as a whole: all units at once, other ones in every step, or nobody that records show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.culprits.base import Attribution, Hypothesis, Lost, Scene, hidden
from llmprism.methods.prism.parameters import (
    EXACT,
    HEALTHY_DEVIATIONS,
    NOISE_FLOOR,
    QUARTER,
    UNEXPLAINED,
)
from llmprism.methods.prism.windows import log_density
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import nanmedian, nanquantile, spread

CAUSES = ("length_imbalance", "expert_imbalance")


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
