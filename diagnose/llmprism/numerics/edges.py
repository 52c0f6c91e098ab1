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
    by: tuple[Codes, Ints], together_ns: Floats, times: tuple[Floats, Floats],
    normal: tuple[Floats, Ints],
) -> None:  # fmt: skip
    """Take what participations in a rendezvous waited for each other out of their computations.

    Those that join at the same moment, within ``together_ns`` of each rendezvous, waited for the
    one that computed as usual. ``by`` has the participations in order of their rendezvous, and
    where those of each begin, ``times`` the computation and the join of each. ``normal`` as in
    :func:`add_up`.
    """
    (order, offsets), (compute, join), (median, kind) = by, times, normal
    for met in range(offsets.size - 1):
        members = order[offsets[met] : offsets[met + 1]]
        if members.size < 2:
            continue
        for step in range(compute.shape[1]):
            in_order = members[np.argsort(join[members, step])]
            first = 0
            while first < members.size and np.isfinite(join[in_order[first], step]):
                until = join[in_order[first], step] + together_ns[met]
                last, known, least = first, 0, np.inf
                while last < members.size and join[in_order[last], step] <= until:
                    one = in_order[last]
                    longer = compute[one, step] - median[one, kind[step]]
                    if np.isfinite(longer):
                        known += 1
                        least = min(least, longer)
                    last += 1
                for one in in_order[first:last]:
                    waited = compute[one, step] - median[one, kind[step]] - least
                    if known > 1 and waited > 0:
                        compute[one, step] -= waited
                first = last
