"""A diagnosis of counters as lines of text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llmprism.finding_fields import plain
from llmprism.part_names import Parts, condensed, natural
from prism_common.quantities import counted, duration, percent, shortened

if TYPE_CHECKING:
    from llmprism.counters.diagnosing import CounterDiagnosis

_SHOWN = 20
_GIGA = 1e9


def summary_of(result: CounterDiagnosis) -> dict[str, Any]:
    """What JSON shows: the summary of the diagnosis, with the jobs of the counters."""
    return {
        **result.diagnosis.summary(),
        "resolution_ns": result.curves.resolution_ns,
        "remarks": [*result.remarks],
        "servers": {name: list(names) for name, names in result.servers.items()},
        "jobs": [_job(result, number) for number in range(result.jobs.count)],
    }


def _job(result: CounterDiagnosis, number: int) -> dict[str, Any]:
    name = f"job-{number}"
    own = result.diagnosis.jobs[result.diagnosis.jobs["job"] == name]
    steps = result.diagnosis.steps[result.diagnosis.steps["job"] == name]
    rhythm = result.rhythms[number]
    per_role = own.groupby("role")[["in_bytes", "out_bytes"]].median()
    return {
        "job": name,
        "servers": sorted(own["server"].unique(), key=natural),
        "nics": len(own),
        "kinship": float(own["kinship"].mean()),
        "step_ns": rhythm.period_ns or None,
        "confidence": rhythm.confidence,
        "steps": int(steps["step"].max() + 1) if len(steps) else 0,
        "roles": [
            {"nics": int((own["role"] == role).sum()), "in_bytes": float(row["in_bytes"]),
             "out_bytes": float(row["out_bytes"])}
            for role, row in per_role.iterrows()
        ],
    }  # fmt: skip


def lines_of(result: CounterDiagnosis) -> Iterator[str]:
    """Jobs, servers without a job, and findings."""
    refresh = duration(result.curves.resolution_ns) if result.curves.resolution_ns else "-"
    yield (
        f"{len(result.curves.ports):,} ports, new counters every {refresh},"
        f" {duration(result.curves.span_ns)} of recording"
    )
    for number in range(result.jobs.count):
        yield from _lines_of_job(_job(result, number))
    for name in ("without a job", "idle"):
        if names := result.servers.get(name):
            yield f"{name}: {counted(len(names), 'server')}: {condensed(names)}"
    yield from _findings(result)
    yield from (result.diagnosis.conclusion.lines() if result.diagnosis.verdict.can_tell else ())


def _lines_of_job(job: dict[str, Any]) -> Iterator[str]:
    if job["step_ns"] is None:
        step = "step unknown"
    else:
        sure = percent(job["confidence"], 0)
        step = f"step {duration(job['step_ns'])} (sure: {sure})"
        step += f", {job['steps']:,} single steps" if job["steps"] else ""
    yield (
        f"{job['job']}: {len(job['servers'])} servers, {job['nics']} NICs, {step}:"
        f" {condensed(job['servers'])}"
    )
    unit = "in a step" if job["step_ns"] else "in all"
    for role in job["roles"]:
        sent, received = role["in_bytes"] / _GIGA, role["out_bytes"] / _GIGA
        yield (
            f"    {role['nics']} NICs send {shortened(sent)} GB and receive"
            f" {shortened(received)} GB {unit}"
        )


def _findings(result: CounterDiagnosis) -> Iterator[str]:
    parts = Parts.of({"endpoints": result.diagnosis.jobs.to_dict("records")})
    for row in result.diagnosis.findings.head(_SHOWN).to_dict("records"):
        place, steps = str(row["job"]), "all along"
        if row["level"] == "port":
            place = f"{row['culprit']} ({parts.server(str(row['culprit']))})"
        if row["first_step"] >= 0:
            steps = f"steps {row['first_step']} to {row['last_step']}"
        yield (
            f"finding {row['finding']}: {plain(str(row['symptom']))}, {place}, {steps},"
            f" sure: {percent(float(row['confidence']), 0)}, {row['evidence']}"
        )
    more = len(result.diagnosis.findings) - _SHOWN
    if more > 0:
        yield f"{more} more findings: see --json or --out"
