"""Passes over the edges of a graph of steps: many rows, one column for each step.

Every pass looks at each duration once, and takes no memory beside what it fills.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Floats, Ints
from prism_common.compiled import compiled
from prism_common.early import FLOATS, INTS, compile_early


@compiled
def add_up(durations: Floats, normal: Floats, row: Ints, sums: tuple[Floats, Floats, Ints]) -> None:
    """Add the known durations of edges to those of their rows: what is longer, normal, edges."""
    longer, whole, edges = sums
    for edge in range(len(durations)):
        is_known = False
        for step in range(durations.shape[1]):
            usual = normal[edge, step]
            if np.isfinite(durations[edge, step]) and usual > 0:
                longer[row[edge], step] += durations[edge, step] - usual
                whole[row[edge], step] += usual
                is_known = True
        edges[row[edge]] += is_known


@compiled
def take_waiting_out(
    order: Ints, offsets: Ints, operation: Ints, together_ns: Floats,
    times: tuple[Floats, Floats, Floats, Floats],
) -> None:  # fmt: skip
    """Take what each participation in a rendezvous waited out of its computation.

    ``order`` has the participations of each rendezvous, which begin at ``offsets``.
    """
    compute, normal, begin, join = times
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
                longer = compute[one, step] - normal[one, step]
                if np.isfinite(longer) and join[one, step] >= latest - together_ns[met]:
                    count += 1
                    least = min(least, longer)
            if count < 2:
                continue
            for one in members:
                waited = compute[one, step] - normal[one, step] - least
                if waited > 0 and join[one, step] >= latest - together_ns[met]:
                    compute[one, step] -= waited


compile_early(
    add_up, lambda: (FLOATS[:, None], FLOATS[:, None], INTS, (FLOATS[:, None],) * 2 + (INTS,))
)
compile_early(take_waiting_out, lambda: (INTS, INTS, INTS, FLOATS, (FLOATS[:, None],) * 4))
