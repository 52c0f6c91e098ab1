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
from llmprism.methods.prism.parameters import FEWEST, MOST_NAMED, SMALL, SURE
from llmprism.methods.prism.stops.first_missing import State, learned_from, state_of, suspects
from llmprism.methods.prism.stops.tails import LATER, STALLED, Tail, tails_of

ALONE = 0.6  # confidence with several candidates
AT_ONCE = 1e-3  # of a step: hops of a ring that begin within it begin together
BETWEEN = 0.5  # confidence where no rank shows to be the first
CAUSES = ("hang", "crash", "stopped_nic")


def stopped(context: Context) -> Iterator[Explanation]:
    """Yield ranks that stopped in the middle of a step, or jobs where no rank shows it."""
    for job in context.jobs:
        for tail in tails_of(context, job):
            learned = learned_from(context, job, tail)
            begun = tail.at.size + tail.waiting.size > 0 or (tail.again and tail.step > 0)
            if learned.size < FEWEST - 1 or not begun:
                continue
            state = state_of(context, job, tail, learned)
            ends = suspects(context, job, tail, state)
            ends = ends if _is_sure(job, tail, state) else []
            far_longer_ns = max(job.period_ns, STALLED * state.records.longest_silence_ns)
            if ends or (tail.again and tail.until_ns - tail.end_ns > far_longer_ns):
                yield _explanation(context, job, tail, state, ends)


def _is_sure(job: JobView, tail: Tail, state: State) -> bool:
    """Whether neither a cut of the records nor a rank that is late explains the unfinished step.

    Others went on for longer than finished steps differ by, though a rank sent nothing.
    """
    ahead_ns, rest_ns = state.ahead_ns, tail.until_ns - tail.end_ns
    if not ahead_ns.size:
        return False
    if state.is_chain() and ahead_ns.size >= FEWEST:
        return bool(ahead_ns.min() + rest_ns > -AT_ONCE * job.period_ns)  # no step was like this
    margin_ns = max(SMALL * job.period_ns, LATER * float(np.ptp(ahead_ns)))
    if tail.next_ns is None:
        margin_ns = max(margin_ns, state.longest_record_ns)
    return bool(ahead_ns.min() + rest_ns > margin_ns)


def _explanation(
    context: Context, job: JobView, tail: Tail, state: State, ends: list[int]
) -> Explanation:
    """The first of ``ends`` as culprit, or the job if there are none."""
    homes = sorted({context.topology.endpoints[end].server for end in job.phases.endpoints})
    names = [context.topology.addresses[end] for end in ends] or homes
    ahead_ns = float(np.median(state.ahead_ns)) if ends else 0.0
    since_ns = max(tail.begin_ns, tail.end_ns - round(max(0.0, ahead_ns)))
    nic = ends and (tail.waiting.size > 0 or state.others_went_on())
    cause, *others = (CAUSES[2], *CAUSES[:2]) if nic else CAUSES
    named, sure = ("rank", "stopped", cause, "address", names[0]), ALONE
    if not ends:
        named, sure = ("group", "stopped", cause, "job", job.name), BETWEEN
    elif len(names) == 1:
        sure = SURE
    evidence = {
        "or_causes": others,
        "one_of": names if ends or len(homes) <= MOST_NAMED else [],
        "shown_by": "sent nothing, though it had all that it needs" if ends else "rests",
        "unfinished_step": tail.step,
        "silent_since_ns": since_ns,
        "traffic_ended_ns": tail.end_ns,
        "went_on_ns": tail.next_ns,
    }
    step, lost_ns = min(tail.step, max(0, job.count - 1)), float(tail.until_ns - since_ns)
    cost = Cost(job.period_ns, job.period_ns + lost_ns, lost_ns, np.inf)
    extent_ns = (since_ns, max(tail.until_ns, since_ns + 1))
    return Explanation(job, *named, step, step, 1.0, sure, evidence, cost, extent_ns)
