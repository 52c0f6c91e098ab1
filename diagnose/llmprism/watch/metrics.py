"""Metrics for Prometheus: what the last window shows, and what became of the records.

Names follow the conventions of Prometheus: base units (seconds, bytes, ratios), ``_total`` for what
only grows. A job, a leaf and an exporter are labels; a rank or a finding is none, since there is no
bound on their number. The label of a job is ``training_job``, since Prometheus has a ``job`` of its
own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llmprism.watch.alerts.alertmanager import Alertmanager
from llmprism.watch.diagnosing import FAILED, INSUFFICIENT
from llmprism.watch.health import EXITS, NOT_WRITTEN
from llmprism.watch.listening import Listener
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.shown import Shown, shown_after
from llmprism.watch.sources import Taken
from llmprism.watch.state import Exporter, State
from llmprism.watch.view import View

_SEVERITIES = ("critical", "warning", "info")
_JOB = "training_job"


class Metrics(Listener, Collector):
    """Collects the figures of a monitor whenever they are asked for."""

    def __init__(self, alertmanagers: Sequence[Alertmanager] = ()) -> None:
        self._alertmanagers = alertmanagers
        self._state = State()
        self._shown: Shown | None = None
        self._diagnosed = self._dropped = self._failures = 0
        self._not_written = False
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def took(self, state: State, taken: Taken) -> None:
        """Take note of what became of records."""
        self._state, self._dropped = state, taken.dropped

    def diagnosed(self, state: State, view: View) -> None:
        """Take note of the figures of a window."""
        self._shown = shown_after(self._shown, view)
        self._diagnosed += 1

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Take note of the steps."""
        if self._shown is not None:
            self._shown = self._shown.with_steps(steps)

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """Take note of the incidents."""
        self._state = state

    def failed_to_store(self, text: str) -> None:
        """Count it."""
        self._failures += bool(text)
        self._not_written = bool(text)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._of_records()
        yield from self._of_diagnosis()
        yield from self._of_alerts()
        yield from _of_exporters(self._state)
        if self._shown is not None:
            yield from _of_jobs(self._shown)
            yield from _of_leaves(self._shown.whole)

    def _of_records(self) -> Iterator[Metric]:
        fates = CounterMetricFamily(
            "llmprism_records", "Flow records by what became of them.", labels=["fate"]
        )
        for fate, count in sorted(self._state.fates.items()):
            fates.add_metric([fate], count)
        yield fates
        dropped = "Datagrams that the kernel dropped before the monitor read them."
        yield CounterMetricFamily("llmprism_udp_dropped_packets", dropped, self._dropped)
        watermark_ns = self._state.watermark_ns
        if watermark_ns is not None:
            yield GaugeMetricFamily(
                "llmprism_latest_record_timestamp_seconds",
                "Time up to which records have come, on the clock of the records.",
                watermark_ns / SECOND_NS,
            )
            yield GaugeMetricFamily(
                "llmprism_lag_seconds",
                "Age of the latest record.",
                time.time() - watermark_ns / SECOND_NS,
            )

    def _of_diagnosis(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "llmprism_windows_diagnosed", "Windows that were diagnosed.", self._diagnosed
        )
        yield CounterMetricFamily(
            "llmprism_windows", "Windows, diagnosed, followed or passed over.", self._state.windows
        )
        failed = CounterMetricFamily(
            "llmprism_windows_without_diagnosis",
            "Windows that should have been diagnosed and were not, by reason.",
            labels=["reason"],
        )
        for reason in (FAILED, INSUFFICIENT):
            failed.add_metric([reason], self._state.failures.get(reason, 0))
        yield failed
        yield CounterMetricFamily(
            "llmprism_state_failures", "Times that the disk did not take the state.", self._failures
        )
        if self._shown is not None:
            yield GaugeMetricFamily(
                "llmprism_diagnosis_duration_seconds",
                "Time that the last diagnosis of a window took.",
                self._shown.latest.took_s,
            )

    def _of_alerts(self) -> Iterator[Metric]:
        blind = GaugeMetricFamily(
            "llmprism_blind", "Whether the monitor may not see, by reason.", labels=["reason"]
        )
        for name in EXITS:
            blind.add_metric([name], float(name in self._state.blind))
        blind.add_metric([NOT_WRITTEN], float(self._not_written))
        yield blind
        incidents = GaugeMetricFamily(
            "llmprism_open_incidents", "Incidents that are open.", labels=["severity"]
        )
        opened = [one for one in self._state.incidents if one.stage == "open"]
        for severity in _SEVERITIES:
            count = sum(one.labels["severity"] == severity for one in opened)
            incidents.add_metric([severity], count)
        yield incidents
        hiccups = CounterMetricFamily(
            "llmprism_hiccups", "Findings that were not worth an alert, by job.", labels=[_JOB]
        )
        for job, count in sorted(self._state.hiccups.items()):
            hiccups.add_metric([job], count)
        yield hiccups
        if self._alertmanagers:
            posts = CounterMetricFamily(
                "llmprism_alert_posts", "Posts to Alertmanager by outcome.", labels=["outcome"]
            )
            posts.add_metric(["sent"], sum(one.sent for one in self._alertmanagers))
            posts.add_metric(["failed"], sum(one.failed for one in self._alertmanagers))
            yield posts


