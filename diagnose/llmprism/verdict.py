"""Checks, for any method, whether the records suffice for a diagnosis.

A diagnosis without findings means "nothing stands out" only if a fault would have been
visible. Here the records and the result of the method are compared, job by job:

- *No records.* The file is empty, or every record was set aside.
- *No jobs, no steps.* The method found none, or fewer than two steps on every rank: the
  length of a step is the time between the ends of two.
- *Records longer than a step.* If half of the bytes are in records as long as a step or
  longer, a record does not show to which step its bytes belong. If half of the bytes are on
  pairs whose records leave no silence (they cover more than 90 % of the time between the first
  and the last), and half of the bytes are in records of at least a tenth of a step,
  the ends of steps are hidden inside records.
- *Clock.* Records that all lie within one tick have no order in time. A step is the difference
  of two times, each accurate to one tick. With less than two ticks in a step, its length may be
  wrong by its full value.
- *Ranks disagree.* Ranks of a job wait for each other in every step, so they have the same
  number of steps; one more or less at the edges of the recording is possible. If no majority
  of the ranks agrees on a number of two or more, the steps found are not the job's.
- *Units.* A training step takes a millisecond at least: the gradients of a model of a few
  million parameters alone take that long at the rates of today's networks. Shorter steps
  are times in another unit.

A finding about a job whose steps are not visible is a guess: its confidence is at most 1/2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable, Intake
from llmprism.io.screening import TOO_FAST
from llmprism.numerics.arrays import Floats, Ints, quantile_by_weight
from llmprism.numerics.independence import nothing_circulates
from llmprism.persistent_deviations import Scope
from prism_common.program import CANNOT_TELL_EXIT
from prism_common.quantities import duration

GUESS = 0.5  # the confidence of a finding that the records do not support, at most

_NO_SERVERS = 0.45  # of the confidence: a layout is more likely wrong than right
_TICKS = 2.0  # in a step, at least
_COVERED = 0.9  # of a pair's time by its records: no silence that could show a step's end
_NOT_MUCH_SHORTER = 0.1  # of a step: the length of a record
_SHORTEST_STEP_NS = 1e6
_SAMPLE = 200_000  # records whose lengths are looked at


@dataclass(frozen=True)
class Reason:
    """A reason why records do not suffice: a code, the job (None: all), and a sentence."""

    reason: str
    job: str | None
    text: str


@dataclass(frozen=True)
class RecordsVerdict:
    """Whether the records suffice, and the figures of that decision.

    Attributes
    ----------
    can_tell : False if no job can be diagnosed.
    reasons : the reasons, also if only some jobs cannot be diagnosed.
    figures : records kept and read, clock tick, and for each job its records, the length of a
        record (half of the bytes are in longer ones) and of a step (median), the share of the
        time that records cover, and the number of steps on the ranks.
    scopes : what was compared in each job that can be diagnosed, and what was not.
    """

    can_tell: bool = True
    reasons: tuple[Reason, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    scopes: tuple[Scope, ...] = ()

    @property
    def exit_code(self) -> int:
        """Exit code of a command that shows this diagnosis."""
        return 0 if self.can_tell else CANNOT_TELL_EXIT

    def doubted(self, job: str) -> list[str]:
        """Return the codes of the reasons why a job cannot be diagnosed."""
        return [one.reason for one in self.reasons if one.job in (None, job)]

    def with_scopes(self, scopes: Iterable[Scope]) -> RecordsVerdict:
        """Return the verdict with the scopes of the jobs that can be diagnosed."""
        return replace(self, scopes=tuple(one for one in scopes if not self.doubted(one.job)))

    def with_pauses(self, job: str, paused: Mapping[str, str]) -> RecordsVerdict:
        """Return the verdict with the pauses of one job, by the numbers of its steps."""
        scopes = [replace(one, paused=paused) if one.job == job else one for one in self.scopes]
        return replace(self, scopes=tuple(scopes))

    def lines(self) -> list[str]:
        """Return the lines to print: none if every job can be diagnosed."""
        if not self.reasons:
            return []
        subject = "what was slow" + (" in some jobs" if self.can_tell else "")
        about = [f"{one.job}: {one.text}" if one.job else one.text for one in self.reasons]
        return [f"These records cannot tell {subject}:", *about]

    def as_dict(self) -> dict[str, Any]:
        """Return a form that JSON can represent."""
        return asdict(self)


def judge(
    flows: FlowTable, intake: Intake, tables: Mapping[str, pd.DataFrame]
) -> tuple[RecordsVerdict, pd.DataFrame]:
    """Judge the records; return the verdict, and the findings with reduced confidence."""
    tick = clock_tick_ns(flows.start_ns, flows.end_ns)
    jobs = [_job_figures(*one) for one in _parts(flows, tables)]
    refused = _refused(tables)
    figures = {"rows": intake.rows, "kept": intake.kept, "clock_tick_ns": tick, "jobs": jobs}
    reasons = [*_about_all(intake, jobs, flows)]
    for job in jobs if not reasons else ():
        reasons += _about_job(job, tick, refused.get(job["job"], ""))
    doubted = {one.job for one in reasons}
    can_tell = None not in doubted and any(job["job"] not in doubted for job in jobs)
    verdict = RecordsVerdict(can_tell, tuple(reasons), figures)
    return verdict, _tempered(tables["findings"], verdict)


def reasons_about(verdict: RecordsVerdict, job: str, name: str) -> list[Reason]:
    """The reasons that concern ``job``, which is called ``name`` from now on."""
    every = [one for one in verdict.reasons if one.job in (None, job)]
    return [replace(one, job=name) if one.job == job else one for one in every]


def scopes_about(verdict: RecordsVerdict, job: str, name: str) -> list[Scope]:
    """The scope of ``job``, which is called ``name`` from now on."""
    return [replace(one, job=name) for one in verdict.scopes if one.job == job]


def _about_all(intake: Intake, jobs: list[dict[str, Any]], flows: FlowTable) -> Iterator[Reason]:
    if intake.rows == 0:
        yield Reason("no_records", None, "there are no records")
    elif intake.kept == 0:
        why = "; ".join(f"{count:,}: {reason}" for reason, count in intake.set_aside.items())
        hint = _UNITS if TOO_FAST in intake.set_aside else ""
        if intake.unknown_address_count:
            hint += "; is this the topology of these records?"
        text = f"all {intake.rows:,} records were set aside ({why}){hint}"
        yield Reason("all_records_set_aside", None, text)
    elif _within_a_tick(flows):
        yield Reason("coarse_clock", None, f"all {len(flows):,} records lie within one clock tick")
    elif not jobs:
        tick = clock_tick_ns(flows.start_ns)
        if nothing_circulates(flows.start_ns, flows.src, flows.dst, tick):
            yield Reason(NOTHING_CIRCULATES, None, _ALONE)
        else:
            yield Reason("no_jobs", None, f"no job was found in {len(flows):,} records")


def _within_a_tick(flows: FlowTable) -> bool:
    """Whether records have no more than two different times, which one tick parts."""
    first = min(flows.start_ns.min(), flows.end_ns.min())
    last = max(flows.start_ns.max(), flows.end_ns.max())
    return all(((t == first) | (t == last)).all() for t in (flows.start_ns, flows.end_ns))


def _refused(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Why the method gave a job no timeline, by job."""
    layouts = tables.get("layouts", pd.DataFrame(columns=["job", "evidence"]))
    evidence = zip(layouts["job"], layouts["evidence"], strict=True)
    found = {str(job): str(json.loads(text or "{}").get("refused", "")) for job, text in evidence}
    return {job: reason for job, reason in found.items() if reason}


