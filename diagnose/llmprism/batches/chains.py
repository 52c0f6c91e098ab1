"""The same job in successive windows, and which of its steps count in each.

A job of one window is that of the window before with which it shares most endpoints. Both have the
steps of the time in which the windows overlap. In the middle of it, the later window takes over:
its step that ends when one of the earlier window does is the same one.

The diagnoses of windows become one. Layout, groups and kinds of pairs are those of the window that
is surest of the layout. A finding that lasts over the border between two windows is one finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from llmprism.batches.stored_spans import Kept
from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Intake
from llmprism.io.parts import InParts
from llmprism.io.screening import REPEATED
from llmprism.io.tables import DIAGNOSIS
from llmprism.verdict import RecordsVerdict, reasons_about, scopes_about, step_counts

SHARED = 0.5  # of the endpoints of the smaller one, by which two jobs are the same
SAME_END = 0.25  # of a step: what is the end of one step in both windows differs by less


@dataclass
class Chain:
    """One job in successive windows.

    Attributes
    ----------
    name : of the job, as in the first of them.
    windows : their numbers.
    jobs : its name in each of them.
    kept : the steps that count in each of them.
    """

    name: str
    windows: list[int] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def parts(self) -> Iterator[tuple[int, str, Kept]]:
        """Of each window: its number, the name of the job in it, and the steps that count."""
        return zip(self.windows, self.jobs, self.kept, strict=True)

    def add(self, window: int, job: str, kept: Kept) -> None:
        """Continue in a further window."""
        self.windows.append(window)
        self.jobs.append(job)
        self.kept.append(kept)


def chains_of(
    diagnoses: Sequence[Diagnosis], overlaps_ns: Sequence[tuple[int, int]]
) -> list[Chain]:
    """The jobs of all windows; ``overlaps_ns`` are the times that each shares with the one before.

    The first window shares none, and its entry is not used.
    """
    chains: list[Chain] = []
    members = [members_of(one) for one in diagnoses]
    ends = [ends_of(one.steps) for one in diagnoses]
    for window, jobs in enumerate(members):
        before = [one for one in chains if one.windows[-1] == window - 1]
        for job, addresses in jobs.items():
            chain = _continued(before, members[window - 1], addresses) if window else None
            if chain is None:
                chains.append(Chain(f"job-{len(chains)}"))
                chains[-1].add(window, job, Kept(chains[-1].name))
                continue
            before.remove(chain)
            old, new = ends[window - 1].get(chain.jobs[-1]), ends[window].get(job)
            chain.kept[-1], kept = _taken_over(old, new, chain.kept[-1], overlaps_ns[window])
            chain.add(window, job, kept)
    return chains


def members_of(diagnosis: Diagnosis) -> dict[str, frozenset[str]]:
    """The addresses of each job, in the order of jobs."""
    by_job = diagnosis.jobs.groupby("job", sort=False)["address"]
    return {str(job): frozenset(addresses) for job, addresses in by_job}


def ends_of(steps: pd.DataFrame) -> dict[str, pd.Series]:
    """When each step of each job ends [ns], the median of its ranks."""
    shown = steps["dp_end_ns"].fillna(steps["end_ns"]).astype("int64")
    medians = shown.groupby([steps["job"], steps["step"]]).median()
    return {str(job): own.droplevel(0) for job, own in medians.groupby(level=0)}


def period_of(ends_ns: pd.Series, unknown_ns: float) -> float:
    """Median time between the ends of two steps [ns]; ``unknown_ns`` if there is one step."""
    return float(ends_ns.diff().median()) if len(ends_ns) > 1 else unknown_ns


def _continued(
    before: Sequence[Chain], members: dict[str, frozenset[str]], addresses: frozenset[str]
) -> Chain | None:
    """The chain whose last job shares most of the ``addresses``."""

    def shared(chain: Chain) -> float:
        last = members[chain.jobs[-1]]
        return len(last & addresses) / min(len(last), len(addresses))

    best = max(before, key=shared, default=None)
    return best if best is not None and shared(best) >= SHARED else None


def _taken_over(
    old: pd.Series | None, new: pd.Series | None, kept: Kept, overlap_ns: tuple[int, int]
) -> tuple[Kept, Kept]:
    """What counts of the earlier window, and of the later one, by the ends of their steps [ns]."""
    if old is None or new is None:
        last = kept.last if old is None else int(old.index.max())
        return kept, Kept(kept.name, shift=last + 1 + kept.shift if old is not None else 0)
    middle = sum(overlap_ns) / 2
    ours = _nearest(new, middle)
    theirs = _nearest(old, new[ours])
    period = float(new.diff().median())
    if abs(old[theirs] - new[ours]) > SAME_END * period:  # nothing in common: one after the other
        theirs = int(old.index.max())
        later = new.index[new > old[theirs] + SAME_END * period]
        ours = int(later.min()) - 1 if later.size else int(new.index.max())
    shift = kept.shift + theirs - ours
    return replace(kept, last=theirs), Kept(kept.name, first=ours + 1, shift=shift)


def _nearest(ends: pd.Series, time: float) -> int:
    """The step that ends nearest to a time."""
    return int(ends.index.to_numpy()[np.abs(ends.to_numpy() - time).argmin()])


_SAME = ["job", "level", "symptom", "cause", "culprit_kind", "culprit"]
_NO_JOB = 2  # preference of what a window says about a pair outside of all jobs


def stitched(
    diagnoses: Sequence[Diagnosis], chains: Sequence[Chain], shares: Sequence[float]
) -> Diagnosis:
    """One diagnosis, without spans, of windows in order.

    ``shares`` are the shares of the records of each window that are not in the one before.
    """
    surest = [_surest(diagnoses, chain) for chain in chains]
    tables = {
        "jobs": _each(diagnoses, chains, surest, "jobs", every_window=True),
        "layouts": _each(diagnoses, chains, surest, "layouts"),
        "groups": _each(diagnoses, chains, surest, "groups"),
        "pairs": _pairs(diagnoses, chains, surest),
        "steps": _joined(
            [
                kept.of(_of_job(diagnoses[window].steps, job))
                for chain in chains
                for window, job, kept in chain.parts()
            ],
            diagnoses[0].steps,
        ),
        "findings": _findings(diagnoses, chains),
    }
    return Diagnosis(
        method=diagnoses[0].method,
        left_out=diagnoses[0].left_out,
        intake=_intake([one.intake for one in diagnoses], shares),
        verdict=_verdict(diagnoses, chains, surest, shares, tables["steps"]),
        spans_in_parts=InParts.of(DIAGNOSIS["spans"].empty_table().to_pandas()),
        **tables,
    )


def kept_in(chains: Sequence[Chain], window: int) -> dict[str, Kept]:
    """What counts of each job in a window."""
    return {
        job: kept for chain in chains for number, job, kept in chain.parts() if number == window
    }


def _surest(diagnoses: Sequence[Diagnosis], chain: Chain) -> int:
    """Place in ``chain`` of the window that is surest of the layout, the first of equals."""
    sure = [-1.0] * len(chain.windows)
    for place, (window, job) in enumerate(zip(chain.windows, chain.jobs, strict=True)):
        steps = (diagnoses[window].steps["job"] == job).any()
        own = _of_job(diagnoses[window].layouts, job)["confidence"]
        sure[place] = float(own.iloc[0]) + float(steps) if own.size else float(steps)
    return sure.index(max(sure))


def _of_job(table: pd.DataFrame, job: str) -> pd.DataFrame:
    return table[table["job"] == job]


def _joined(tables: Sequence[pd.DataFrame], like: pd.DataFrame) -> pd.DataFrame:
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else like.iloc[:0]


def _each(
    diagnoses: Sequence[Diagnosis],
    chains: Sequence[Chain],
    surest: Sequence[int],
    name: str,
    every_window: bool = False,
) -> pd.DataFrame:
    """The rows of each job in its surest window; with ``every_window``, further addresses too."""
    found = []
    for chain, sure in zip(chains, surest, strict=True):
        places = [sure, *(place for place in range(len(chain.jobs)) if place != sure)]
        for place in places if every_window else places[:1]:
            table = getattr(diagnoses[chain.windows[place]], name)
            found.append(_of_job(table, chain.jobs[place]).assign(job=chain.name))
    rows = _joined(found, getattr(diagnoses[0], name))
    return rows.drop_duplicates(["job", "address"], ignore_index=True) if every_window else rows


def _pairs(
    diagnoses: Sequence[Diagnosis], chains: Sequence[Chain], surest: Sequence[int]
) -> pd.DataFrame:
    """What one window says about each pair: the surest one of its job, or else the first."""
    found = []
    for window, one in enumerate(diagnoses):
        names: dict[str, str] = {}
        preference: dict[str, int] = {}
        for chain, sure in zip(chains, surest, strict=True):
            if window in chain.windows:
                place = chain.windows.index(window)
                names[chain.jobs[place]] = chain.name
                preference[chain.jobs[place]] = int(place != sure)
        job = one.pairs["job"]
        rank = job.map(preference).fillna(_NO_JOB).astype(int) * len(diagnoses) + window
        found.append(one.pairs.assign(job=job.map(names).fillna(job), rank=rank))
    every = pd.concat(found, ignore_index=True)
    best = every.groupby(["src", "dst"])["rank"].transform("min")
    return every[every["rank"] == best].drop(columns="rank").reset_index(drop=True)


def _findings(diagnoses: Sequence[Diagnosis], chains: Sequence[Chain]) -> pd.DataFrame:
    """The findings of all windows; one that lasts over a border counts once."""
    found = []
    for chain in chains:
        for window, job, kept in chain.parts():
            own = _of_job(diagnoses[window].findings, job).assign(job=chain.name)
            found += [row for one in own.to_dict("records") if (row := _inside(one, kept))]
    rows: list[dict[str, Any]] = []
    for one in sorted(found, key=lambda row: int(row["first_step"])):
        same = [row for row in rows if _is_continued(row, one)]
        if same:
            _continue(same[-1], one)
        else:
            rows.append(one)
    return pd.DataFrame(rows, columns=diagnoses[0].findings.columns)


def _inside(row: Mapping[Any, Any], kept: Kept) -> dict[str, Any] | None:
    """A finding as far as it is in the steps that count; None if it is not.

    Of what it costs, the same share counts as of its steps.
    """
    first, last = max(row["first_step"], kept.first), min(row["last_step"], kept.last)
    if first > last:
        return None
    share = (last - first + 1) / (row["last_step"] - row["first_step"] + 1)
    steps = {"first_step": first + kept.shift, "last_step": last + kept.shift}
    return {**row, **steps, "cost": row["cost"] * share}


def _is_continued(row: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    alike = all(row[name] == later[name] for name in _SAME)
    return alike and bool(later["first_step"] <= row["last_step"] + 1)


def _continue(row: dict[str, Any], later: Mapping[str, Any]) -> None:
    row["last_step"] = max(row["last_step"], later["last_step"])
    row["start_ns"] = min(row["start_ns"], later["start_ns"])
    row["end_ns"] = max(row["end_ns"], later["end_ns"])
    row["cost"] += later["cost"]
    if later["confidence"] > row["confidence"]:
        row.update({name: later[name] for name in ("confidence", "magnitude", "evidence")})


def _intake(every: Sequence[Intake], shares: Sequence[float]) -> Intake:
    """The repetitions of all windows, in proportion to records that no earlier window has."""
    surplus, repeated = (
        round(sum(count * share for count, share in zip(counts, shares, strict=True)))
        for counts in (
            [one.set_aside.get(REPEATED, 0) for one in every],
            [one.repeated for one in every],
        )
    )
    return Intake(0, 0, {REPEATED: surplus} if surplus else {}, {}, repeated=repeated)


def _verdict(
    diagnoses: Sequence[Diagnosis],
    chains: Sequence[Chain],
    surest: Sequence[int],
    shares: Sequence[float],
    steps: pd.DataFrame,
) -> RecordsVerdict:
    """The verdict of the surest window on each job, with records and steps of all windows."""
    jobs, reasons, scopes = [], [], []
    for chain, sure in zip(chains, surest, strict=True):
        verdict, name = diagnoses[chain.windows[sure]].verdict, chain.jobs[sure]
        records = sum(
            _figures(diagnoses[window], job)["records"] * shares[window]
            for window, job in zip(chain.windows, chain.jobs, strict=True)
        )
        counts = step_counts(_of_job(steps, chain.name))
        figures = {**_figures(diagnoses[chain.windows[sure]], name), **counts}
        jobs.append({**figures, "records": round(records), "job": chain.name})
        reasons += reasons_about(verdict, name, chain.name)
        scopes += scopes_about(verdict, name, chain.name)
    if not chains:
        reasons = list(diagnoses[0].verdict.reasons)
    doubted = {one.job for one in reasons}
    can_tell = None not in doubted and any(chain.name not in doubted for chain in chains)
    every = {**diagnoses[0].verdict.figures, "jobs": jobs}
    return RecordsVerdict(can_tell, tuple(dict.fromkeys(reasons)), every, tuple(scopes))


def _figures(diagnosis: Diagnosis, job: str) -> dict[str, Any]:
    figures: dict[str, Any]
    (figures,) = [one for one in diagnosis.verdict.figures["jobs"] if one["job"] == job]
    return figures
