"""Normal durations, and how much longer than normal ranks and communicators take in every step.

The normal duration of an edge is its median over all steps of one kind
(:mod:`~llmprism.methods.prism.alike`).

The *excess* of a row (a rank, or a communicator) in a step is what its edges take longer than
normal together, as a share of their normal duration. Its error is estimated from the row and from
all rows of its kind: from differences of neighbouring steps, which a lasting fault changes twice
only, of every second step, and from the median, whichever is least.

Who joins a collective with others at the same moment may have waited for them: a hop begins when
both of its ends have joined. So none of them lost more than the one that lost least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import JobView
from llmprism.methods.prism.graph.durations import StepGraph
from llmprism.methods.prism.graph.rendezvous import Rendezvous
from llmprism.methods.prism.parameters import NOISE_FLOOR, QUARTER
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA, nanmedian


@dataclass(frozen=True)
class Table:
    """Excess of rows in steps.

    Attributes
    ----------
    excess : share of the normal duration, NaN where unknown, shape (rows, steps).
    normal_ns : normal duration of a row in a step, shape (rows,).
    error : standard deviation of the excess, shape (rows,).
    """

    excess: Floats
    normal_ns: Floats
    error: Floats


@dataclass(frozen=True)
class Reference:
    """Which steps show what is normal.

    Attributes
    ----------
    kind : of each step, 0 for the most frequent one, shape (steps,).
    healthy : steps that are believed to be normal, shape (steps,).
    """

    kind: Ints
    healthy: Bools

    def normal(self, values: Floats) -> Floats:
        """Normal value of each row in each step: the median over healthy steps of its kind."""
        normal = np.empty_like(values)
        for one in np.unique(self.kind).tolist():
            own = self.kind == one
            shown = own & self.healthy if (own & self.healthy).any() else own
            normal[:, own] = nanmedian(values[:, shown], axis=1)[:, None]
        return normal


def table_of(
    durations: Floats, row: Ints, rows: int, reference: Reference, tick_ns: float
) -> Table:
    """The excess of each row: edges of one ``row`` are taken together."""
    normal = reference.normal(durations)
    known = np.isfinite(durations) & (normal > 0)
    longer, whole = np.zeros((2, rows, durations.shape[1]))
    np.add.at(longer, row, np.where(known, durations - normal, 0.0))
    np.add.at(whole, row, np.where(known, normal, 0.0))
    normal_ns = whole.max(axis=1, initial=0.0)
    shown = whole > QUARTER * normal_ns[:, None]
    excess = np.where(shown, longer / np.where(whole > 0, whole, 1.0), np.nan)
    excess -= reference.normal(excess)
    edges = np.bincount(row[known.any(axis=1)], minlength=rows)
    rounding = np.sqrt(np.maximum(edges, 1)) * tick_ns / 2 / np.maximum(normal_ns, 1.0)
    return Table(excess, normal_ns, errors_of(excess, rounding))


def errors_of(excess: Floats, rounding: Floats) -> Floats:
    """Standard deviation of the excess of each row, none below what clocks make."""
    own = spread(excess)
    known = np.isfinite(own)
    pooled = float(np.median(own[known])) if known.any() else 1.0
    together = np.sqrt((np.nan_to_num(own, nan=pooled) ** 2 + pooled**2) / 2)
    errors: Floats = np.maximum(together, np.maximum(rounding, NOISE_FLOOR))
    return errors


def spread(values: Floats) -> Floats:
    """Standard deviation of each row that a lasting change does not inflate, shape (rows,).

    Nor does a change in every other step.
    """
    apart = (values[:, far:] - values[:, :-far] for far in (1, 2) if values.shape[1] > far)
    between = [nanmedian(np.abs(one), axis=1) * TO_SIGMA / np.sqrt(2) for one in apart]
    around = nanmedian(np.abs(values - nanmedian(values, axis=1)[:, None]), axis=1) * TO_SIGMA
    least: Floats = np.fmin.reduce([around, *between])
    return least


def without_waiting(graph: StepGraph, normal: Floats, rendezvous: Rendezvous) -> Floats:
    """Computation of each participation without waiting for others of the same rendezvous [ns].

    Who waits takes longer than ``normal``, of the same shape.
    """
    nodes, compute = graph.nodes, graph.compute.copy()
    longer = compute - normal
    latest = np.full(nodes.begin.shape, -np.inf)
    np.maximum.at(latest, rendezvous.of, np.nan_to_num(nodes.begin, nan=-np.inf))
    met = rendezvous.of[nodes.operation]
    begins = latest[met] - rendezvous.together_ns[met][:, None]
    at_once = np.isfinite(longer) & (nodes.join >= begins)
    shape = (len(nodes.begin), compute.shape[1])
    members = np.zeros(shape, np.int64)
    np.add.at(members, met, at_once.astype(np.int64))
    least = np.full(shape, np.inf)
    np.minimum.at(least, met, np.where(at_once, longer, np.inf))
    waited = longer - least[met]
    several = at_once & (members[met] > 1)
    without: Floats = np.where(several & (waited > 0), compute - waited, compute)
    return without


def step_effect(excess: Floats) -> Floats:
    """What most rows have in common in each step, beside the median step, shape (steps,).

    It is their lower quartile; NaN where fewer than two are known.
    """
    known = np.isfinite(excess).sum(axis=0)
    low: Floats = np.full(excess.shape[1], np.nan)
    for step in np.flatnonzero(known > 1).tolist():
        own = excess[np.isfinite(excess[:, step]), step]
        low[step] = float(np.quantile(own, 0.25, method="lower"))
    beside: Floats = low - np.nan_to_num(nanmedian(low[None], axis=1))
    return beside


def length_of_steps(job: JobView, reference: Reference) -> Floats:
    """Length of each step [ns], as if all were of the first kind; NaN where it is not measured."""
    length = job.duration_ns.copy()
    usual = reference.normal(length[None])[0]
    base = usual[reference.kind == 0]
    without: Floats = length - usual + (base[0] if base.size else usual)
    return without
