"""Metrics for Prometheus: what the last window shows, and what became of the records.

Names follow the conventions of Prometheus: base units (seconds, bytes, ratios), ``_total`` for what
only grows. A job, a leaf and an exporter are labels; a rank or a finding is none, since there is no
bound on their number. The label of a job is ``training_job``, since Prometheus has a ``job`` of its
own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llmprism.watch.alerts.alertmanager import Alertmanager
from llmprism.watch.diagnosing import FAILED, INSUFFICIENT
from llmprism.watch.health import EXITS, NOT_WRITTEN
from llmprism.watch.listening import Listener
from llmprism.watch.policy import SEVERITIES
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.sources import Taken
from llmprism.watch.state import State
from llmprism.watch.view import Shown, View, shown_after

_JOB = "training_job"
_OFFSET = "End of the latest record of an exporter minus the time at which it came."
_OF_JOBS = {
    "step_seconds": ("Median length of a step of a job in the last window.", "step_ns"),
    "waiting_ratio": ("Share of its steps that the ranks of a job wait.", "waiting"),
    "coverage_ratio": ("Share of the steps of the ranks of a job that were found.", "coverage"),
    "confidence_ratio": ("Confidence in the layout of a job.", "confidence"),
    "gpus": ("GPUs of a job.", "gpus"),
    "last_step": ("Number of the last step of a job.", "last_step"),
}


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
        yield from self._of_exporters()
        if self._shown is not None:
            yield from _of_shown(self._shown)

    def _of_records(self) -> Iterator[Metric]:
        state = self._state
        yield _total("records", "Flow records by what became of them.", state.fates, "fate")
        text = "Datagrams that were dropped before the monitor read them."
        yield _total("udp_dropped_packets", text, self._dropped)
        if state.watermark_ns is not None:
            latest_s = state.watermark_ns / SECOND_NS
            text = "Time up to which records have come, on the clock of the records."
            yield _gauge("latest_record_timestamp_seconds", text, latest_s)
            yield _gauge("lag_seconds", "Age of the latest record.", time.time() - latest_s)

    def _of_diagnosis(self) -> Iterator[Metric]:
        yield _total("windows_diagnosed", "Windows that were diagnosed.", self._diagnosed)
        text = "Windows, diagnosed, followed or passed over."
        yield _total("windows", text, self._state.windows)
        failures = {name: self._state.failures.get(name, 0) for name in (FAILED, INSUFFICIENT)}
        text = "Windows that should have been diagnosed and were not, by reason."
        yield _total("windows_without_diagnosis", text, failures, "reason")
        text = "Times that the disk did not take the state."
        yield _total("state_failures", text, self._failures)
        if self._shown is not None:
            text = "Time that the last diagnosis of a window took."
            yield _gauge("diagnosis_duration_seconds", text, self._shown.latest.took_s)

    def _of_alerts(self) -> Iterator[Metric]:
        blind = {name: name in self._state.blind for name in EXITS}
        text = "Whether the monitor may not see, by reason."
        yield _gauge("blind", text, blind | {NOT_WRITTEN: self._not_written}, "reason")
        incidents = self._state.incidents
        opened = Counter(one.labels["severity"] for one in incidents if one.stage == "open")
        counts = {name: opened[name] for name in reversed(SEVERITIES)}
        yield _gauge("open_incidents", "Incidents that are open.", counts, "severity")
        text = "Findings that were not worth an alert, by job."
        yield _total("hiccups", text, self._state.hiccups, _JOB)
        if self._alertmanagers:
            posts = {
                name: sum(getattr(one, name) for one in self._alertmanagers)
                for name in ("sent", "failed")
            }
            yield _total("alert_posts", "Posts to Alertmanager by outcome.", posts, "outcome")

    def _of_exporters(self) -> Iterator[Metric]:
        every = sorted(self._state.exporters.items())
        offsets = {name: one.offset_ns / SECOND_NS for name, one in every}
        yield _gauge("exporter_clock_offset_seconds", _OFFSET, offsets, "exporter")
        seen = {name: one.seen_ns / SECOND_NS for name, one in every}
        text = "When records of an exporter came last, on this machine's clock."
        yield _gauge("exporter_last_seen_timestamp_seconds", text, seen, "exporter")
        records = {name: one.records for name, one in every}
        yield _total("exporter_records", "Records that came of an exporter.", records, "exporter")
        text = "Gaps in its sequence: datagrams of NetFlow v9, records of others."
        yield _total("exporter_lost", text, {name: one.lost for name, one in every}, "exporter")


def _of_shown(shown: Shown) -> Iterator[Metric]:
    """The figures of jobs, and of leaves in the last window that was diagnosed as a whole."""
    for name, (text, attribute) in _OF_JOBS.items():
        unit = SECOND_NS if attribute.endswith("_ns") else 1
        pairs = ((job.name, getattr(job, attribute)) for job in shown.jobs)
        known = {job: value / unit for job, value in pairs if value is not None}
        yield _gauge(f"job_{name}", text, known, _JOB)
    for place, side in enumerate(("sent", "received")):
        rates = {leaf: both[place] for leaf, both in shown.whole.leaf_rates.items()}
        text = f"What the NICs of a leaf {side} in the last window that was diagnosed as a whole."
        yield _gauge(f"leaf_{side}_bytes_per_second", text, rates, "leaf")


_Values = Mapping[str, float] | float


def _total(name: str, text: str, values: _Values, label: str = "") -> Metric:
    """What only grows; with a ``label``, a value for each of its values."""
    return _filled(CounterMetricFamily, name, text, values, label)


def _gauge(name: str, text: str, values: _Values, label: str = "") -> Metric:
    return _filled(GaugeMetricFamily, name, text, values, label)


def _filled(kind: Any, name: str, text: str, values: _Values, label: str) -> Metric:
    labels: Iterable[str] = [label] if label else []
    metric = kind(f"llmprism_{name}", text, labels=labels)
    each = values if isinstance(values, Mapping) else {"": values}
    for key, value in each.items():
        metric.add_metric([key] if label else [], float(value))
    found: Metric = metric
    return found
