"""The diagnoses of successive windows as one.

Steps are taken from the window in which they count (:mod:`~llmprism.batches.chains`), layout,
groups and kinds of pairs from the window that is surest of the layout. A finding that lasts over
the border between two windows is one finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from llmprism.batches.chains import Chain
from llmprism.batches.stored_spans import Kept
from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Intake
from llmprism.io.parts import InParts
from llmprism.io.screening import REPEATED
from llmprism.io.tables import DIAGNOSIS
from llmprism.verdict import RecordsVerdict, reasons_about, scopes_about, step_counts

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
                for window, job, kept in zip(chain.windows, chain.jobs, chain.kept, strict=True)
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
        job: kept
        for chain in chains
        for number, job, kept in zip(chain.windows, chain.jobs, chain.kept, strict=True)
        if number == window
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
        for window, job, kept in zip(chain.windows, chain.jobs, chain.kept, strict=True):
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
