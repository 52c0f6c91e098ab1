"""Who waits for whom in NCCL: the culprits of a hang, from dumps of the flight recorder.

A rank *waits* for another in a group if its first operation that is not completed was not given by
the other, or if the other has not completed an operation before it. Culprits are ranks that
others wait for, and that wait for nobody. Also

- ranks that have not completed a collective that a peer has: their GPU does not advance;
- ranks whose call differs from that of most at the same number of a group;
- ranks without a dump, if nobody else explains why their group does not advance.

A message between two ranks excuses a rank that waits for its partner, except if the ranks that
wait for it went on in spite of the same message. Ranks that wait in a circle are all named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from prism_common.recorder import Call, Dump, Status

_ROOTED = {"broadcast", "reduce", "gather", "scatter", "send", "recv"}
"""Operations that some ranks complete before others."""
_EQUAL = {"all_reduce", "allreduce", "broadcast", "reduce", "barrier", "_all_gather_base"}
_EQUAL |= {"all_reduce_barrier", "_reduce_scatter_base", "all_reduce_coalesced"}
"""Collectives whose sizes are the same in all ranks."""


class Wait(NamedTuple):
    """One rank waits for another at an operation of a group."""

    rank: int
    other: int
    group: str
    number: int
    operation: str


class Reason(NamedTuple):
    """Why a rank is a culprit: ``odd_call``, ``gpu_behind``, ``not_entered`` or ``no_dump``."""

    kind: str
    text: str


@dataclass
class Hang:
    """Who stopped a job: culprits in order, a reason for each, and all waits."""

    culprits: list[int] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)


def find_hang(dumps: Iterable[Dump]) -> Hang:
    """Find the ranks that the others wait for; no culprits if all ranks advanced alike."""
    return _Search({dump.rank: dump for dump in dumps}).result()


class _Search:
    """One job: its dumps by rank, and the members and states of its groups."""

    def __init__(self, dumps: dict[int, Dump]) -> None:
        self.dumps = dumps
        self.members: dict[str, tuple[int, ...]] = {}
        self.names: dict[str, str] = {}
        self.calls: dict[tuple[str, int], list[Call]] = defaultdict(list)
        for rank, dump in dumps.items():
            self.members.update(dump.members)
            self.names.update(dump.names)
            for call in dump.calls:
                self.calls[call.group, rank].append(call)
        for group, rank in list(self.calls):
            if rank not in self.members.get(group, (rank,)) or group not in self.members:
                self.members[group] = (*self.members.get(group, ()), rank)
        self.with_messages = {
            group for (group, _), calls in self.calls.items() if any(call.pair for call in calls)
        }
        self.states = {
            (group, rank): self._state(group, rank)
            for group, members in self.members.items()
            for rank in members
            if rank in dumps
        }

    def result(self) -> Hang:
        stuck, odd = self._stuck(), self._odd()
        waits = [wait for group in self.members for wait in self._waits(group)]
        waits += [wait for wait in self._waits_for_odd(odd) if wait.rank not in odd]
        waits += self._messages(stuck, waits)
        waits = [wait for wait in waits if wait.rank not in stuck]
        culprits = _ends(waits) | {rank for rank in stuck if any(w.other == rank for w in waits)}
        culprits |= odd.keys()
        ordered = sorted(culprits, key=lambda rank: (rank not in odd, rank))
        reasons = {rank: self._reason(rank, stuck, odd, waits) for rank in ordered}
        return Hang(ordered, reasons, waits)

    def _state(self, group: str, rank: int) -> Status:
        """From the recorder's own numbers; from calls where messages are counted with them."""
        dump = self.dumps[rank]
        if group in dump.status and group not in self.with_messages:
            return dump.status[group]
        calls = [call for call in self.calls[group, rank] if call.pair is None]
        given = max((call.number for call in self.calls[group, rank]), default=0)
        waiting = [call.number for call in calls if not call.done]
        return Status(given, min(waiting, default=given + 1) - 1)

    def _first(self, group: str, rank: int) -> int | None:
        """The first collective that is not completed; None if there is none."""
        state = self.states[group, rank]
        return state.done + 1 if state.given > state.done else None

    def _named(self, group: str, rank: int, number: int) -> str:
        """The operation with a number, as a member recorded it."""
        for member in (rank, *self.members[group]):
            for call in self.calls.get((group, member), ()):
                if call.number == number and call.pair is None:
                    return call.operation
        return "collective"

    def _waits(self, group: str) -> Iterable[Wait]:
        present = [rank for rank in self.members[group] if rank in self.dumps]
        absent = [rank for rank in self.members[group] if rank not in self.dumps]
        for rank in present:
            number = self._first(group, rank)
            if number is None:
                continue
            behind = [
                other
                for other in present
                if self.states[group, other].given < number
                or self.states[group, other].done < number - 1
            ]
            for other in behind or absent:
                yield Wait(rank, other, group, number, self._named(group, rank, number))

    def _stuck(self) -> dict[int, Wait]:
        """Ranks that have given, but not completed, a collective that a peer has completed."""
        found: dict[int, Wait] = {}
        for group, rank in self.states:
            number = self._first(group, rank)
            others = [self.states[group, r] for r in self.members[group] if r in self.dumps]
            if number is None or not any(state.done >= number for state in others):
                continue
            operation = self._named(group, rank, number)
            if operation not in _ROOTED:
                found.setdefault(rank, Wait(rank, rank, group, number, operation))
        return found

    def _odd(self) -> dict[int, Wait]:
        """Ranks whose call differs from most, at the first number of a group where calls differ."""
        found: dict[int, Wait] = {}
        for group, members in self.members.items():
            at: dict[int, dict[int, Call]] = defaultdict(dict)
            for rank in members:
                for call in self.calls.get((group, rank), ()):
                    if call.pair is None:
                        at[call.number][rank] = call
            for number in sorted(at):
                odd = _minority(at[number])
                for rank in odd:
                    operation = at[number][rank].operation
                    found.setdefault(rank, Wait(rank, rank, group, number, operation))
                if odd:
                    break
        return found

    def _waits_for_odd(self, odd: dict[int, Wait]) -> Iterable[Wait]:
        for rank, wait in odd.items():
            for other in self.members[wait.group]:
                state = self.states.get((wait.group, other))
                if other not in odd and state and state.done < wait.number:
                    yield Wait(other, rank, wait.group, wait.number, wait.operation)

    def _messages(self, stuck: Iterable[int], waits: list[Wait]) -> list[Wait]:
        """Waits for partners that have not given the other half of a message."""
        found = []
        for (group, rank), calls in self.calls.items():
            members = self.members[group]
            if rank in stuck:
                continue
            for call in calls:
                if call.done or call.pair is None or call.pair[1] >= len(members):
                    continue
                other = members[call.pair[1]]
                answered = self._answered(call, group, members.index(rank), other)
                if not answered and not self._went_on(call, rank, waits):
                    found.append(Wait(rank, other, group, call.number, call.operation))
                break  # messages of one group are sent in order
        return found

    def _answered(self, call: Call, group: str, own: int, other: int) -> bool:
        """Whether the partner waits in the other half of this message."""
        wanted = ("recv" if call.operation.startswith("send") else "send", own)
        theirs = self.calls.get((group, other), ())
        return any(each.pair == wanted and not each.done for each in theirs)

    def _went_on(self, call: Call, rank: int, waits: list[Wait]) -> bool:
        """Whether a rank that waits for ``rank`` has the same message open, and went on."""
        waiting = {wait.rank for wait in waits if wait.other == rank}
        return any(
            each.operation == call.operation and not each.done
            for (_, other), calls in self.calls.items()
            if other in waiting
            for each in calls
        )

    def _reason(
        self, rank: int, stuck: dict[int, Wait], odd: dict[int, Wait], waits: list[Wait]
    ) -> Reason:
        if rank in odd:
            text = f"called {self._place(odd[rank])}; its peers call another, or other sizes"
            return Reason("odd_call", text)
        if rank in stuck:
            text = f"did not complete {self._place(stuck[rank])}, which a peer has completed"
            return Reason("gpu_behind", text)
        own = [wait for wait in waits if wait.other == rank]
        count = len({wait.rank for wait in own})
        text = f"{self._place(own[0])}; {count} rank{'s wait' if count > 1 else ' waits'} for it"
        if rank in self.dumps:
            return Reason("not_entered", f"did not enter {text}")
        return Reason("no_dump", f"has no dump, and is needed in {text}")

    def _place(self, wait: Wait) -> str:
        return f"{wait.operation} number {wait.number} of {self.names[wait.group]} ({wait.group})"


def _minority(calls: dict[int, Call]) -> list[int]:
    """Ranks whose operation or sizes differ from most; all of them if there is no majority."""
    seen = {
        rank: (call.operation, call.sizes if call.operation in _EQUAL else "")
        for rank, call in calls.items()
    }
    counts = Counter(seen.values()).most_common()
    if len(counts) < 2:
        return []
    tied = counts[0][1] == counts[1][1]
    return sorted(rank for rank, what in seen.items() if tied or what != counts[0][0])


def _ends(waits: list[Wait]) -> set[int]:
    """Ranks that others wait for, and from which waits lead to nobody but back."""
    edges: dict[int, set[int]] = defaultdict(set)
    for wait in waits:
        edges[wait.rank].add(wait.other)
    reached = {rank: _reach(rank, edges) for rank in {w.other for w in waits}}
    return {
        rank
        for rank, others in reached.items()
        if all(rank in reached.get(other, ()) for other in others)
    }


def _reach(start: int, edges: dict[int, set[int]]) -> set[int]:
    found: set[int] = set()
    ahead = [start]
    while ahead:
        for other in edges.get(ahead.pop(), ()):
            if other not in found:
                found.add(other)
                ahead.append(other)
    return found
