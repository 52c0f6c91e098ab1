"""One card for each finding: its sentences, and the servers and steps to show for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd

from llmprism.conclusion import conclude
from llmprism.finding_fields import evidence_of
from llmprism.page.tables import Tables
from llmprism.persistent_deviations import scopes_from
from llmprism.sentences import FindingText, JobFacts, finding_text, gpu_hours
from llmprism.slow_steps import least_shown, slow_steps
from prism_common.kinds import PP
from prism_common.quantities import clock_time

CARDS = 8
FEW_STEPS = 6  # as many show what is usual: the least that the method compares


@dataclass(frozen=True)
class Card:
    """A finding on the page.

    Attributes
    ----------
    number : of the row in the table of findings.
    text : the sentences.
    job : job of the finding.
    first_step, last_step : steps of the job, -1 if unknown.
    start_ns, end_ns : the time of the finding.
    confidence : in [0, 1], None if unknown.
    addresses : NICs that the culprit consists of, or that are connected to it.
    direct : whether these addresses are the culprit itself.
    utc : start of the finding in full.
    stopped : whether the job stopped, from the start of the finding to its end.
    marks : what each kind of telemetry shows of it: kind, start and end [ns].
    """

    number: int
    text: FindingText
    job: str
    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    confidence: float | None
    addresses: tuple[str, ...]
    direct: bool
    utc: str
    stopped: bool = False
    marks: tuple[tuple[str, int, int], ...] = ()

    def as_data(self, tables: Tables) -> dict[str, Any]:
        """Values for the script of the page; times in milliseconds since the origin."""
        servers = {tables.parts.server(address) for address in self.addresses}
        return {
            "number": self.number,
            "job": self.job,
            "first": self.first_step,
            "last": self.last_step,
            "start_ms": round((self.start_ns - tables.origin_ns) / 1e6, 3),
            "end_ms": round((self.end_ns - tables.origin_ns) / 1e6, 3),
            "servers": sorted(servers),
            "direct": self.direct,
            "title": self.text.what,
            "marks": [
                [kind, *((one - tables.origin_ns) / 1e6 for one in times)]
                for kind, *times in self.marks
            ],
        }


def cards_of(tables: Tables) -> list[Card]:
    """The findings that cost most GPU-hours, weighted with their confidence."""
    rows: list[dict[str, Any]] = [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in tables.findings.to_dict("records")
    ]
    rows.sort(key=lambda row: -_weight(row, tables))
    return [_card(row, tables) for row in rows[:CARDS]]


def _weight(row: dict[str, Any], tables: Tables) -> float:
    facts = tables.job_facts.get(str(row["job"]), JobFacts(gpus=1))
    return gpu_hours(row["cost"] or 0.0, facts.gpus) * (row["confidence"] or 0.0)


def _card(row: dict[str, Any], tables: Tables) -> Card:
    facts = tables.job_facts.get(str(row["job"]), JobFacts())
    addresses, direct = _addresses(row, tables)
    start = tables.origin_ns if row["start_ns"] is None else int(row["start_ns"])
    end = start if row["end_ns"] is None else int(row["end_ns"])
    return Card(
        number=int(row["finding"]),
        text=finding_text(row, tables.parts, facts),
        job=str(row["job"]),
        first_step=-1 if row["first_step"] is None else int(row["first_step"]),
        last_step=-1 if row["last_step"] is None else int(row["last_step"]),
        start_ns=start,
        end_ns=end,
        confidence=row["confidence"],
        addresses=addresses,
        direct=direct,
        utc=clock_time(start, dated=True),
        stopped=row["symptom"] == "stopped",
        marks=tuple(evidence_of(row).get("marks", ())),
    )


def _addresses(row: dict[str, Any], tables: Tables) -> tuple[tuple[str, ...], bool]:
    """Addresses of the job that are the culprit, or are connected to it."""
    culprit = str(row["culprit"])
    own = set(tables.addresses_of(str(row["job"])))
    endpoints = tables.topology.get("endpoints", [])
    exact = {culprit, *culprit.split("|")}
    named = [str(end["address"]) for end in endpoints if exact & {end["address"], end["server"]}]
    if named:
        return tuple(named), True
    groups = tables.groups[tables.groups["job"] == row["job"]]
    stage = re.search(r"stage (\d+)$", culprit)
    if stage:
        there = (groups["kind"] == PP) & (groups["position"] == int(stage[1]))
        return tuple(groups.loc[there, "address"].astype(str)), True
    label = groups["kind"].astype(str) + " " + groups["group"].astype(str)
    members = groups.loc[label.isin([culprit, culprit.replace("-", " ")]), "address"]
    if len(members):
        return tuple(members.astype(str)), True
    near = [str(end["address"]) for end in endpoints if end.get("switch") in exact]
    return tuple(address for address in near if address in own), False


def checked(tables: Tables) -> dict[str, Any]:
    """What was compared, and whether the records suffice."""
    verdict = tables.intake.get("verdict") or {}
    steps = tables.steps.groupby("job", observed=True)["step"].nunique()
    reasons = verdict.get("reasons") or []
    doubted = {one.get("job") for one in reasons}
    stretches = slow_steps(tables.steps, tables.findings)
    conclusion = conclude(
        scopes_from(verdict.get("scopes")),
        [one for one in stretches if not doubted & {one.job, None}],
        len(tables.findings),
        len(reasons),
        least_shown(tables.steps),
        tables.intake.get("left_out") or (),
    )
    return {
        "conclusion": conclusion,
        "jobs": int(tables.jobs["job"].nunique()),
        "addresses": int(tables.jobs["address"].nunique()),
        "servers": len({tables.parts.server(str(one)) for one in tables.jobs["address"].unique()}),
        "steps": int(steps.sum()),
        "few": [
            f"{job} has {count} steps" for job, count in steps.items() if 0 < count < FEW_STEPS
        ],
        "records": len(tables.flows),
        "can_tell": bool(verdict.get("can_tell", True)),
        "reasons": [
            f"{one['job']}: {one['text']}" if one.get("job") else str(one.get("text"))
            for one in reasons
        ],
    }