_OF_EXPORTERS: dict[str, tuple[str, Callable[[Exporter], float]]] = {
    "clock_offset_seconds": (
        "End of the latest record of an exporter minus the time at which it came.",
        lambda one: one.offset_ns / SECOND_NS,
    ),
    "last_seen_timestamp_seconds": (
        "When records of an exporter came last, on this machine's clock.",
        lambda one: one.seen_ns / SECOND_NS,
    ),
    "records_total": ("Records that came of an exporter.", lambda one: one.records),
    "lost_total": (
        "Gaps in the sequence of an exporter: datagrams of NetFlow v9, records of others.",
        lambda one: one.lost,
    ),
}


def _of_exporters(state: State) -> Iterator[Metric]:
    for name, (text, value) in _OF_EXPORTERS.items():
        plain = name.removesuffix("_total")
        kind = CounterMetricFamily if plain != name else GaugeMetricFamily
        metric = kind(f"llmprism_exporter_{plain}", text, labels=["exporter"])
        for exporter, one in sorted(state.exporters.items()):
            metric.add_metric([exporter], value(one))
        yield metric


def _of_jobs(shown: Shown) -> Iterator[Metric]:
    figures = {
        "step_seconds": ("Median length of a step of a job in the last window.", "step_ns"),
        "waiting_ratio": ("Share of its steps that the ranks of a job wait.", "waiting"),
        "coverage_ratio": ("Share of the steps of the ranks of a job that were found.", "coverage"),
        "confidence_ratio": ("Confidence in the layout of a job.", "confidence"),
        "gpus": ("GPUs of a job.", "gpus"),
        "last_step": ("Number of the last step of a job.", "last_step"),
    }
    for name, (text, attribute) in figures.items():
        metric = GaugeMetricFamily(f"llmprism_job_{name}", text, labels=[_JOB])
        unit = SECOND_NS if attribute.endswith("_ns") else 1
        for job in shown.jobs:
            value = getattr(job, attribute)
            if value is not None:
                metric.add_metric([job.name], value / unit)
        yield metric


def _of_leaves(view: View) -> Iterator[Metric]:
    for place, side in enumerate(("sent", "received")):
        metric = GaugeMetricFamily(
            f"llmprism_leaf_{side}_bytes_per_second",
            f"What the NICs of a leaf {side} in the last window that was diagnosed as a whole.",
            labels=["leaf"],
        )
        for leaf, rates in view.leaf_rates.items():
            metric.add_metric([leaf], rates[place])
        yield metric
