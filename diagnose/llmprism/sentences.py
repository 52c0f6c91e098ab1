"""Findings as sentences for an operator: what is slow, since when, what it costs, how sure.

"GPU 3 of server s0012 computes 8.0 % slower since 10:00:21.900 UTC (step 17). It costs job-0
6.5 % of its step time: 3.20 s in 4 steps, 0.11 GPU-hours. Confidence 91 %. Evidence: ..."

A sentence needs only a row of the table ``findings``, the content of ``topology.json`` and a few
facts about the job. It therefore works for findings of any method. A cause or symptom that has
no phrase here is written out as it is.

Flows cannot tell apart the GPUs of a tensor-parallel group, which compute in lock-step. Their
traffic stays on NVLink, so a slow GPU makes all NICs of its group late alike. Frameworks give
neighbouring GPUs to a group, in the order of the ranks: the GPUs that a job has in a server (or in
an NVLink domain) are divided into groups of tp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llmprism.evidence import WORDS, next_step, numbers, suspects
from llmprism.finding_fields import cost_share, evidence_of, names_in, number, plain, step_of, text
from llmprism.part_names import Parts, natural
from prism_common.kinds import UNKNOWN
from prism_common.quantities import EVEN, clock_time, duration, percent, shortened

if TYPE_CHECKING:
    import pandas as pd


PHRASES: dict[str, str] = WORDS["does"]
"""What the culprit of a cause does; ``{by}`` is the share of its speed or rate that is lost."""

OF_A_JOB: dict[str, str] = WORDS["does_of_a_job"]
"""The same where no part of the cluster is named, but the job."""

_ABBREVIATED: dict[str, str] = WORDS["abbreviated"]


@dataclass(frozen=True)
class JobFacts:
    """What a sentence needs to know of a job.

    Attributes
    ----------
    gpus : GPUs of the job, 0 if unknown.
    last_step : number of its last step, -1 if unknown.
    start_ns, end_ns : first and last time of the job; if they lie on two days, times have a date.
    name : its name, if a scheduler gave one.
    groups : addresses in the tensor-parallel group of each address, where flows cannot tell which.
    """

    gpus: int = 0
    last_step: int = -1
    start_ns: int = 0
    end_ns: int = 0
    name: str = ""
    groups: Groups = field(default_factory=dict)


def facts_of(
    jobs: pd.DataFrame, steps: pd.DataFrame, parts: Parts, layouts: pd.DataFrame
) -> dict[str, JobFacts]:
    """Size, times and tensor-parallel groups of each job of a diagnosis, from its tables."""
    times = steps.groupby("job", observed=True).agg(
        last=("step", "max"), start=("start_ns", "min"), end=("end_ns", "max")
    )
    facts = {}
    for job in jobs["job"].unique():
        addresses = jobs.loc[jobs["job"] == job, "address"].astype(str).unique().tolist()
        groups = tensor_groups(addresses, layouts[layouts["job"] == job], parts)
        last, start, end = times.loc[job] if job in times.index else (-1, 0, 0)
        name = name_of(jobs[jobs["job"] == job])
        gpus = parts.gpu_count(addresses)
        facts[str(job)] = JobFacts(gpus, int(last), int(start), int(end), name, groups)
    return facts


def name_of(rows: pd.DataFrame) -> str:
    """The name of the job of ``rows`` of the table ``jobs``; empty if it has none."""
    named = rows["name"].dropna() if "name" in rows else rows.iloc[:0, 0]
    return str(named.iloc[0]) if len(named) else ""


@dataclass(frozen=True)
class FindingText:
    """A finding in words; each part is a sentence or empty.

    Attributes
    ----------
    what : the culprit, what it does, and since when.
    causes : all causes that fit the records, if there are several.
    cost : the share of step time, the time and the GPU-hours that are lost.
    confidence : how sure the method is.
    evidence : the numbers behind it, without the ranked suspects.
    suspects : the parts that can be meant, the likeliest first; only one if it is certain.
    next : what to do next.
    """

    what: str
    causes: str
    cost: str
    confidence: str
    evidence: str
    suspects: tuple[str, ...]
    next: str = ""

    @property
    def short(self) -> str:
        """All sentences but the evidence in a row."""
        parts = (self.what, self.causes, self.cost, self.confidence)
        return " ".join(part for part in parts if part)

    def __str__(self) -> str:
        """All sentences in a row."""
        return f"{self.short} Evidence: {self.evidence}." if self.evidence else self.short


def finding_text(finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> FindingText:
    """Put one row of the table ``findings`` into words."""
    evidence = evidence_of(finding)
    return FindingText(
        what=f"{_what(finding, parts, job)} {_when(finding, job)}.",
        causes=_causes(finding, evidence),
        cost=_cost(finding, job, evidence),
        confidence=_confidence(finding),
        evidence="; ".join(numbers(evidence)),
        suspects=tuple(suspects(finding, evidence, parts)),
        next=next_step(text(finding.get("cause")), text(finding.get("culprit_kind"))),
    )


def _what(finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> str:
    cause = text(finding.get("cause"))
    kind, culprit = text(finding.get("culprit_kind")), text(finding.get("culprit"))
    name = parts.name(kind, culprit, cause) or "an unknown part"
    if culprit in job.groups and parts.computes(cause):
        name = parts.one_of(job.groups[culprit])
    return f"{name[:1].upper()}{name[1:]} {_predicate(finding, cause)}"


def _predicate(finding: Mapping[str, Any], cause: str) -> str:
    magnitude = number(finding.get("magnitude"))
    phrase = PHRASES.get(cause)
    if text(finding.get("symptom")) == "pauses":
        return "pauses in some of its steps"
    if text(finding.get("symptom")) == "slow_steps":
        return f"is {percent(magnitude)} slower, for a reason that the records do not show,"
    if text(finding.get("culprit_kind")) == "job":
        phrase = OF_A_JOB.get(cause, phrase)
    if phrase is None:
        symptom = plain(cause if cause not in ("", "unknown") else text(finding.get("symptom")))
        normal = f", {shortened(magnitude)} times the normal value" if magnitude is not None else ""
        return f"stands out ({symptom or 'no symptom'}{normal})"
    if "{by}" in phrase and (magnitude is None or not 0 < magnitude < 1):
        for part in (", by up to {by}", ", by {by}", "{by} of", "{by} "):
            phrase = phrase.replace(part, "a part of" if part.endswith("of") else "")
        return phrase
    return phrase.format(by=percent(magnitude))


def _when(finding: Mapping[str, Any], job: JobFacts) -> str:
    first, last = step_of(finding, "first_step"), step_of(finding, "last_step")
    start, end = (number(finding.get(key)) for key in ("start_ns", "end_ns"))
    dated = start is not None and _day(int(start)) != _day(job.end_ns)
    if start is None:
        return f"in steps {first} to {last}" if first is not None else "at an unknown time"
    begin = clock_time(int(start), dated) + (f" (step {first})" if first is not None else "")
    lasts = last is not None and 0 <= job.last_step <= last and first != last
    if lasts and first == 0:
        return "in all steps"
    if lasts or end is None:
        return f"since {begin}"
    stop = clock_time(int(end), dated) + (f" (step {last})" if last is not None else "")
    if first is not None and first == last:
        return f"in step {first}, at {clock_time(int(start), dated)}"
    return f"from {begin} to {stop}"


def _causes(finding: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    """The causes that flows cannot tell apart, the likeliest first."""
    others = list(names_in(evidence.get("or_causes")))
    named = dict.fromkeys([text(finding.get("cause")), *others])
    known = [_cause_name(cause) for cause in named if cause and cause != UNKNOWN]
    rest = ["or another cause"] if UNKNOWN in named else []
    return f"Possible causes: {', '.join([*known, *rest])}." if others and known else ""


def _cause_name(cause: str) -> str:
    return " ".join(_ABBREVIATED.get(word, word) for word in cause.split("_"))


def _cost(finding: Mapping[str, Any], job: JobFacts, evidence: Mapping[str, Any]) -> str:
    cost = number(finding.get("cost"))
    if cost is None:
        return "Its cost is unknown."
    name = job.name or text(finding.get("job")) or "the job"
    if text(finding.get("symptom")) == "stopped" and "traffic_ended_ns" in evidence:
        return _stop(cost, name, job, evidence)
    if cost <= 0:
        return f"It costs {name} no measurable time."
    first, last = step_of(finding, "first_step"), step_of(finding, "last_step")
    share = cost_share(finding)
    lost = duration(cost)
    if first is not None and last is not None:
        steps = evidence.get("steps")  # where they do not follow each other
        count = len(steps) if isinstance(steps, list) and steps else last - first + 1
        lost += f" in {count:,} step{'s' if count > 1 else ''}"
    if job.gpus:
        lost += f", {shortened(gpu_hours(cost, job.gpus))} GPU-hours"
    part = f"{percent(share)} of its step time: " if share is not None else ""
    others = [f" It slows {other}, too." for other in names_in([*evidence.get("further_jobs", ())])]
    return f"It costs {name} {part}{lost}.{''.join(others)}"


def _stop(cost_ns: float, name: str, job: JobFacts, evidence: Mapping[str, Any]) -> str:
    """What a stop costs: the time until the job went on, if the records show that it did."""
    if evidence.get("went_on_ns") is None:
        return f"The records show no further step of {name}."
    hours = f", {shortened(gpu_hours(cost_ns, job.gpus))} GPU-hours" if job.gpus else ""
    return f"It costs {name} the time until it went on: {duration(cost_ns)}{hours}."


def gpu_hours(cost_ns: float, gpus: int) -> float:
    """GPU-hours that a job with ``gpus`` GPUs loses in ``cost_ns``.

    >>> gpu_hours(3.6e12, 8)
    8.0
    """
    return cost_ns / 3.6e12 * gpus


def _confidence(finding: Mapping[str, Any]) -> str:
    """How sure it is, and what each kind of telemetry says of it, if there are several."""
    confidence = number(finding.get("confidence"))
    if confidence is None:
        return ""
    kinds = evidence_of(finding).get("seen_by")
    says = ", ".join(f"{k} {text(v)}" for k, v in kinds.items()) if isinstance(kinds, dict) else ""
    sure = f"Confidence {percent(confidence, 0)}"
    return f"{sure}: {says}." if says else f"{sure}."


def _day(time_ns: int) -> int:
    return time_ns // 86_400_000_000_000


Groups = Mapping[str, tuple[str, ...]]
"""Addresses of the tensor-parallel group at each address; only groups of several."""


def tensor_groups(addresses: list[str], layouts: pd.DataFrame, parts: Parts) -> Groups:
    """The groups of the job with these ``addresses``; empty where its layout is not likely.

    ``layouts`` has the rows of the job.
    """
    if not len(layouts) or not float(layouts["confidence"].iloc[0]) >= EVEN:
        return {}
    tp = int(layouts["tp"].iloc[0])
    homes: dict[str, list[str]] = {}
    for address in sorted(addresses, key=lambda one: _place(parts.endpoints.get(one, {}))):
        homes.setdefault(_home(parts.endpoints.get(address, {}), address), []).append(address)
    found: dict[str, tuple[str, ...]] = {}
    for own in homes.values() if tp > 1 else ():
        of_gpu = [one for one in own for _ in parts.endpoints.get(one, {}).get("gpus") or (0,)]
        for first in range(0, len(of_gpu), tp) if len(of_gpu) % tp == 0 else ():
            group = tuple(dict.fromkeys(of_gpu[first : first + tp]))
            found |= {one: (*found.get(one, ()), *group) for one in group}
    return {one: tuple(dict.fromkeys(group)) for one, group in found.items() if len(group) > 1}


def _home(end: Mapping[str, Any], address: str) -> str:
    return str(end.get("domain") or end.get("server") or address)


def _place(end: Mapping[str, Any]) -> tuple[tuple[int, str], int, int]:
    """A key in the order of servers and NICs."""
    return natural(str(end.get("server"))), int(end.get("nic") or 0), int(end.get("port") or 0)
