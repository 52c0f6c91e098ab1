"""Ranks that pause from time to time: garbage collection, a data loader, a stopped process.

A pause makes one step long, and the next one is healthy again. Healthy ranks have long passes too,
now and then, so a single one accuses nobody. A server is suspected if its ranks pause in more steps
than those of the other servers let expect: pauses that are independent of a server are Poisson
distributed, with the rate that all other servers show. The longer a pause, the rarer it is: by the
square of its length, where others show none as long. So pauses of an eighth or a quarter of a step
are counted by themselves as well. So are those that exceed the noise by little: the rate of the
other servers tells how many of them are chance. Each of these bars, and each server, is another
occasion for it. One pause accuses a server only if it takes as long as a step or more. No rank
loses more than the step of its job is longer: what seems more is a record that was cut elsewhere.
Nor is a pause the reason where the steps are longer by more than twice as much: something else
delays several ranks.

A rank that saves a checkpoint meanwhile, in the background, shares its NIC with that; it does not
pause. Nor does one that waits for messages that are slow. Pauses may come at a steady pace, as
checkpoints do. A step that is longer because a rank lost time is no checkpoint, so it does not show
at which steps one is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.lateness.own_time import lost_share, rows_of_servers
from llmprism.methods.prism.faults.measures.rates import slow_messages_at
from llmprism.methods.prism.faults.measures.saving import saving
from llmprism.methods.prism.faults.measures.series import DEVIATIONS, healthy, judged
from llmprism.methods.prism.faults.rings.rings import usual_delay_ns
from llmprism.methods.prism.faults.suspects.cost import cost_at, widened, with_neighbours
from llmprism.methods.prism.faults.suspects.ranks import COMMON
from llmprism.methods.prism.faults.suspects.recurring import recurring_ns
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import deviation, finite_median

SHORT, MIDDLE, LONG = 0.05, 0.125, 0.25  # of a step: pauses that count, and those that are rarer
UNUSUAL = 3.0  # deviations of a pause that is one by its number, and by its length alone is not
WHOLE = 1.0  # of a step: a pause that accuses by itself
FEWEST = 2  # pauses that are more than one
SHOWN = 3  # steps without a pause whose median is no checkpoint
BARS = (
    (LONG, DEVIATIONS, FEWEST),
    (MIDDLE, DEVIATIONS, FEWEST),
    (SHORT, DEVIATIONS, FEWEST),
    (SHORT, UNUSUAL, FEWEST),
    (WHOLE, DEVIATIONS, 1),
)
NEARLY_ALL = 0.8  # of what ranks of a server lost in pauses: who lost it pauses alone
OF_MOST = 0.8  # of what the rank that lost most lost in a step; who lost less may have waited
UNSEEN = 0.5  # pauses of all other servers together that are assumed where none was seen
LEAST, MOSTLY = 0.01, 0.5  # of a step, and of what it is longer: other pauses of a rank
EXPLAINED = 0.6  # of the slow steps around pauses: so many have one
CHANCE = 0.001  # of so many pauses in any server of a job, over all bars, at most
ONCE = 0.02  # ... of a single one as long as a step, which is believed half as much
CAUSES = ("slow_compute", ["gc_pauses", "loader_stalls", "intermittent_gpu", "slow_server"])


def pauses(context: Context) -> Iterator[Suspect]:
    """Bring forward servers whose ranks pause more often than others do."""
    for job in context.jobs:
        lost = lost_share(context, job, cautious=True)
        if lost is not None and np.isfinite(lost).any():
            longer = _longer(job, lost)
            yield from _of_job(context, job, lost, longer)


def _longer(job: JobView, at_most: Floats) -> Floats:
    """What each step takes longer than a healthy one, as a share of a usual step.

    Without what it takes longer because it recurs. ``at_most`` is what each rank loses. Most steps
    may have a pause: steps in which nobody loses time show what one takes, if there are several.
    """
    most = np.nan_to_num(at_most).max(axis=0)
    free_ns = job.between_ends_ns[most < SHORT]
    normal_ns = float(healthy(job.duration_ns[None, :])[0])
    if np.isfinite(free_ns).sum() >= SHOWN:
        normal_ns = min(normal_ns, finite_median(free_ns))
    longer: Floats = (job.duration_ns - normal_ns) / job.period_ns
    explained = most >= MOSTLY * longer
    others_ns = np.where(explained & (longer > LEAST), np.nan, job.duration_ns)
    extra = recurring_ns(others_ns, others_ns.size, others_ns.size) / job.period_ns
    less: Floats = longer - np.clip(extra, 0.0, np.fmax(longer, 0.0))
    return less


def _of_job(context: Context, job: JobView, at_most: Floats, longer: Floats) -> Iterator[Suspect]:
    """The server that loses most, of those that pause too often."""
    lost = np.minimum(at_most, np.maximum(longer, 0.0)[None, :])
    groups = rows_of_servers(context, job)
    shown = np.nan_to_num(lost)
    own_loss = (shown > 0) & (shown >= OF_MOST * shown.max(axis=0)) & ~_in_common(shown, groups)
    own_loss[:, _saved(context, job, own_loss)] = False
    if own_loss.any():
        own_loss &= ~slow_messages_at(context, job)
    usual = usual_delay_ns(context, job) / job.period_ns
    for least, bar, fewest in BARS:
        out = judged(1 + lost, least, usual, peers=True, deviations=bar).out & own_loss
        lasted = np.array([np.where(out[rows], shown[rows], 0.0).max(axis=0) for rows in groups])
        steps = lasted > 0
        counts = steps.sum(axis=1)
        totals = [
            float(np.nan_to_num(at_most[rows][:, own]).max(axis=0).sum())
            for rows, own in zip(groups, steps, strict=True)
        ]
        for number in np.argsort(-np.array(totals), kind="stable").tolist():  # most lost, first
            rows, count, own = groups[number], int(counts[number]), steps[number]
            if count < fewest or len(groups) < 2:
                continue
            others, shortest = np.delete(lasted, number, axis=0), float(lasted[number, own].min())
            expected = _expected(others, shortest)
            chance = _chance_of(count, expected) * len(groups) * len(BARS)
            if chance > (ONCE if fewest < FEWEST else CHANCE):
                continue
            pausing = rows[_pausing(np.where(out[rows], at_most[rows], 0.0))]
            own = out[pausing].any(axis=0)
            suspect = _suspect(context, job, (lost, longer), pausing, own, chance)
            if suspect is not None:
                yield suspect
                return


def _expected(others: Floats, shortest: float) -> float:
    """Pauses of a server that are as long as its ``shortest`` one, or longer, by those of others.

    ``others`` is how long those of each other server are, as a share of a step, (servers, steps);
    0 where there is none. Longer ones than any of them are expected by the square of their length.
    """
    rarer = min(1.0, (SHORT / shortest) ** 2)
    seen = max(int((others >= shortest).sum()), rarer * int((others > 0).sum()))
    return float(seen + rarer * UNSEEN) / len(others)


def _in_common(lost: Floats, groups: list[Ints]) -> Bools:
    """Where most of the other servers lose much of what an endpoint does, (endpoints, steps).

    The load of a host that all share delays all of them: nobody pauses.
    """
    most = np.array([lost[rows].max(axis=0) for rows in groups])
    found = np.zeros(lost.shape, np.bool_)
    for number, rows in enumerate(groups):
        if len(groups) > 1:
            others = np.median(np.delete(most, number, axis=0), axis=0)
            found[rows] = others > COMMON * lost[rows]
    return found


def _saved(context: Context, job: JobView, lost_most: Bools) -> Bools:
    """In which steps a rank that lost most also saved, and does not in all of them, (steps,).

    What it saves shares its NIC with what it sends to others. It does not pause.
    """
    saves = saving(context, job)[job.phases.endpoints, : lost_most.shape[1]]
    seldom = saves & ~saves.all(axis=1, keepdims=True)
    return np.asarray((lost_most & seldom).any(axis=0))


def _chance_of(count: int, expected: float) -> float:
    """Probability of ``count`` or more pauses where a Poisson distribution expects so many."""
    from scipy.special import pdtrc

    return float(pdtrc(count - 1, expected))


def _pausing(lost: Floats) -> Ints:
    """Which ranks of a server pause, by what each of them ``lost`` in steps with a pause.

    The one that lost nearly all, or else each: ranks of a server that pauses do so in turns.
    """
    total = lost.sum(axis=1)
    most = np.flatnonzero(total >= NEARLY_ALL * total.sum())
    return most if most.size == 1 else np.flatnonzero(total > 0)


def _suspect(
    context: Context,
    job: JobView,
    both: tuple[Floats, Floats],
    rows: Ints,
    steps: Bools,
    chance: float,
) -> Suspect | None:
    """The ranks ``rows``; ``both`` is what each rank loses, and what each step takes longer."""
    lost, longer = both
    lost_most = np.nan_to_num(lost[rows]).max(axis=0)
    at = _all_pauses(longer, lost_most, np.flatnonzero(steps))
    if not cost_at(job, at).believed or not _explain(job, longer, at):
        return None
    share = float(lost_most[at].mean())
    if share < MOSTLY * float(np.nan_to_num(longer[at]).mean()):
        return None
    sure = min(0.99, 1 - chance) * at.size / (at.size + 1)
    at = with_neighbours(job, at)  # the others of a run may be slow where nothing shows it
    names = [context.topology.addresses[end] for end in job.phases.endpoints[rows].tolist()]
    server = context.topology.endpoints[int(job.phases.endpoints[rows[0]])].server
    alone = len(names) == 1
    return Suspect(
        job, "rank", "pauses", CAUSES[0],
        "address" if alone else "server", names[0] if alone else server,
        int(at[0]), int(at[-1]), share / (1 + share), round(sure, 4),
        {
            "or_causes": CAUSES[1],
            "server": server,
            "one_of": names,
            "steps": at.tolist(),
            "chance_of_as_many": chance,
        },
        cost_at(job, at),
        share,
    )  # fmt: skip


def _explain(job: JobView, longer: Floats, at: Ints) -> bool:
    """Whether most of the slow steps, from the first to the last one in a row, have a pause."""
    first, last = widened(job, int(at[0]), int(at[-1]), (0, job.count - 1))
    longer = np.nan_to_num(longer)
    bar = 0.5 * float(np.median(longer[at]))
    slow = np.flatnonzero(longer[first : last + 1] > bar) + first
    return bool(np.isin(slow, at).mean() > EXPLAINED) if slow.size else False


def _all_pauses(longer: Floats, lost: Floats, at: Ints) -> Ints:
    """Steps that are longer mostly by what a rank lost, as far apart as those in ``at`` or less.

    What shows that a rank pauses too often are the clear pauses; the others cost time as well.
    """
    gap = int(np.diff(at).max(initial=1))
    longer = np.nan_to_num(longer)
    near = np.zeros(longer.size, np.bool_)
    near[max(0, at[0] - gap) : at[-1] + gap + 1] = True
    others = np.delete(longer, at)
    noise = DEVIATIONS * deviation(others)
    out = near & (longer > max(noise, LEAST)) & (lost >= MOSTLY * longer)
    out[at] = True
    return np.flatnonzero(out)
