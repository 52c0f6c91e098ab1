"""Was the layout of each job recovered: sizes, groups, and stage order?

The five indices of a rank (dp, pp, tp, ep, cp) are axes of one grid. The true groups of an
axis are the ranks that differ only in that index, as sets of NIC addresses: several ranks
on one NIC are one member, and a group of one address does not count. *groups_exact* is the
fraction of the true DP groups and pipelines for which the diagnosis has a group of the
same kind with exactly that address set.

The inferred sizes are those that the table ``layouts`` gives to the found job that overlaps the
true job best; ``None`` where it cannot tell. Groups have the addresses that flows show, so a group
may be smaller: some of its ranks are in one server. A diagnosis without that table
has the most common size of its groups (ties: the larger). If a job has groups, but none along dp or
pp, its size along that axis is 1, because an axis without traffic has size 1. For tp, ep and cp,
missing groups prove nothing and the size is ``None``: TP stays inside a server. A job without
any group has every size ``None``.

*stage_order* is the fraction of true pipelines, first stage to last, that some inferred
pipeline has in exactly that order of ``position``; a pipeline without positions is not
recovered. It is ``None`` for a job without pipelines. The true *micro_batches* are those of a
step's passes, median, without evaluations; the inferred ones come from that column of ``layouts``,
or else of ``jobs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from prism_common.kinds import AXES, DP, PP
from prism_sim.score.declare import Figure, Named, Table, Words, descriptive, higher, right
from prism_sim.score.jobs import members, overlaps
from prism_sim.score.load import Case
from prism_sim.score.stats import mean, ratio

_SEEN_ON_THE_WIRE = (DP, PP)
_PASSES = ("fwd", "bwd")

Groups = dict[str, list[tuple[str, ...]]]
"""Address sequences by kind of group; ordered if the order is known."""

Sizes = dict[str, int | None]


@dataclass(frozen=True)
class GroupCounts:
    """Groups of one kind of one job."""

    true: Annotated[int, descriptive("true groups of this kind")]
    exact: Annotated[int, higher("groups found with exactly the right addresses")]
    ordered: Annotated[int, higher("groups found in exactly the right order")]


@dataclass(frozen=True)
class MicroBatches:
    """Number of micro-batches in a step of one job."""

    true: Annotated[int | None, descriptive("micro-batches in a step, in the truth")]
    inferred: Annotated[int | None, descriptive("micro-batches in a step, inferred")]


@dataclass(frozen=True)
class JobLayout:
    """The true and the inferred layout of one true job."""

    job: Annotated[str, Words("name of the true job")]
    found: Annotated[str | None, Words("name of the found job that overlaps it best")]
    true: Annotated[Sizes, Table((Figure("AXIS", "true size of an axis of the layout"),))]
    inferred: Annotated[Sizes, Table((Figure("AXIS", "inferred size of an axis of the layout"),))]
    sizes_exact: Annotated[bool, right("1 if the inferred dp and pp are the true ones")]
    stage_order: Annotated[float | None, right("pipelines found in the right order of stages")]
    stage_order_exact: Annotated[
        bool | None, right("1 if every pipeline has the right order of stages")
    ]
    micro_batches: MicroBatches
    groups: Annotated[dict[str, GroupCounts], Named("AXIS")]


@dataclass(frozen=True)
class ParallelismScore:
    """Groups, stage order and sizes over all jobs, and the layout of each."""

    groups_exact: Annotated[float | None, right("DP groups and pipelines found exactly")]
    groups_exact_dp: Annotated[float | None, right("DP groups found exactly")]
    groups_exact_pp: Annotated[float | None, right("pipelines found exactly")]
    stage_order: Annotated[float | None, right("pipelines found in the right order of stages")]
    sizes_exact: Annotated[float | None, right("jobs whose inferred dp and pp are the true ones")]
    jobs: Annotated[list[JobLayout], Named("JOB")]


def score_parallelism(case: Case) -> ParallelismScore:
    """True and inferred layout of each true job; ``groups_exact`` over all jobs."""
    best = overlaps(members(case.truth["ranks"]), members(case.diagnosis["jobs"]))
    best = best.drop_duplicates("true")
    found_of = dict(zip(best["true"], best["found"], strict=True))
    jobs = [
        _score_job(case, str(job), ranks, found_of.get(str(job)))
        for job, ranks in case.truth["ranks"].groupby("job")
    ]
    total, exact, ordered = (
        {kind: sum(getattr(job.groups[kind], part) for job in jobs) for kind in _SEEN_ON_THE_WIRE}
        for part in ("true", "exact", "ordered")
    )
    return ParallelismScore(
        groups_exact=ratio(sum(exact.values()), sum(total.values())),
        groups_exact_dp=ratio(exact["dp"], total["dp"]),
        groups_exact_pp=ratio(exact["pp"], total["pp"]),
        stage_order=ratio(ordered["pp"], total["pp"]),
        sizes_exact=mean(np.array([job.sizes_exact for job in jobs], bool)),
        jobs=jobs,
    )


def _score_job(case: Case, job: str, ranks: pd.DataFrame, found: str | None) -> JobLayout:
    true = true_groups(ranks)
    groups, order = _inferred_groups(case, found)
    sizes = {axis: _true_size(ranks[axis]) for axis in AXES}
    inferred = _inferred_sizes(case, found, groups)
    counts = {kind: _count(true[kind], groups.get(kind, []), order) for kind in _SEEN_ON_THE_WIRE}
    stage_order = ratio(counts["pp"].ordered, counts["pp"].true)
    spans = case.truth["spans"]
    own = spans[(spans["job"] == job) & spans["kind"].isin(_PASSES)]
    batches = own.groupby(["rank", "step"], observed=True)["micro_batch"].nunique().median()
    return JobLayout(
        job=job,
        found=found,
        true=sizes,
        inferred=inferred,
        sizes_exact=all(sizes[axis] in (None, inferred[axis]) for axis in _SEEN_ON_THE_WIRE),
        stage_order=stage_order,
        stage_order_exact=None if stage_order is None else stage_order == 1.0,
        micro_batches=MicroBatches(
            int(np.nan_to_num(batches)) or None, _inferred_micro_batches(case, found)
        ),
        groups=counts,
    )


def true_groups(ranks: pd.DataFrame) -> Groups:
    """Address sequences of one job's DP groups and pipelines, in the order of the index.

    >>> frame = pd.DataFrame({"address": ["a", "b"], "dp": [0, 0], "pp": [1, 0]})
    >>> true_groups(frame.assign(tp=0, ep=0, cp=0))
    {'dp': [], 'pp': [('b', 'a')]}
    """
    grid = ranks.assign(**{axis: pd.to_numeric(ranks[axis]).fillna(0) for axis in AXES})
    groups: Groups = {}
    for kind in _SEEN_ON_THE_WIRE:
        others = [axis for axis in AXES if axis != kind]
        parts = grid.sort_values(kind).groupby(others)["address"]
        sequences = {tuple(dict.fromkeys(part)) for _, part in parts}
        groups[kind] = sorted(s for s in sequences if len(s) > 1)
    return groups


def _inferred_groups(case: Case, found: str | None) -> tuple[Groups, set[tuple[str, ...]]]:
    """Groups of the found job, and its pipelines with a known order."""
    table = case.diagnosis["groups"]
    table = table[table["job"] == found].sort_values("position")
    groups: Groups = {}
    ordered = set()
    for (kind, _), part in table.groupby(["kind", "group"]):
        sequence = tuple(dict.fromkeys(part["address"].astype(str)))
        groups.setdefault(str(kind), []).append(sequence)
        if kind == "pp" and part["position"].notna().all() and part["position"].is_unique:
            ordered.add(sequence)
    return groups, ordered


def _count(
    true: list[tuple[str, ...]], inferred: list[tuple[str, ...]], ordered: set[tuple[str, ...]]
) -> GroupCounts:
    sets = {frozenset(sequence) for sequence in inferred}
    exact = sum(frozenset(sequence) in sets for sequence in true)
    return GroupCounts(len(true), exact, len(ordered.intersection(true)))


def _true_size(index: pd.Series) -> int | None:
    return int(index.nunique()) or None


def _inferred_sizes(case: Case, found: str | None, groups: Groups) -> Sizes:
    row = _layout(case, found)
    if row is None:
        return {axis: _inferred_size(groups, axis) for axis in AXES}
    return {axis: int(row[axis]) if row[axis] > 0 else None for axis in AXES}


def _layout(case: Case, found: str | None) -> pd.Series | None:
    """The row of ``layouts`` of a job; None where the diagnosis has none."""
    table = case.diagnosis.get("layouts")
    own = None if table is None else table[table["job"] == found]
    return None if own is None or own.empty else own.iloc[0]


def _inferred_size(groups: Groups, axis: str) -> int | None:
    if not groups:
        return None
    sizes = pd.Series([len(sequence) for sequence in groups.get(axis, [])], dtype="int64")
    if len(sizes):
        return int(sizes.mode().max())
    return 1 if axis in _SEEN_ON_THE_WIRE else None


def _inferred_micro_batches(case: Case, found: str | None) -> int | None:
    row = _layout(case, found)
    if row is not None and row["micro_batches"] > 0:
        return int(row["micro_batches"])
    table = case.diagnosis["jobs"]
    if "micro_batches" not in table.columns:
        return None
    counts = table.loc[table["job"] == found, "micro_batches"].dropna()
    return int(counts.mode().max()) if len(counts) else None
