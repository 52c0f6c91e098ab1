"""Passes over the edges of a graph of steps: many rows, one column for each step.

Every pass looks at each duration once, and takes no memory beside what it fills.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Codes, Floats, Ints
from prism_common.compiled import compiled


@dataclass(frozen=True)
class Usual:
    """Normal values of rows, which are the same in all steps of a kind.

    Attributes
    ----------
    median : of each row in the steps of each kind, shape (rows, kinds).
    kind : place of the kind of each step, shape (steps,).
    """

    median: Floats
    kind: Ints

    def at(self, rows: Ints | int, step: int) -> Floats:
        """Normal values of ``rows`` in a step."""
        found: Floats = self.median[rows, self.kind[step]]
        return found


@compiled
def add_up(
    durations: Floats, normal: tuple[Floats, Ints], row: Ints, sums: tuple[Floats, Floats, Ints]
) -> None:
    """Add the known durations of edges to those of their rows: what is longer, normal, edges.

    ``normal`` has the usual duration of each edge in steps of each kind, and the kind of each step.
    """
    (longer, whole, edges), (median, kind) = sums, normal
    for edge in range(len(durations)):
        is_known = False
        for step in range(durations.shape[1]):
            usual = median[edge, kind[step]]
            if np.isfinite(durations[edge, step]) and usual > 0:
                longer[row[edge], step] += durations[edge, step] - usual
                whole[row[edge], step] += usual
                is_known = True
        edges[row[edge]] += is_known


@compiled
def take_waiting_out(
    by: tuple[Codes, Ints], operation: Ints, together_ns: Floats,
    times: tuple[Floats, Floats, Floats], normal: tuple[Floats, Ints],
) -> None:  # fmt: skip
    """Take what each participation in a rendezvous waited out of its computation.

    ``by`` has the participations in order of their rendezvous, and where those of each begin.
    ``normal`` as in :func:`add_up`.
    """
    (order, offsets), (median, kind) = by, normal
    compute, begin, join = times
    for met in range(offsets.size - 1):
        members = order[offsets[met] : offsets[met + 1]]
        if members.size < 2:
            continue
        for step in range(compute.shape[1]):
            latest = -np.inf
            for one in members:
                if begin[operation[one], step] > latest:
                    latest = begin[operation[one], step]
            count, least = 0, np.inf
            for one in members:
                longer = compute[one, step] - median[one, kind[step]]
                if np.isfinite(longer) and join[one, step] >= latest - together_ns[met]:
                    count += 1
                    least = min(least, longer)
            if count < 2:
                continue
            for one in members:
                waited = compute[one, step] - median[one, kind[step]] - least
                if waited > 0 and join[one, step] >= latest - together_ns[met]:
                    compute[one, step] -= waited
