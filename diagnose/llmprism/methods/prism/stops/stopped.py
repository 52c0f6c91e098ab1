"""A rank that stops, and with it the traffic of its job: a hang, a crash, or a dead NIC.

All others wait as soon as they need something from it, so the traffic of the job ends one
connection after another, in the middle of a step. Records that merely end (the recording was
over) are cut at the same moment everywhere. A job that ends does so after a finished step.

Flow records cannot tell why a rank stopped: its process hangs, it ended, or its NIC is silent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.explanation import Cost, Explanation
from llmprism.methods.prism.parameters import MOST_NAMED, NEARLY, SMALL, SURE
from llmprism.methods.prism.stops.progress import stuck_in_pipeline
from llmprism.methods.prism.stops.tails import LATER, STALLED, Stuck, Tail, ends_of, tails_of
from llmprism.methods.prism.stops.unfinished_rings import stuck_in_ring
from llmprism.methods.prism.stops.waiting import stuck_on_the_wire
from llmprism.numerics.missing import finite_median

ALONE = 0.6  # confidence with several candidates
BETWEEN = 0.5  # confidence where no rank shows to be the first
FEW = 3  # ends that moved nothing, at most
LATELY = 3  # steps before one that was never finished
CAUSES = ("hang", "crash", "stopped_nic")


def stopped(context: Context) -> Iterator[Explanation]:
    """Yield ranks that stopped in the middle of a step."""
    for job in context.jobs:
        for tail in tails_of(context, job):
            stuck = _stuck_in(context, job, tail)
            if stuck is None and (_restarted(job, tail) or _never_reduced(context, job, tail)):
                yield _of_job(context, job, tail)
            elif stuck is not None and _is_sure(job, tail, stuck):
                yield _explanation(context, job, tail, stuck)


def _stuck_in(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint that stopped in ``tail``; None if nothing distinguishes one.

    The first that shows it for long enough, or else the first that shows it.
    """
    found = []
    for shown in (stuck_on_the_wire, stuck_in_pipeline, stuck_in_ring, _stuck_in_silence):
        one = shown(context, job, tail)
        if shown is stuck_in_pipeline and one and _exchanged_later(context, job, tail, one):
            continue
        if one is not None and _is_sure(job, tail, one):
            return one
        found += [] if one is None else [one]
    return found[0] if found else None