def _about_job(job: dict[str, Any], tick: int, refused: str) -> Iterator[Reason]:
    name, step = job["job"], job["step_ns"]
    long = f"half of the bytes are in records of {duration(job['record_ns'])} or longer"
    if step > 0 and job["record_ns"] >= step:
        text = f"{long}, and a step takes {duration(step)}; {_SHORTER_TIMEOUTS}"
        yield Reason("long_records", name, text)
    elif job["covered"] > _COVERED and job["record_ns"] > _NOT_MUCH_SHORTER * step:
        silence = f"and records cover {job['covered']:.0%} of the time"
        text = f"{long}, {silence}: no silence shows the end of a step; {_SHORTER_TIMEOUTS}"
        yield Reason("long_records", name, text)
    if job["steps_most"] < 2:
        text = "the length of a step is the time between two of them"
        text = f"no rank has two steps, and {refused or text}"
        yield Reason("too_few_steps", name, text)
        return
    if tick * _TICKS > step:
        text = f"the clock has ticks of {duration(tick)}, and a step takes {duration(step)}"
        yield Reason("coarse_clock", name, text)
    if 2 * job["ranks_disagreeing"] >= job["ranks"]:
        text = (
            f"{job['ranks_disagreeing']} of {job['ranks']} ranks disagree on the number of steps "
            f"({job['steps_fewest']} to {job['steps_most']}, most often {job['steps_commonest']})"
        )
        yield Reason("ranks_disagree", name, text)
    if step < _SHORTEST_STEP_NS:
        text = f"a step of {duration(step)} is shorter than any training step{_UNITS}"
        yield Reason("implausible_step", name, text)


NOTHING_CIRCULATES = "nothing_circulates"
_ALONE = (
    "no job was found: nothing circulates, as each record begins at a time of its own, and any"
    " address sends to any other"
)
_UNITS = "; are the times in ns, and not in us or ms?"
_SHORTER_TIMEOUTS = "shorter timeouts of the exporter would show steps"


