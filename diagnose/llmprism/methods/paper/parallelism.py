"""Stage 2, communication type (Algorithm 2): is a pair data or pipeline parallel?

Each pair's flows are divided into steps and the distinct flow sizes N_k of every step k counted.
A pipeline sends activations of one shape, so its messages have one size; gradients are sent in
buckets of several sizes. ``mode(N_k) == 1`` means PP, anything else DP. Refinement: DP
is transitive, so every pair inside one connected component of the DP graph becomes DP.

The publication leaves the following open: pairs are *directed*, because the two
directions carry different traffic (activations forward, gradients back; a ring has one direction)
and would form two interleaved sequences if mixed. Sizes are exact. If two counts are equally
frequent, the smaller is the mode.

Kept as published: one PP pair with the type DP joins two stages' DP groups, and refinement then
changes every PP pair between them (trap 4); a job whose DP messages all have one size appears as
PP throughout, and nothing corrects it (trap 5); FSDP, expert and context parallelism and variable
sequence lengths violate "one size is PP" (trap 7); acknowledgements, set-up traffic and records
that timeouts cut are pairs and sizes like any other (trap 8).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.methods.paper.cutting import cut_steps
from llmprism.model import DP, PP, Jobs, Pairs
from llmprism.numerics.arrays import Bools, Codes, Floats, Grouped, Ints, grouped
from llmprism.numerics.graph import components


def classify_pairs(flows: FlowTable, jobs: Jobs) -> Pairs:
    """Classify every communicating pair, before and after refinement.

    Confidence: the share of steps that agree with the kind, by Laplace's rule of
    succession, (agreeing + 1) / (steps + 2). For a pair that refinement changed: the share
    of pairs in its component that were DP before, by the same rule.
    """
    src, dst, of_flow = flows.pairs
    by = grouped(of_flow, src.size)
    cuts = cut_steps(flows.start_ns, flows.end_ns, by)
    single, share = _verdicts(flows.bytes[by.order], cuts.step, by)
    raw = np.where(single, PP, DP).astype(np.int8)
    inside, dp_share = _refine(src, dst, raw == DP, len(flows.addresses))
    kind = np.where(inside, DP, raw).astype(np.int8)
    confidence = np.where(kind == raw, share, dp_share)
    first = by.order[by.offsets[:-1]]
    return Pairs(
        src=src,
        dst=dst,
        job=jobs.of_address[src],
        kind=kind,
        kind_unrefined=raw,
        confidence=confidence,
        start_ns=flows.start_ns[first],
        bytes=np.bincount(of_flow, weights=flows.bytes, minlength=src.size).astype(np.int64),
        of_flow=of_flow,
    )


def _verdicts(sizes: Ints, step: Codes, by: Grouped) -> tuple[Bools, Floats]:
    """Return whether mode(N_k) is 1, and the share of steps that agree, by pair."""
    pair = by.codes
    opens = np.ones(sizes.size, dtype=np.bool_)  # True at the first flow of a pair's step
    opens[1:] = (np.diff(pair) != 0) | (np.diff(step) != 0)
    number = np.cumsum(opens) - 1
    ordered = sizes[np.lexsort((sizes, number))]
    fresh = opens.copy()  # True where a size first occurs in the step
    fresh[1:] |= np.diff(ordered) != 0
    distinct = np.add.reduceat(fresh, np.flatnonzero(opens), dtype=np.int64)
    votes = pd.DataFrame({"pair": pair[opens], "distinct": distinct}).value_counts(sort=False)
    often = votes.rename("steps").reset_index()
    often = often.sort_values(["pair", "steps", "distinct"], ascending=[True, False, True])
    mode = often.drop_duplicates("pair")["distinct"].to_numpy()
    single = np.bincount(pair[opens], weights=distinct == 1)
    steps = np.bincount(pair[opens])
    agree = np.where(mode == 1, single, steps - single)
    return mode == 1, (agree + 1.0) / (steps + 2.0)


def _refine(src: Codes, dst: Codes, is_dp: Bools, nodes: int) -> tuple[Bools, Floats]:
    """Return the pairs inside one component of the DP graph, and the DP share of each one's."""
    label = components(src[is_dp], dst[is_dp], nodes)
    inside = label[src] == label[dst]
    home = label[src[inside]]
    total = np.bincount(home, minlength=nodes)
    agree = np.bincount(home, weights=is_dp[inside], minlength=nodes)
    return inside, ((agree + 1.0) / (total + 2.0))[label[src]]
