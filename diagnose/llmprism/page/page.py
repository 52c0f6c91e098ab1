"""Writes the page of a folder; another package may fill further blocks of its template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import PackageLoader

from llmprism.page import reading
from llmprism.page.answers import answers
from llmprism.page.tables import Tables
from llmprism.part_names import condensed, natural
from llmprism.sentences import name_of
from prism_common.errors import Problem, UserError
from prism_common.files import refuse_foreign, replacing_marked, resolved
from prism_common.kinds import AXES
from prism_common.quantities import clock_time, duration, known_size, percent
from prism_common.templates import filled

FILE = "report.html"
_FINDINGS = 40  # rows of the table; a method with many false alarms has thousands
_LONG_EVIDENCE = 2000  # characters


def write_page(folder: Path, to: Path | None = None) -> Path:
    """Write the page of the diagnosis in ``folder``; return its path, ``report.html`` there.

    Raises
    ------
    UserError : there is no diagnosis, a file is damaged, or ``to`` is a file of the user.
    """
    _refuse_without_diagnosis(folder)
    path = to or folder / FILE
    refuse_foreign(path, "llmprism", "--out")
    with reading.reading_once():
        page = rendered("page.html", content(Tables.of(folder), resolved(folder).name))
    with replacing_marked(path, "llmprism", "--out") as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def rendered(template: str, values: Mapping[str, Any], package: str | None = None) -> str:
    """Fill a template of ``package``, or of this one."""
    own = [PackageLoader(package)] if package else []
    loaders = [*own, PackageLoader("llmprism.page")]
    return filled(template, values, loaders, {"percent": percent, "duration": duration})


def content(tables: Tables, name: str) -> dict[str, Any]:
    """Everything that the template shows of the folder ``name``, as plain values."""
    return {
        "name": name,
        "method": tables.intake.get("method"),
        "observed": _observed(tables),
        "answers": answers(tables),
        "tiles": _tiles(tables),
        "jobs": found_jobs(tables),
        "findings": _findings(tables),
        "findings_total": len(tables.findings),
        "intake": tables.intake,
    }


def window(start_ns: Any, end_ns: Any) -> str:
    """A stretch of time by the collector's clock; "?" for an unknown border.

    >>> window(1_767_225_621_900_000_000, None), window(1_500_000_000, 2_000_000_000)
    ('00:00:21.900 UTC to ?', '1.50 s to 2.00 s')
    """
    first, last = (
        "?" if value is None or pd.isna(value) else clock_time(int(value))
        for value in (start_ns, end_ns)
    )
    return f"{first.removesuffix(' UTC') if last.endswith(' UTC') else first} to {last}"


def cut(text: str, length: int, file: str) -> str:
    """``text``, or its beginning and the place of the rest."""
    if len(text) <= length:
        return text
    return f"{text[:length]}\n... the first {length:,} of {len(text):,} characters; all: {file}"


def as_text(value: Any) -> str:
    """JSON for a reader; nothing for an empty value."""
    return json.dumps(value, indent=2, ensure_ascii=False) if value else ""


def _refuse_without_diagnosis(folder: Path) -> None:
    if reading.intake(folder):
        return
    what = "there is no diagnosis here" if folder.is_dir() else "no such folder"
    how = f"first run llmprism diagnose FLOWS --topology FILE --out {folder / 'diagnosis'}"
    raise UserError(Problem(what, str(folder), how))


def _observed(tables: Tables) -> dict[str, str] | None:
    """Start, end and duration of the flow records, in UTC."""
    flows = tables.flows
    if not len(flows):
        return None
    first, last = int(flows["start_ns"].min()), int(flows["end_ns"].max())
    return {
        "from": clock_time(first, dated=True),
        "to": clock_time(last, dated=True),
        "lasting": duration(last - first),
    }


def _tiles(tables: Tables) -> list[dict[str, str]]:
    """The headline figures of a diagnosis."""
    jobs = tables.jobs
    if not len(jobs):
        return []
    steps = tables.steps.groupby("job", observed=True)["step"].nunique()
    counts = [
        (jobs["job"].nunique(), "jobs found"),
        (jobs["address"].nunique(), "addresses in jobs"),
        (len(tables.pairs), "communicating pairs"),
        (int(steps.sum()), "steps"),
        (len(tables.findings), "findings"),
    ]
    return [{"figure": f"{count:,}", "label": label} for count, label in counts]


def _findings(tables: Tables) -> list[dict[str, Any]]:
    """The most confident findings; among equals, those of the largest effect first."""
    table = tables.findings.assign(size=tables.findings["magnitude"].abs())
    table = table.sort_values(["confidence", "size", "finding"], ascending=[False, False, True])
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        | {
            "window": window(row["start_ns"], row["end_ns"]),
            "start": _instant(row["start_ns"]),
            "evidence": _pretty(row["evidence"]),
        }
        for row in table.head(_FINDINGS).to_dict("records")
    ]


def _pretty(evidence: Any) -> str:
    try:
        text = as_text(json.loads(str(evidence)))
    except ValueError:
        text = "" if pd.isna(evidence) else str(evidence)
    return cut(text, _LONG_EVIDENCE, "diagnosis/findings.parquet")


def _instant(time_ns: float | None) -> str | None:
    """An instant in UTC; None if it is unknown."""
    return None if pd.isna(time_ns) else clock_time(int(time_ns), dated=True)


def found_jobs(tables: Tables) -> list[dict[str, Any]]:
    """One row for each found job, in the order of their names; unknown values are "?"."""
    own = {
        name: getattr(tables, name)
        for name in ("jobs", "layouts", "groups", "pairs", "steps", "findings")
    }
    names = sorted(tables.jobs["job"].unique(), key=natural)
    return [
        _job(
            str(name),
            {key: table[table["job"] == name] for key, table in own.items()},
            tables.servers_of(str(name)),
        )
        for name in names
    ]


def _job(name: str, own: dict[str, pd.DataFrame], servers: list[str]) -> dict[str, Any]:
    steps = own["steps"]
    lengths_ns = steps["end_ns"] - steps["start_ns"]
    layouts = own["layouts"].head(1).to_dict("records")
    layout = {str(key): value for row in layouts for key, value in row.items()}
    sure = layout.get("confidence")
    return {
        "job": name,
        "name": name_of(own["jobs"]),
        "addresses": own["jobs"]["address"].nunique(),
        "servers": condensed(servers),
        **_sizes(layout, own["groups"]),
        "micro_batches": known_size(layout.get("micro_batches"), sure),
        "schedule": _known(layout.get("schedule")),
        "sharding": _known(layout.get("sharding")),
        "sure": percent(sure, 0),
        "pairs": _counts(own["pairs"]["kind"]),
        "groups": _counts(own["groups"].drop_duplicates(["kind", "group"])["kind"]),
        "steps": steps["step"].nunique(),
        "step_median": duration(float(lengths_ns.median())) if len(steps) else "?",
        "step_p95": duration(float(lengths_ns.quantile(0.95))) if len(steps) else "?",
        "findings": len(own["findings"]),
    }


def _sizes(layout: dict[str, Any], groups: pd.DataFrame) -> dict[str, str]:
    """Size of each axis, from the layout, or the most common size of its groups."""
    sizes = groups.groupby(["kind", "group"], observed=True)["address"].nunique()
    of_groups = {str(kind): int(part.mode().max()) for kind, part in sizes.groupby(level="kind")}
    sure = layout.get("confidence")
    return {
        axis: known
        if (known := known_size(layout.get(axis), sure)) != "?"
        else str(of_groups.get(axis, "?"))
        for axis in AXES
    }


def _known(value: Any) -> str:
    """``value`` as text; "?" if the diagnosis has no value."""
    return "?" if value is None or pd.isna(value) or value == "unknown" else str(value)


def _counts(kinds: pd.Series) -> str:
    """``dp 12, pp 4``, the most frequent first."""
    counts = kinds.astype(object).fillna("unknown").value_counts()
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.items()) or "none"
