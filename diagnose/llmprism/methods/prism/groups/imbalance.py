"""Work that is divided unevenly: other ranks are slow in every step.

Two things show it. Ranks scatter more: their durations are no normal ones with one that is slow,
but all differ from their median, maybe those of one server together. And what is sent for each
token, to experts or to the next stage, has more or fewer bytes than usual. Where nobody exchanges
tokens, the length of sequences is the likelier reason.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from llmprism.methods.prism.baseline import spread, step_effect
from llmprism.methods.prism.durations import WORK, Durations
from llmprism.methods.prism.groups.base import Group, Named
from llmprism.methods.prism.parameters import EXACT, FEWEST_SCATTERED, NOISE_FLOOR, WARM_UP
from llmprism.methods.prism.windows import Window, best_scatter, best_window, penalty
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import TO_SIGMA, nanmedian

CAUSES = ("length_imbalance", "expert_imbalance")


def imbalance(durations: Durations) -> Iterable[Group]:
    """All ranks, as their durations scatter, and as the bytes that they exchange do."""
    yield from _of_durations(durations)
    yield from _of_bytes(durations)


def _of_durations(durations: Durations) -> Iterable[Group]:
    table = durations.compute
    rows = np.flatnonzero(table.normal_ns > 0)
    if rows.size < FEWEST_SCATTERED:
        return
    own = table.excess[rows] - nanmedian(table.excess[rows], axis=0)
    scatter = nanmedian(np.abs(own), axis=0) * TO_SIGMA
    usual = max(float(np.nan_to_num(nanmedian(scatter[None], axis=1)[0])), NOISE_FLOOR)
    more = np.log(np.maximum(scatter, usual / 10) / usual)
    chance = 1 / np.sqrt(2 * (rows.size - 1))
    error = max(float(np.nan_to_num(spread(more[None])[0])), float(chance))
    _, place, ranks = np.unique(durations.servers[rows], return_inverse=True, return_counts=True)
    found = _changing(own, np.hypot(table.error[rows], usual), 1 / ranks[place])
    lost = durations.on_path.lost_ns(rows)
    yield Group(WORK, rows, 1, more, error, lost, _named, found=found)


def _changing(own: Floats, error: Floats, weight: Floats) -> Window:
    """The window in which rows scatter most, by what differs from step to step.

    Ranks that are slow in all of its steps scatter as well, but the same ones do in each.
    """
    inside = best_scatter(own, error, weight).steps(own.shape[1])
    varying = own.copy()
    known = np.isfinite(own[:, inside]).sum(axis=1, keepdims=True)
    varying[:, inside] -= nanmedian(own[:, inside], axis=1)[:, None]
    varying[:, inside] *= np.sqrt(known / np.maximum(known - 1, 1))
    return best_scatter(varying, error, weight)


def _of_bytes(durations: Durations) -> Iterable[Group]:
    """How much the bytes of most connections differ from usual, but for gradients.

    An evaluation has more activations, and no more of what answers them.
    """
    sent = [
        durations.traffic.bytes_of(one.connections)
        for one in durations.graph.nodes.communicators
        if one.kind != "dp"
    ]
    if not sent:
        return
    size = np.concatenate(sent)
    usual = nanmedian(size, axis=1)[:, None]
    most = step_effect(np.abs(size / np.where(usual > 0, usual, np.nan) - 1))
    most[~np.isfinite(durations.transfer.excess).any(axis=0)] = np.nan  # what is explained
    error = max(float(np.nan_to_num(spread(most[None])[0])), EXACT)
    rows = np.arange(len(durations.compute.excess))
    lost = np.nan_to_num(durations.length_ns - durations.usual_ns)
    found = best_scatter(most[None], np.array([error]), np.ones(1))
    yield Group(WORK, rows, 1, most, error, lost, _named, found=found)


def _named(durations: Durations, window: Window) -> Named | None:
    if window.last < WARM_UP or window.first == window.last:
        return None  # in one step: a save or an evaluation
    return named_uneven(durations)


def named_uneven(durations: Durations) -> Named:
    """The job, whose work is divided unevenly."""
    has_experts = any(one.kind == "ep" for one in durations.graph.nodes.communicators)
    cause, other = CAUSES[has_experts], CAUSES[not has_experts]
    name = durations.job.name
    return Named("job", "uneven_work", cause, "job", name, {"or_causes": [other]})


def is_uneven(durations: Durations, window: Window) -> bool:
    """Whether ranks scatter more in most steps of a window, and other ones in each."""
    inside = window.steps(durations.steps)
    for group in imbalance(durations):
        found = group.found or best_window(group.excess, group.error)
        same = found.steps(durations.steps) & inside
        if found.ratio > penalty(1, durations.steps) and 2 * same.sum() > inside.sum():
            return True
    return False
