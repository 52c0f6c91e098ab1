"""Writes the page of the monitor, part by part: ``python -m evaluation monitor`` and others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from evaluation.monitoring import alerts, delay, rate
from evaluation.monitoring.soak import soak
from evaluation.paths import REFERENCE, TEMPLATES
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.tracking.tracker import CALM
from prism_sim.render.pages import render_page, with_part

PAGE = REFERENCE / "monitor.md"
_STRETCHES = 12


def write() -> Path:
    """Measure how many records a second one core keeps up with, and write that part of the page."""
    with TemporaryDirectory() as folder:
        found = rate.measure(Path(folder) / "rate")
    return _put("rate", found=found, calm=CALM, **_seconds(rate.SETTINGS))


def write_soak(jobs: int, hours: float, speed: float) -> Path:
    """Watch simulated hours in compressed time, and write that part of the page."""
    with TemporaryDirectory() as folder:
        found = soak(jobs, hours, speed, Path(folder) / "soak")
    asked = {"jobs": jobs, "hours": f"{hours:g}", "speed": f"{speed:g}"}
    together = -(-len(found.looks) // _STRETCHES) or 1
    load = np.mean([one.load for one in found.looks])
    return _put("soak", found=found, together=together, load=load, **asked)


def write_delay(jobs: Sequence[int]) -> Path:
    """Measure the delay of an alert among so many jobs each, and write that part of the page."""
    with TemporaryDirectory() as folder:
        found = [delay.measure(count, Path(folder) / f"{count}") for count in jobs]
    return _put("delay", jobs=jobs, found=found, late_s=delay.LATE_S)


def write_alerts(seconds: int, share: float) -> Path:
    """Watch a share of the streams, and write that part of the page."""
    found = alerts.results(seconds, share)
    judged = [one for _, one in found]
    return _put(
        "alerts",
        seconds=seconds,
        found=found,
        versions=dict.fromkeys(version for one in judged for version in one.versions),
        totals=alerts.totals(judged),
        notes=[(stream.name, text) for stream, one in found for text in one.notes],
        **_seconds(alerts.SETTINGS),
    )


def _seconds(settings: Settings) -> dict[str, int]:
    """Times of a monitor in seconds."""
    return {
        f"{name}_s": getattr(settings, f"{name}_ns") // SECOND_NS
        for name in ("window", "stride", "quiet")
    }


def _put(part: str, **values: Any) -> Path:
    """Write a part of the page from its template, in place of the one before."""
    text = render_page(TEMPLATES / "monitor", part, cores=os.cpu_count(), **values)
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(with_part(page, text), encoding="utf-8")
    return PAGE
