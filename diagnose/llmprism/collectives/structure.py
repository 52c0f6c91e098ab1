"""Jobs, kinds, layouts and steps of the operations that libraries recorded.

Communicators that share processes are one job. So are sets of processes on the same hosts, or
in the same NVLink domains, whose communicators do exactly the same: the ranks of tensor groups,
which share no recorded communicator if their own traffic stays inside and is too small for records,
and those of a restart, which begin when all others have ended.

A communicator does the same in every step. The sequence of its operations and sizes repeats, and a
step is one repetition; where every so many repetitions are followed by a pause that the others do
not have, these are micro-batches, and a step ends at the pause. Serial numbers count steps from the
begin of the job, so a lost record shifts no other one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.collectives.operations import US, Operations
from llmprism.collectives.reading import Records
from llmprism.model import CANNOT_TELL
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.graph import components
from llmprism.numerics.missing import nanmedian

SAME = 0.97
"""Share of the operations that are equal one period later, at least."""
OFTEN, FEWEST_STEPS = 0.5, 3
"""Share of the operations of one kind that repeat, at least, if these are so many."""
IN_STEP = 0.1
"""Of the longest pause of a job: its processes end their operations within this of each other."""
TRIED = 4096
"""Operations in which a period is looked for."""
PAUSE = 3.0
"""By how many times a pause between steps is longer than any between micro-batches."""
MOST_MICRO_BATCHES = 256
FINE = 0.05
"""Of a step: ends that are known to this are good enough to measure it."""
MORE_OFTEN = 8
"""Operations of a tensor group for each one of its data-parallel groups, at least."""
NAMED = (
    (r"_and_|model_pipeline|intra_|expert_tensor", "other"),
    (r"pipeline|\bpp\b", "pp"),
    (r"expert_data|expert_dp|data_parallel|\bdp\b", "dp"),
    (r"expert|\bep\b", "ep"),
    (r"context|\bcp\b", "cp"),
    (r"tensor|\btp\b", "tp"),
    (r"model_parallel|embedding|default|world|\bmp\b", "other"),
)
"""Kinds of communicators whose names have these words."""


@dataclass(frozen=True)
class Shape:
    """One job: its processes, its communicators and what they are for.

    Attributes
    ----------
    processes : codes, in order.
    communicators : codes of those with operations, in order.
    kind : of each communicator, also of those without.
    stage : of each process; -1 without a pipeline.
    layout : number of places along each axis; -1 if records do not show it.
    missing : ranks of its communicators that have no record.
    """

    name: str
    processes: Ints
    communicators: Ints
    kind: dict[int, str]
    stage: Ints
    layout: dict[str, int]
    missing: int


@dataclass(frozen=True)
class Connected:
    """Processes that communicators join, directly or through others.

    Attributes
    ----------
    processes, communicators : codes; processes of a server are in the order of their numbers.
    does : where they are, and what their communicators do.
    ends_ns : of all operations, in order.
    """

    processes: list[int]
    communicators: list[int]
    does: object
    ends_ns: Floats


def connected(operations: Operations, homes: Sequence[str]) -> list[Connected]:
    """All sets of processes; ``homes`` is the server or NVLink domain of each process."""
    records, rows = operations.records, operations.rows
    count, many = len(records.processes), len(records.communicators)
    process, communicator, _ = records.members.T
    label = components(
        process.astype(np.int32), (count + communicator).astype(np.int32), count + many
    )
    columns = rows["communicator"].astype(np.int64), rows["operation"], rows["size_bytes"]
    does: dict[int, Counter[tuple[object, ...]]] = {}
    for one, operation, size in np.unique(np.stack(columns), axis=1).T.tolist():
        what = (records.communicators[one].ranks, operation, size)
        does.setdefault(int(label[count + one]), Counter())[what] += 1
    of_row = label[count + rows["communicator"]]
    found = []
    for code in dict.fromkeys(label[:count].tolist()):
        own = sorted(np.flatnonzero(label[:count] == code).tolist(),
                     key=lambda one: records.processes[one].order)  # fmt: skip
        key = (frozenset(homes[one] for one in own), frozenset(does.get(code, Counter()).items()))
        ends_ns = np.sort(operations.ends_ns(np.flatnonzero(of_row == code)))
        joined = np.flatnonzero(label[count:] == code).tolist()
        found.append(Connected(own, joined, key, ends_ns))
    return found


def first_attempts(records: Records, sets: Sequence[Connected]) -> Ints:
    """Of each process, that of the first attempt of its job whose place it has; or itself."""
    alike: dict[object, list[Connected]] = {}
    for one in sorted((one for one in sets if one.ends_ns.size), key=lambda one: one.ends_ns[0]):
        alike.setdefault((one.does, len(one.processes)), []).append(one)
    place = np.arange(len(records.processes))
    for group in alike.values():
        attempts: list[list[Connected]] = []
        until_ns = -np.inf
        for one in group:
            if one.ends_ns[0] > until_ns:
                attempts.append([])
            attempts[-1].append(one)
            until_ns = max(until_ns, one.ends_ns[-1])
        first, *others = (
            sorted(each, key=lambda one: records.processes[one.processes[0]].order)
            for each in attempts
        )
        for each in (each for each in others if len(each) == len(first)):
            for own, before in zip(each, first, strict=True):
                place[own.processes] = before.processes
    return place


def shapes_of(
    operations: Operations, sets: Sequence[Connected], given: Ints, places: Ints
) -> Iterator[Shape]:
    """The jobs, in the order of their first process; of each, its attempts one after the other.

    Of each process, ``given`` is the number of the job that an operator gives, or -1, and
    ``places`` the process of :func:`first_attempts`.
    """
    job = _with_siblings(sets, given)
    process, communicator, _ = operations.records.members.T
    for number, first in enumerate(dict.fromkeys(job[places].tolist())):
        attempts = np.unique(job[job[places] == first]).tolist()
        for one in sorted(attempts, key=lambda one: sets[one].ends_ns[:1].tolist()):
            inside = job[process] == one
            yield _shape(operations, f"job-{number}", process[inside], communicator[inside])


def _with_siblings(sets: Sequence[Connected], given: Ints) -> Ints:
    """The number of the job of each process: sets that do the same at the same time.

    Sets with processes of one given job, and of no other, are that job.
    """
    alike: dict[object, list[int]] = {}
    listed: dict[int, int] = {}
    job = np.full(given.size, -1)
    for code, one in enumerate(sets):
        theirs = np.unique(given[one.processes])
        if theirs.size == 1 and theirs[0] >= 0:
            job[one.processes] = listed.setdefault(int(theirs[0]), code)
            continue
        siblings = alike.setdefault(one.does, [])
        same = (other for other in siblings if _in_step(sets[other].ends_ns, one.ends_ns))
        job[one.processes] = code
        job[one.processes] = job[sets[next(same, code)].processes[0]]
        siblings.append(code)
    return job


def _in_step(ends: Floats, others: Floats) -> bool:
    """Whether two sets of processes that do the same do it at the same time, from first to last."""
    count = min(ends.size, others.size)
    if not count:
        return False
    places = np.linspace(0, count - 1, min(count, TRIED)).astype(np.int64)
    apart = np.abs(ends[places] - others[places])
    pause = np.quantile(np.diff(ends), 1 - 1 / max(count, 2)) if count > 1 else 0.0
    return bool(np.quantile(apart, SAME) <= IN_STEP * pause)


def _shape(operations: Operations, name: str, process: Ints, communicator: Ints) -> Shape:
    records = operations.records
    processes, communicators = np.unique(process), np.unique(communicator)
    members = {one: process[communicator == one] for one in communicators.tolist()}
    stage = np.full(len(records.processes), -1)
    uses = {one: operations.rows_of(one) for one in communicators.tolist()}
    kind = {one: _kind_by_name(operations, one, uses[one]) for one in uses}
    if set(kind.values()) == {"other"}:  # a group of all ranks that does everything
        kind = dict.fromkeys(kind, "")
    in_line = np.isin(records.members[:, 1], [one for one in kind if kind[one] == "pp"])
    stage[records.members[in_line, 0]] = records.members[in_line, 2]
    kind = {one: kind[one] or _kind(operations, uses[one], stage[members[one]]) for one in uses}
    _tensor_groups(operations, kind, members, uses)
    missing = sum(records.communicators[one].ranks - members[one].size for one in uses)
    layout = _layout(operations, kind, members, processes.size, bool(missing))
    used = np.array([one for one in uses if uses[one].size], np.int64)
    return Shape(name, processes, used, kind, stage[processes], layout, missing)


def _kind_by_name(operations: Operations, one: int, uses: Ints) -> str:
    """What a communicator is for, by its name, or by messages alone; empty if these do not tell."""
    name = operations.records.communicators[one].name.lower()
    for words, kind in NAMED:
        if re.search(words, name):
            return kind
    return "pp" if uses.size and operations.is_message[uses].all() else ""


def _kind(operations: Operations, uses: Ints, stages: Ints) -> str:
    """What a communicator without a telling name is for, by what it does."""
    codes = np.unique(operations.rows["operation"][uses]).tolist()
    does = {operations.records.operations[code].lower() for code in codes}
    if does and does <= {"alltoall", "alltoallv", "send", "recv"}:
        return "ep"
    if np.unique(stages).size > 1 or not does:
        return "other"
    return "cp" if does == {"allgather"} else "dp"


def _tensor_groups(
    operations: Operations, kind: dict[int, str], members: dict[int, Ints], uses: dict[int, Ints]
) -> None:
    """Groups inside a server that operate much more often than wider ones of the same processes."""
    communicators = operations.records.communicators
    wide = {one for one in kind if kind[one] == "dp" and communicators[one].nodes > 1}
    for one in [one for one in kind if kind[one] == "dp" and one not in wide]:
        beside = [other for other in wide if np.intersect1d(members[one], members[other]).size]
        often = [uses[other].size / members[other].size for other in beside]
        if beside and uses[one].size / members[one].size > MORE_OFTEN * max(often):
            kind[one] = "tp"


def _layout(
    operations: Operations, kind: dict[int, str], members: dict[int, Ints], processes: int,
    is_partial: bool,
) -> dict[str, int]:  # fmt: skip
    """The number of places along each axis, -1 where records do not show it."""
    ranks = {
        axis: {operations.records.communicators[one].ranks for one in kind if kind[one] == axis}
        for axis in ("dp", "pp", "tp", "ep", "cp")
    }
    size = {axis: max(found) if len(found) == 1 else -1 if found else 1
            for axis, found in ranks.items()}  # fmt: skip
    replicas = _joined([members[one] for one in kind if kind[one] == "dp"])
    if is_partial:
        replicas = size["dp"]
    elif replicas == 0:
        replicas = max(size["ep"], 1) * max(size["cp"], 1)
    beside = size["ep"] * size["cp"]
    size["dp"] = replicas // beside if beside > 0 and replicas % beside == 0 else CANNOT_TELL
    if not ranks["tp"]:
        rest, extra = divmod(processes, max(replicas * size["pp"], 1))
        known = replicas > 0 and size["pp"] > 0 and not extra and not is_partial
        size["tp"] = rest if known else CANNOT_TELL
    return size


def _joined(groups: list[Ints]) -> int:
    """Processes that groups with common members join; 0 without any, -1 if sets differ."""
    if not groups:
        return 0
    names = np.unique(np.concatenate(groups))
    src = np.concatenate([np.searchsorted(names, one) for one in groups])
    dst = np.repeat([np.searchsorted(names, one[0]) for one in groups], [g.size for g in groups])
    sizes = np.unique(np.bincount(components(src.astype(np.int32), dst.astype(np.int32),
                                             names.size)))  # fmt: skip
    sizes = sizes[sizes > 0]
    return int(sizes[0]) if sizes.size == 1 else CANNOT_TELL


@dataclass(frozen=True)
class Stepped:
    """The steps of one job, by process; NaN where they are unknown.

    Attributes
    ----------
    end_ns : end of the last operation of its main communicator, by the clock of its host.
    waited_ns : how long it waited for others.
    moved_ns : what the transfers took in which it took part.
    transfer_ns : what transfers took of each communicator, (communicators, steps).
    late_ns : sum of how late it joined collectives.
    length_ns : of each step, shape (steps,); NaN where unknown.
    is_measured : whether lengths are those between ends; otherwise they follow from waiting.
    micro_batches : messages that a first stage sends in a step; -1 without a pipeline.
    first : the number of the first of these steps.
    """

    end_ns: Floats
    waited_ns: Floats
    moved_ns: Floats
    late_ns: Floats
    transfer_ns: Floats
    length_ns: Floats
    is_measured: bool
    micro_batches: int
    first: int = 0


def steps_of(operations: Operations, shape: Shape) -> Stepped | None:
    """Divide what a job did into steps; None if nothing repeats."""
    rows = operations.rows
    inside = np.flatnonzero(np.isin(rows["process"], shape.processes))
    main = _main(operations, shape, inside)
    step = np.full(len(rows), -1)
    for communicator in np.unique(main[main >= 0]).tolist():
        mine = inside[rows["communicator"][inside] == communicator]
        of_messages = operations.is_message[mine].all()
        step[mine] = (_numbered_messages if of_messages else _numbered)(operations, mine)
    known = step[inside][step[inside] >= 0]
    if not known.size or np.unique(known).size < 3:
        return None
    step[step >= 0] -= known.min()
    count = int(known.max() - known.min()) + 1
    place = np.full(len(operations.records.processes), -1)
    place[shape.processes] = np.arange(shape.processes.size)
    process = place[rows["process"][inside]]
    own = step[inside]
    end_ns = np.full((shape.processes.size, count), -np.inf)
    stepped = own >= 0
    ends = operations.ends_ns(inside)
    np.maximum.at(end_ns, (process[stepped], own[stepped]), ends[stepped])
    end_ns[np.isinf(end_ns)] = np.nan
    own = _by_time(own, process, ends, end_ns)
    return _summed(operations, shape, inside, own, process, end_ns)


def _main(operations: Operations, shape: Shape, inside: Ints) -> Ints:
    """The communicator that shows the steps of each process: of gradients, with most bytes."""
    rows, main = operations.rows[inside], np.full(len(operations.records.processes), -1)
    worth = np.array([{"dp": 2.0, "pp": 1.0, "other": 0.1}.get(shape.kind.get(one, ""), 1.5)
                      for one in range(len(operations.records.communicators))])  # fmt: skip
    many = len(operations.records.communicators)
    key = rows["process"].astype(np.int64) * many + rows["communicator"]
    keys, place = np.unique(key, return_inverse=True)
    size = np.log1p(np.bincount(place, rows["size_bytes"])) + 1e3 * worth[keys % many]
    for at in np.argsort(size, kind="stable").tolist():
        main[keys[at] // many] = keys[at] % many
    return main


def _numbered(operations: Operations, mine: Ints) -> Ints:
    """The step of each row of one communicator, counted from the first operation ever."""
    rows = operations.rows[mine]
    lead = np.bincount(rows["process"]).argmax()
    at = np.flatnonzero(rows["process"] == lead)
    leading = rows[at]
    period, first = _repeated(operations, mine[at])
    step = np.full(mine.size, -1)
    if not period:
        return step
    often = np.bincount(leading["operation"]).argmax()
    numbers = leading["number"][first:][leading["operation"][first:] == often]
    each = np.count_nonzero(leading["operation"][first : first + period] == often)
    base = round(max(int(numbers[0]), 0) / each) if numbers.size and each else 0
    of_lead = (np.arange(at.size) - first) // period + base
    for operation in np.unique(leading["operation"]).tolist():
        theirs, ours = rows["operation"] == operation, leading["operation"] == operation
        if (leading["number"][ours] < 0).any():
            continue
        place = np.searchsorted(leading["number"][ours], rows["number"][theirs], side="right") - 1
        step[theirs] = of_lead[ours][np.maximum(place, 0)]
    return step


def _numbered_messages(operations: Operations, mine: Ints) -> Ints:
    """The step of each message: each process numbers its own, and has as many in each step.

    Where a process does the same for each micro-batch, the sequence of another one shows the steps.
    """
    step = np.full(mine.size, -1)
    own = [np.flatnonzero(operations.rows["process"][mine] == one)
           for one in np.unique(operations.rows["process"][mine])]  # fmt: skip
    periods = [(at.size, _repeated(operations, mine[at])[0]) for at in own]
    steps = min((size / period for size, period in periods if period), default=np.inf)
    number = operations.rows["number"][mine]
    for at in own if np.isfinite(steps) and (number >= 0).all() else ():
        step[at] = (number[at] - (number.min() > 0)) // max(round(at.size / steps), 1)
    return step


def _repeated(operations: Operations, mine: Ints) -> tuple[int, int]:
    """The operations of a step in rows of one process, and the place of the first; see _period."""
    rows = operations.rows[mine]
    token = rows["operation"].astype(np.int64) * (1 << 48) + rows["size_bytes"]
    ends = rows["end_us"].astype(np.float64)
    return _period(token, ends - rows["exec_us"], ends, operations.tick_ns / US)


def _period(token: Ints, begin: Floats, end: Floats, tick: float) -> tuple[int, int]:
    """Operations of a step, and the place of the first one that begins a step; 0 if unknown."""
    tried = token[:TRIED]
    kind, count = np.unique(tried, return_inverse=True, return_counts=True)[1:]
    period = 0
    for n in range(1, tried.size // 3 + 1):
        same = tried[n:] == tried[:-n]
        if same.mean() >= SAME:
            period = period or n  # unless another one also repeats what is rare in a step
            each = np.bincount(kind[n:], same, count.size)
            if (each >= OFTEN * (count - 1))[count >= FEWEST_STEPS].all():
                period = n
                break
    if not period:
        return 0, 0
    gap = np.concatenate(([0.0], begin[1:] - end[:-1]))
    whole = gap.size // period
    by_place = gap[: whole * period].reshape(whole, period)
    usual = np.median(by_place[1:], axis=0)
    if tick > FINE * (end[-1] - end[0]) / whole:
        return period, 0
    first = int(np.argmax(usual))
    pauses = gap[first::period][1:]
    for turns in range(2, min(pauses.size // 3, MOST_MICRO_BATCHES) + 1):
        turn = [float(np.median(pauses[at::turns])) for at in range(turns)]
        longest = int(np.argmax(turn))
        others = max(value for at, value in enumerate(turn) if at != longest)
        if turn[longest] > PAUSE * max(others, tick):
            return turns * period, (first + (longest + 1) * period) % (turns * period)
    return period, first


def _by_time(step: Ints, process: Ints, ends: Floats, end_ns: Floats) -> Ints:
    """The step of the other rows of each process: the first whose main operations end after it."""
    step = step.copy()
    for one in np.unique(process[step < 0]).tolist():
        mine = np.flatnonzero((process == one) & (step < 0))
        known = np.flatnonzero(np.isfinite(end_ns[one]))
        place = np.searchsorted(end_ns[one, known], ends[mine])
        step[mine] = np.append(known, -1)[place]
    return step


def _summed(
    operations: Operations, shape: Shape, inside: Ints, step: Ints, process: Ints, end_ns: Floats
) -> Stepped:
    """Add up what each process waited in each step; a step with fewer operations is unknown."""
    rows, count = operations.rows[inside], end_ns.shape[1]
    stepped = np.flatnonzero(step >= 0)
    cell = process[stepped] * count + step[stepped]
    shaped = (shape.processes.size, count)

    def added(values: Floats) -> Floats:
        total = np.bincount(cell, values[inside][stepped], shaped[0] * count)
        return total.astype(np.float64).reshape(shaped)

    number = np.bincount(cell, minlength=shaped[0] * count).reshape(shaped).astype(np.float64)
    number[number == 0] = np.nan
    is_whole = number >= nanmedian(number, axis=1)[:, None]
    waited, moved, late = (
        np.where(is_whole, added(one), np.nan)
        for one in (operations.waited_ns, operations.transfer_ns, operations.late_ns)
    )
    transfers = np.full((len(shape.communicators), count), np.nan)
    which = np.searchsorted(shape.communicators, rows["communicator"][stepped])
    total = np.zeros_like(transfers)
    np.add.at(total, (which, step[stepped]), operations.transfer_ns[inside][stepped])
    for at, communicator in enumerate(shape.communicators.tolist()):
        members = np.unique(process[rows["communicator"] == communicator])
        complete = is_whole[members].all(axis=0)
        transfers[at, complete] = total[at, complete] / members.size
    length = np.full(shaped, np.nan)
    length[:, 1:] = np.diff(end_ns, axis=1)
    lengths = nanmedian(length, axis=0)
    usual = float(np.nanmedian(lengths))
    is_measured = operations.tick_ns <= FINE * usual
    if not is_measured:
        usual = float(np.nanmax(end_ns) - np.nanmin(end_ns)) / max(count - 1, 1)
        waits = waited - nanmedian(waited, axis=1)[:, None]
        lengths = usual + np.nan_to_num(np.nanmax(np.where(is_whole, waits, -np.inf), axis=0),
                                        nan=np.nan, neginf=np.nan)  # fmt: skip
    sends = (rows["operation"] == operations.code("send")) & (shape.stage[process] == 0)
    sent = np.bincount(step[sends & (step >= 0)], minlength=count)
    senders = np.unique(process[sends]).size
    micro_batches = int(np.median(sent) / senders) if senders else CANNOT_TELL
    return Stepped(end_ns, waited, moved, late, transfers, lengths, is_measured, micro_batches)