def _parts(
    flows: FlowTable, tables: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[str, FlowTable, Ints, pd.DataFrame]]:
    """Yield each job's name, the flows, a sample of its rows, and its steps."""
    names = tables["jobs"]["job"].to_numpy(object)
    order = {address: code for code, address in enumerate(flows.addresses)}
    found, job_codes = np.unique(names.astype(str), return_inverse=True)
    home = np.full(len(flows.addresses) + 1, -1, dtype=np.int64)
    home[[order.get(str(one), -1) for one in tables["jobs"]["address"]]] = job_codes
    rows = np.arange(0, len(flows), _stride(flows))
    home[-1] = -1
    of_row = home[flows.src[rows]]
    by_job = dict(iter(tables["steps"].groupby("job", sort=False)))
    empty = tables["steps"].iloc[:0]
    for code, name in enumerate(found):
        yield str(name), flows, rows[of_row == code], by_job.get(name, empty)


def _stride(flows: FlowTable) -> int:
    """The interval between sampled records."""
    return max(1, len(flows) // _SAMPLE)


def _job_figures(name: str, flows: FlowTable, rows: Ints, steps: pd.DataFrame) -> dict[str, Any]:
    stride = _stride(flows)
    length = flows.lengths_ns(rows).astype(np.float64)
    size = flows.bytes[rows].astype(np.float64)
    counts = _steps_of_ranks(steps)
    numbers = step_counts(steps)
    durations = (steps["end_ns"] - steps["start_ns"]).to_numpy(np.float64)
    return {
        "job": name,
        "records": int(rows.size * stride),
        "record_ns": _weighted_median(length, size),
        "covered": min(1.0, stride * _covered(flows, rows)),
        "step_ns": float(np.median(durations)) if durations.size else 0.0,
        "ranks": int(counts.size),
        "ranks_disagreeing": int(np.count_nonzero(np.abs(counts - numbers["steps_commonest"]) > 1)),
        **numbers,
    }


def step_counts(steps: pd.DataFrame) -> dict[str, int]:
    """The fewest, the most and the commonest number of steps of the ranks of one job."""
    counts = _steps_of_ranks(steps)
    comparable = counts[counts >= 2]
    return {
        "steps_fewest": int(counts.min()) if counts.size else 0,
        "steps_most": int(counts.max(initial=0)),
        "steps_commonest": int(np.bincount(comparable).argmax()) if comparable.size else 0,
    }


def _steps_of_ranks(steps: pd.DataFrame) -> Ints:
    return np.asarray(steps.groupby("address")["step"].nunique(), np.int64)


def _covered(flows: FlowTable, rows: Ints) -> float:
    """Return the covered share of time of the pair that is the median by bytes."""
    table = pd.DataFrame(
        {
            "pair": (flows.src[rows].astype(np.int64) << 32) | flows.dst[rows],
            "start": flows.start_ns[rows],
            "end": flows.end_ns[rows],
            "bytes": flows.bytes[rows].astype(np.float64),
        }
    )
    until = table.groupby("pair")["end"].cummax()
    before = until.groupby(table["pair"]).shift()
    since = table["start"].astype(np.float64).clip(lower=before.astype(np.float64))
    table["busy"] = (table["end"] - since).clip(lower=0.0)
    pairs = table.groupby("pair").agg(
        busy=("busy", "sum"), start=("start", "min"), end=("end", "max"), size=("bytes", "sum")
    )
    share = pairs["busy"] / (pairs["end"] - pairs["start"]).clip(lower=1)
    return _weighted_median(share.to_numpy(), pairs["size"].to_numpy())


def _weighted_median(values: Floats, weights: Floats) -> float:
    """Return the value with half of the weight at or above it; 0 without any."""
    if not values.size:
        return 0.0
    if weights.sum() <= 0:
        return float(np.median(values))
    return quantile_by_weight(values, weights, 0.5)


def without_servers(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Layouts and findings as guesses, where nobody knows which NICs share a server."""
    lower = {
        name: tables[name].assign(confidence=tables[name]["confidence"] * _NO_SERVERS)
        for name in ("layouts", "findings")
    }
    return {**tables, **lower}


def _tempered(findings: pd.DataFrame, verdict: RecordsVerdict) -> pd.DataFrame:
    """Return the findings, those about doubted jobs as guesses that name the reasons."""
    if findings.empty:
        return findings
    doubts = [verdict.doubted(str(job)) for job in findings["job"]]
    limit = np.where([bool(one) for one in doubts], GUESS, 1.0)
    evidence = [
        json.dumps({**json.loads(text), "doubts": codes}, sort_keys=True) if codes else text
        for text, codes in zip(findings["evidence"], doubts, strict=True)
    ]
    confidence = np.minimum(findings["confidence"].to_numpy(np.float64), limit)
    return findings.assign(confidence=confidence, evidence=evidence)
