"""What the records resolve: whether the steps found can be steps of the job.

An exporter ends a record after a silence (its idle timeout) or some time after it began (its
active timeout). Where a record lasts longer than a step it is the *timer* that cuts, and parts
of equal volume are what the timer makes: one, two or more steps each. A timeline from such
records would be wrong, so it is refused. The timer alone has made the parts, however long, if none
of the silences between them lasts as long as the idle timeout.

A job is refused if half of its bytes travel in records that are long for the step found, and
the exporter's clock, not a silence, ended them: the idle timeout is as long as the step, or the
records last as long as the active timeout. Where the table does not name the timeouts, the
active one is recognised by its round value: records that the timer cuts are all a little
shorter than it, and the next record begins at once. With long records, a handful of equal parts
is no evidence of steps either. But where the table names an idle timeout that is far shorter than
a step, and silences as long part the steps, it was these that ended the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.parameters import QUARTER, SMALL, SURE
from llmprism.methods.prism.records.connections import Connections, carry_within
from llmprism.numerics.arrays import Bools, Ints, order_in_groups, quantile_by_weight
from prism_common.quantities import duration

BELIEVED = 6  # steps from which records as long as a step are believed to be one each
LONG = 0.4  # of a step: a record this long may hold the end of one
SEVERAL = 2.0  # steps: a record this long holds one that it shows nothing of
CUT = 0.8  # of the active timeout: records that it cut are at least this long
AT_ONCE = 0.05  # of a timeout: what the timer has cut goes on within this time
ROUND_S = (1, 5, 10, 15, 30, 60, 120, 300, 600, 1800)  # what exporters are set to
AT_TIMEOUT = (0.97, 1.03)  # of a round timeout: where the tenth-longest record in a hundred lies


@dataclass(frozen=True)
class Refusal:
    """Why a job has no timeline, and the setting of the exporter that would allow one."""

    reason: str
    setting: str


class _Records(NamedTuple):
    """The data records of a job: their lengths [ns] and bytes, and the median step [ns]."""

    length_ns: Ints
    size: Ints
    step_ns: float

    def share(self, chosen: Bools) -> float:
        """Share of the bytes that is in ``chosen`` records."""
        return float(self.size[chosen].sum() / self.size.sum())

    def are_cut_after(self, active_ns: float) -> bool:
        """Whether the active timeout ends records, if there is one."""
        long = self.length_ns >= CUT * active_ns
        return active_ns > 0 and self.share(long) > QUARTER


def refusal(flows: FlowTable, connections: Connections, job: Job) -> Refusal | None:
    """Return why the steps of ``job`` cannot be believed; None if they can."""
    records = _records(flows, connections, job)
    if records.size.size == 0 or not records.step_ns > 0:
        return None
    idle_ns, active_ns = (
        float(flows.meta.get(name, 0)) for name in ("idle_gap_ns", "active_timeout_ns")
    )
    if idle_ns and records.are_cut_after(active_ns) and _rest_ns(job) < idle_ns:
        return Refusal(
            f"no silence between parts is as long as the idle timeout of {duration(idle_ns)}: "
            f"the active timeout of {duration(active_ns)} ended the records",
            "an idle timeout of a twentieth of a step, so that silence ends records",
        )
    if 0 < idle_ns <= min(SMALL * records.step_ns, _rest_ns(job)):
        return None
    count = sum(max(part.stepping.count for part in epoch) for epoch in job.epochs)
    quality = min(part.stepping.quality for epoch in job.epochs for part in epoch)
    long_ns = (LONG if count >= BELIEVED or quality >= SURE else LONG / 2) * records.step_ns
    if records.share(records.length_ns < long_ns) >= 1 / 2:
        return None
    if count < BELIEVED:
        typical_ns = quantile_by_weight(records.length_ns, records.size, 0.5)
        return Refusal(
            f"records last {duration(typical_ns)}, and only {count} equal parts of "
            f"{duration(records.step_ns)} show that anything repeats",
            "an idle timeout of a twentieth of a step, or a longer recording",
        )
    return _by_timeouts(records, idle_ns, active_ns or _round_timeout(flows, connections, job))


def _by_timeouts(records: _Records, idle_ns: float, active_ns: float) -> Refusal | None:
    """Why steps that records last as long as cannot be believed; None if timeouts explain none."""
    step_ns = records.step_ns
    if idle_ns >= step_ns:
        return Refusal(
            f"silence ends a record after {duration(idle_ns)}, as long as the step found or longer",
            "an idle timeout of a twentieth of a step",
        )
    if records.are_cut_after(active_ns):
        return Refusal(
            f"records last up to the active timeout of {duration(active_ns)}, "
            f"against {duration(step_ns)} for the step found",
            "an idle timeout of a twentieth of a step, so that silence ends records",
        )
    if records.share(records.length_ns > SEVERAL * step_ns) > 1 / 2:
        return Refusal(
            f"most bytes are in records of several steps, with {duration(step_ns)} for the step "
            "found: silences of some members are too short to end a record",
            "an idle timeout of a twentieth of a step",
        )
    return None


def _rest_ns(job: Job) -> float:
    """Median silence between the steps found [ns], of the part in which it is longest."""
    steps = [part.stepping for epoch in job.epochs for part in epoch if part.stepping.count > 1]
    return max((float(np.median(own.start_ns[1:] - own.end_ns[:-1])) for own in steps), default=0.0)


def _records(flows: FlowTable, connections: Connections, job: Job) -> _Records:
    """Records of data of ``job``, also those of more than a step that do not repeat."""
    chosen = _rows(job)
    steps = np.concatenate([np.diff(part.stepping.end_ns) for one in job.epochs for part in one])
    step_ns = float(np.median(steps)) if steps.size else 0.0
    beside = _left_out(connections, job)
    chosen = np.concatenate((chosen, beside[flows.lengths_ns(beside) > step_ns]))
    return _Records(flows.lengths_ns(chosen), connections.size[chosen], step_ns)


def _left_out(connections: Connections, job: Job) -> Ints:
    """Rows of data between endpoints of the job that were taken out, as they do not repeat.

    Where one record holds many steps, nothing repeats.
    """
    parts = [part for epoch in job.epochs for part in epoch]
    own = [one.connections for part in parts for one in part.component.classes]
    beside = np.setdiff1d(
        np.flatnonzero(carry_within(connections, job.endpoints)), np.concatenate(own)
    )
    rows = [connections.by.rows(one) for one in beside.tolist()]
    return np.concatenate([np.empty(0, np.int64), *rows])


def _rows(job: Job) -> Ints:
    """Rows of the job's data records in the flow table."""
    parts = (part for epoch in job.epochs for part in epoch)
    return np.concatenate([one.traffic.row for part in parts for one in part.component.classes])


def _round_timeout(flows: FlowTable, connections: Connections, job: Job) -> float:
    """The round active timeout [ns] that cuts the longest records; 0 if there is none."""
    rows = _rows(job)
    longest = float(np.quantile(flows.lengths_ns(rows), 0.9))
    timeouts = np.array(ROUND_S) * 1e9
    low, high = AT_TIMEOUT
    near: Bools = (longest >= low * timeouts) & (longest <= high * timeouts)
    if not near.any():
        return 0.0
    timeout = float(timeouts[near][0])
    order = rows[order_in_groups(connections.of_row[rows], flows.start_ns[rows])]
    whole, after = order[:-1], order[1:]
    cut = connections.of_row[whole] == connections.of_row[after]
    cut &= flows.lengths_ns(whole) >= low * timeout
    rest_ns = flows.start_ns[after[cut]] - flows.end_ns[whole[cut]]
    return timeout if cut.any() and float(np.median(rest_ns)) < AT_ONCE * timeout else 0.0
