"""Runs the bundled studies of operations, and writes results/reference/operations.md.

Published figures stand beside simulated ones. No parameter was chosen to bring them together.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from evaluation.paths import REFERENCE, TEMPLATES
from prism_common.files import write_json
from prism_sim.loading.bundled import folder
from prism_sim.operations import opening, running, theory
from prism_sim.operations.campaigns import CAMPAIGNS
from prism_sim.operations.job import Job
from prism_sim.operations.reading import read_operations
from prism_sim.operations.results import LABELS
from prism_sim.operations.study import Study
from prism_sim.operations.writing import Written, write_policies
from prism_sim.render.markdown import table
from prism_sim.render.pages import render_page
from prism_sim.studies.pool import default_processes

PICTURE = "operations-worth.png"
_NAMES = ("what-diagnosis-brings", "byterobust", "acme", "meta")


def write() -> None:
    """Read the figures of the methods, run all studies, and write the page and its picture."""
    write_measured()
    with TemporaryDirectory() as temporary:
        began_s = _cpu_s()
        studies = {name: _policies(name, Path(temporary) / name) for name in _NAMES}
        cpu_s = _cpu_s() - began_s
        shutil.copy(studies["what-diagnosis-brings"].files["worth"], REFERENCE / PICTURE)
    number = sum(map(_replications, _NAMES))
    flows = studies["what-diagnosis-brings"].data["windows"]
    page = render_page(
        TEMPLATES,
        "operations",
        picture=PICTURE,
        studies=[(name, _read(name), written.data) for name, written in studies.items()],
        worth=studies["what-diagnosis-brings"].data["worth"],
        labels=LABELS,
        windows=flows,
        seconds=_seconds,
        published=_published(studies),
        acme=_acme(studies["acme"]),
        theory=theory,
        simulated=simulated,
        replications=f"{number:,}",
        cpu_s=f"{cpu_s:.0f}",
        thousand_s=f"{1000 * cpu_s / number:.0f}",
    )
    (REFERENCE / "operations.md").write_text(page, encoding="utf-8")


def _path(name: str) -> Path:
    return folder() / "operations" / f"{name}.yaml"


def _read(name: str) -> Study:
    return read_operations(_path(name))


def _replications(name: str) -> int:
    return len(running.tasks_of(_read(name)))


def _policies(name: str, out: Path) -> Written:
    study = _read(name)
    moments = opening.moments_of(study)
    windows = list(opening.open_windows(study, moments, out / "windows"))
    done = running.run(study, out / "points", default_processes())
    return write_policies(study, [one.result for _, one in done if one.result], windows, out)


def _cpu_s() -> float:
    """CPU time of this process and of its workers that have ended."""
    return sum(os.times()[:4])


def _published(studies: dict[str, Written]) -> str:
    """Published figures and ours: what, published, simulated."""
    robust = studies["byterobust"].data
    best = robust["policies"]["and stack aggregation"]
    first = robust["policies"]["requeue, checkpoints each step"]
    hot = TABLE_7
    large = studies["what-diagnosis-brings"].data["policies"]
    saving = robust["lost_gpu_hours"]["requeue, checkpoints each step"]["checkpoint"]
    acme = studies["acme"].data["lost_gpu_hours"]
    sync, background = (list(acme.values())[at]["checkpoint"] for at in (0, 1))
    meta = next(iter(studies["meta"].data["policies"].values()))
    exhausted = large["requeue, time-out"]["recover_s"] / large["standby, time-out"]["recover_s"]
    values: dict[str, str] = {
        "ettr": f"{100 * best['ettr']:.1f} %",
        "standby": f"{first['recover_s'] / best['recover_s']:.1f} times; at Meta's failure rate, "
        f"{exhausted:.1f} times",
        "hot": f"{sum(a / b for a, b in hot) / len(hot):.2f} times",
        "every_step": f"{100 * saving / (1200 * 8 * 90 * 24):.2f} %",
        "async": f"{sync / background:.1f} times",
        "meta": f"{100 * meta['ettr']:.1f} %",
    }
    rows = [[one["what"], one["value"], values[name], one["why"]] for name, one in BY_NAME.items()]
    return table(["figure", "published", "simulated", "remarks"], rows)


def _acme(written: Written) -> str:
    """Shares of the kinds of infrastructure in failures, published GPU time, and ours."""
    names = written.data["lost_gpu_hours"]
    lost = next(iter(names.values()))
    causes = [cause for cause in CAMPAIGNS["acme"].causes if cause.name in lost]
    cases, hours = sum(cause.count for cause in causes), sum(lost[one.name] for one in causes)
    rows = []
    for cause in causes:
        published = ACME_GPU_TIME.get(cause.name)
        time = "-" if published is None else f"{100 * published / ACME_INFRASTRUCTURE:.0f}"
        shares = f"{100 * cause.count / cases:.0f}", time, f"{100 * lost[cause.name] / hours:.0f}"
        rows.append([cause.name, f"{cause.count:g}", *shares])
    head = ["kind", "cases", "of the cases [%]", "of GPU time, published [%]",
            "of lost GPU time, simulated [%]"]  # fmt: skip
    return table(head, rows, numbers_right=True)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")


# Published figures of operations, and remarks on how ours compare: ``published.toml``.


_DATA = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))

ACME_GPU_TIME: dict[str, float] = _DATA["acme"]["gpu_time"]
"""Acme's Table 3: percent of the GPU time of all failed jobs, of kinds that public notes quote."""