def _stuck_in_silence(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """One of the few ends without a record in ``tail``; None if there are none, or more.

    Where two servers exchange gradients, no hop shows how far another one came. But who takes part
    in every step, and moves nothing of one, has stopped, or its partner has.
    """
    flows, ends = context.flows, job.phases.endpoints
    rows = np.concatenate([*tail.rows.values()])
    usual = np.concatenate([part.one.traffic.row for part in job.phases.classes])
    moved, known = (ends_of(flows, chosen)[ends] > 0 for chosen in (rows, usual))
    silent = ends[known & ~moved].tolist()
    if not 0 < len(silent) <= FEW or 2 * len(silent) > known.sum():
        return None
    since_ns = int(flows.start_ns[rows].min())
    return Stuck(silent[0], since_ns, "moved nothing of a step", tuple(silent[1:]))


def _exchanged_later(context: Context, job: JobView, tail: Tail, stuck: Stuck) -> bool:
    """Whether the endpoint exchanged gradients after it seems to have stopped.

    It sent some, or got as many as ever. Then merely the record of its last message was lost.
    """
    flows, end = context.flows, stuck.endpoint
    rows = tail.rows.get("dp", np.empty(0, np.int64))
    rows = rows[flows.start_ns[rows] > stuck.since_ns]
    own = [part.one.traffic.row for part in job.phases.classes if part.kind == "dp"]
    for side, least in ((flows.src, SMALL), (flows.dst, NEARLY)):
        usual = sum(int(flows.bytes[row[side[row] == end]].sum()) for row in own) / job.count
        if usual > 0 and flows.bytes[rows[side[rows] == end]].sum() > least * usual:
            return True
    return False


def _is_sure(job: JobView, tail: Tail, stuck: Stuck) -> bool:
    """Whether a cut of the records does not explain that an endpoint seems to have stopped."""
    return stuck.alone or tail.until_ns - stuck.since_ns > _longest_ns(job, tail.step)


def _restarted(job: JobView, tail: Tail) -> bool:
    """Whether a job was silent for many steps, and then went on."""
    if tail.next_ns is None or not tail.again:
        return False
    return tail.next_ns - tail.end_ns > STALLED * job.period_ns


def _never_reduced(context: Context, job: JobView, tail: Tail) -> bool:
    """Whether a job passed on gradients, and was then silent for many steps without reducing them.

    A job that ends reduces the gradients of its last step, and an evaluation passes on none. Where
    records hold all messages of a step, no rank shows to be the first.
    """
    exchanges = any(part.kind == "dp" for part in job.phases.classes)
    if not exchanges or tail.rows.get("dp", np.empty(0)).size:
        return False
    if tail.until_ns - tail.end_ns <= STALLED * job.period_ns:
        return False
    rows, connections = tail.rows.get("pp", np.empty(0, np.int64)), context.connections
    moved = np.bincount(connections.of_row[rows], context.flows.bytes[rows], len(connections))
    shares = []
    for part in job.phases.classes:
        if part.kind == "pp":
            usual = np.median(part.volumes(connections, job.count), axis=1)
            shares.append(moved[part.one.connections] / np.maximum(usual, 1.0))
    return bool(shares) and bool(np.quantile(np.concatenate(shares), SMALL) > SMALL)


def _of_job(context: Context, job: JobView, tail: Tail) -> Explanation:
    """The job that stopped between two steps, so that no rank shows to be the first."""
    homes = sorted({context.topology.endpoints[end].server for end in job.phases.endpoints})
    few = {"one_of": homes} if len(homes) <= MOST_NAMED else {}
    lost = float(tail.until_ns - tail.end_ns)
    step = min(tail.step, max(0, job.count - 1))
    evidence = {"traffic_ended_ns": tail.end_ns, "went_on_ns": tail.next_ns}
    return Explanation(
        job, "group", "stopped", CAUSES[0], "job", job.name, step, step, 1.0, BETWEEN,
        {**evidence, **few, "or_causes": list(CAUSES[1:])},
        Cost(job.period_ns, job.period_ns + lost, lost, np.inf), (tail.end_ns, tail.until_ns),
    )  # fmt: skip


def _longest_ns(job: JobView, step: int) -> float:
    """A rest that no rank of ``job`` takes within its passes: a share of a step.

    Where the steps before ``step`` are slower than others, a rank may wait for as much longer.
    """
    messages = max(1, job.pipelines.micro_batches) if job.pipelines.length > 1 else 1
    lately = finite_median(job.duration_ns[max(0, step - LATELY) : step])
    slower = float(np.nan_to_num(lately - job.period_ns))
    return LATER * job.period_ns / messages + max(0.0, slower)


def _explanation(context: Context, job: JobView, tail: Tail, stuck: Stuck) -> Explanation:
    names = context.topology.addresses
    lost = float(max(0, tail.until_ns - stuck.since_ns))
    candidates = [names[stuck.endpoint], *(names[one] for one in stuck.others)]
    step = min(tail.step, max(0, job.count - 1))
    return Explanation(
        job, "rank", "stopped", stuck.cause, "address", candidates[0], step, step, 1.0,
        SURE if len(candidates) == 1 else ALONE,
        {
            "or_causes": [cause for cause in CAUSES if cause != stuck.cause],
            "one_of": candidates,
            "shown_by": stuck.shown_by,
            "unfinished_step": tail.step,
            "silent_since_ns": stuck.since_ns,
            "traffic_ended_ns": tail.end_ns,
            "went_on_ns": tail.next_ns,
        },
        Cost(job.period_ns, job.period_ns + lost, lost, np.inf),
        (stuck.since_ns, max(tail.until_ns, stuck.since_ns + 1)),
    )  # fmt: skip
