"""Writes ``results/reference/production.md`` and its pictures, from the folder of the traces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evaluation.paths import REFERENCE, TEMPLATES
from evaluation.production.measuring import Hour, measure, steps_of_parts
from llmprism.counters.picture import write_timeline
from llmprism.finding_fields import plain
from llmprism.part_names import condensed
from prism_common.quantities import duration, percent, shortened
from prism_sim.toolkit import render_page, table

PAGE = REFERENCE / "production.md"
TIMELINE = REFERENCE / "production-ports.png"


def write(folder: Path) -> Path:
    """Measure the hour below ``folder``, and write the page and the picture."""
    hour = measure(folder)
    write_timeline(hour.result, TIMELINE)
    PAGE.write_text(page_of(hour), encoding="utf-8")
    return PAGE


def page_of(hour: Hour) -> str:
    """The page of a measured hour."""
    result = hour.result
    together = sum(couples for _, _, couples, _ in hour.rails)
    apart = sum(couples for _, _, _, couples in hour.rails)
    naive_all, naive_apart = hour.naive
    servers = {name: len(names) for name, names in result.servers.items()}
    return render_page(
        TEMPLATES,
        "production",
        ports=f"{len(result.curves.ports):,}",
        values=f"{hour.values / 1e6:.1f}",
        span=duration(result.curves.span_ns),
        refresh=duration(result.curves.resolution_ns),
        servers=servers,
        jobs=_jobs(hour),
        members=_members(hour),
        rails=_rails(hour),
        agreement=percent(apart / together if together else None, 2),
        together=f"{together:,}",
        apart=f"{apart:,}",
        naive=percent(naive_apart / naive_all if naive_all else None, 0),
        naive_apart=f"{naive_apart:,}",
        naive_all=f"{naive_all:,}",
        findings=_findings(hour),
        unknown=result.diagnosis.verdict.lines()[1:],
        cpu=shortened(hour.cpu_s),
        memory=f"{hour.peak_bytes / 2**20:,.0f}",
    )


def number_of(server: str) -> str:
    """The number at the end of a server's name; the name itself without one.

    >>> number_of("NH-DC-NM129-A01-28U-GPU-1"), number_of("s7-1")
    ('1', '1')
    """
    matched = re.search(r"(\d+)$", server)
    return matched[1] if matched else server


def _jobs(hour: Hour) -> str:
    rows = []
    for number, steps in enumerate(steps_of_parts(hour.result)):
        own, rhythm = _own(hour, number), hour.result.rhythms[number]
        sent = own.groupby("role")["in_bytes"].median() / 1e9
        period = duration(rhythm.period_ns) if rhythm.period_ns else "unknown"
        spread = "-"
        if steps["steps"]:
            spread = f"{steps['low_s']:.1f} to {steps['high_s']:.1f} s"
        per = ", ".join(shortened(size) for size in sent)
        rows.append(
            [
                f"job-{number}",
                str(own["server"].nunique()),
                str(len(own)),
                period,
                percent(rhythm.confidence, 0) if rhythm.period_ns else "-",
                str(steps["steps"] or "-"),
                spread,
                per if rhythm.period_ns else f"{per} in all",
                f"{own['kinship'].min():.2f}",
            ]
        )
    head = ["job", "servers", "NICs", "step", "sure", "single steps", "5 to 95 % of them",
            "GB a NIC sends in a step, by role", "least kinship"]  # fmt: skip
    return table(head, rows)


def _members(hour: Hour) -> list[str]:
    names = [
        (f"job-{n}", _numbers(_own(hour, n)["server"].unique()))
        for n in range(hour.result.jobs.count)
    ]
    alone = hour.result.servers.get("without a job", [])
    return [f"{name}: {numbers}" for name, numbers in [*names, ("no job", _numbers(alone))]]


def _own(hour: Hour, number: int) -> Any:
    jobs = hour.result.diagnosis.jobs
    return jobs[jobs["job"] == f"job-{number}"]


def _numbers(servers: Iterable[str]) -> str:
    return condensed(sorted((number_of(name) for name in servers), key=int)) or "none"


def _rails(hour: Hour) -> str:
    rows = [[f"{a} and {b}", f"{both:,}", f"{apart:,}"] for a, b, both, apart in hour.rails]
    return table(["rails", "couples together on either", "on one of them only"], rows)


def _findings(hour: Hour) -> str:
    ends = {end.address: end for end in hour.topology.endpoints}
    rows = []
    for row in hour.result.diagnosis.findings.to_dict("records"):
        end = ends.get(row["culprit"])
        where = row["job"] if end is None else f"server {number_of(end.server)}, NIC {end.nic}"
        steps = f"{row['first_step']} to {row['last_step']}" if row["first_step"] >= 0 else "-"
        took = duration(row["cost"]) if row["cost"] else "-"
        figures = _figures(row["evidence"])
        sure = percent(row["confidence"], 0)
        rows.append([plain(row["symptom"]), row["job"], where, steps, took, sure, figures])
    return table(["finding", "job", "where", "steps", "lost", "sure", "figures"], rows)


def _figures(evidence: str) -> str:
    """The figures of a finding, durations in their unit."""
    shown = []
    for key, value in json.loads(evidence).items():
        if key in ("server", "nic"):
            continue
        words = duration(value) if key.endswith("_ns") else shortened(value)
        shown.append(f"{key.removesuffix('_ns').replace('_', ' ')} {words}")
    return "; ".join(shown)