ACME_INFRASTRUCTURE: float = _DATA["acme"]["infrastructure"]
"""Percent of the GPU time of all failed jobs, of all kinds of infrastructure."""

BY_NAME: dict[str, dict[str, str]] = _DATA["figures"]
"""Of each published figure ``what`` it is, its ``value``, and ``why`` ours may differ."""


# Closed forms beside simulations, for the page.

TABLE_7 = ((454, 46), (545, 51), (635, 54), (768, 65))
"""ByteRobust's Table 7: restart by requeueing and by hot update [s], 128 to 1,024 servers."""

_SEEDS = 4


def simulated(mttf_min: float, work_min: float, stall_min: float, restart_min: float) -> float:
    """The mean ETTR of a job with exponential failures that are known at once."""
    policy: dict[str, Any] = {
        "name": "only",
        "checkpoint": {
            "kind": "sync",
            "stall_s": 60 * stall_min,
            "interval": {"kind": "fixed", "every_s": 60 * work_min},
        },
        "detection": {"kind": "timeout", "error_s": 0},
        "localisation": "by_hand",
        "recovery": {"kind": "requeue", "requeue_s": 60 * restart_min},
    }
    rate = theory.SECONDS_A_DAY / (100 * mttf_min * 60)
    failures = {"per_server_day": rate, "causes": ["CPU out of memory"]}
    study = Study.model_validate(
        {"servers": 100, "days": 1000, "failures": failures, "policies": [policy]}
    )
    ends_s = study.days * theory.SECONDS_A_DAY
    runs = (Job(study, study.policies[0], seed).run()[1] for seed in range(_SEEDS))
    return fmean(progress.work_s for progress in runs) / ends_s


# Measured figures of methods for studies of operations, from the pages that measure them.

METHODS = ("paper", "prism")
DIGITS, SHOWN = 4, 3


def write_measured(reference: Path = REFERENCE, path: Path | None = None) -> None:
    """Write ``measured.json`` of the bundled studies from ``exam.json`` and ``logs.json``."""
    figures = {name: of_flows(reference / "exam.json", name) for name in METHODS}
    figures["llmlog"] = of_logs(reference / "logs.json")
    write_json(path or folder() / "operations" / "measured.json", figures)


def of_flows(exam: Path, method: str) -> dict[str, float]:
    """Recall and precision of the held-out worlds; culprits are named only for what is found."""
    findings = json.loads(exam.read_text(encoding="utf-8"))["sets"]["exam"][method]["findings"]
    recall, precision, first = (
        float(findings[name]["value"]) for name in ("recall", "precision", "culprit first")
    )
    right = round(first / recall, DIGITS) if recall else 0.0
    return {"recall": recall, "precision": precision, "names": recall, "right": right}


def of_logs(logs: Path) -> dict[str, float]:
    """The part of the failures of held-out kinds whose first node is named, as on the page."""
    figures = json.loads(logs.read_text(encoding="utf-8"))["figures"]["exam"]["prism"]
    return {"right": round(float(figures["top_1"]["value"]), SHOWN)}
