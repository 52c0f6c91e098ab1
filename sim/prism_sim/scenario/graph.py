"""A job as a graph of tasks for each rank: the common format of imported traces.

A rank's *program* is a list of tasks. A task begins when all tasks that it depends on have
finished. Its kind is one of: computing on the GPU or on its host, waiting, sending to or receiving
from another rank, taking part in a collective of a group. Only importers know file formats.

A task is written as one line, so that a manifest with a whole graph stays readable:
``collective all_reduce 4096 dp after 3,4 step 0 # gradients``.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from prism_common.kinds import GroupKind
from prism_sim.scenario.base import Closed

KINDS = ("compute", "host", "wait", "send", "recv", "collective")
"""Kinds of tasks."""

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
"""Kinds of collectives."""

LARGEST_AMOUNT = 1 << 50
"""Maximum of bytes, or ns, of one task."""


class Task(NamedTuple):
    """One task of a rank.

    Attributes
    ----------
    kind : one of :data:`KINDS`.
    after : numbers of the tasks that must finish first; all are earlier in the program.
    amount : duration [ns], or bytes of a message or of a collective's buffer at one rank.
    operation, family : of a collective: its kind, and its family of groups.
    peer, tag : of a message: the other rank, and a number that distinguishes messages of one pair.
    step : the training step it belongs to, counted from the start of the program.
    name : its name in the trace.
    """

    kind: str
    amount: int = 0
    after: tuple[int, ...] = ()
    operation: str = ""
    family: str = ""
    peer: int = 0
    tag: int = 0
    step: int = 0
    name: str = ""

    def line(self) -> str:
        """The task as one line.

        >>> Task("send", 64, (0, 2), peer=3, name="to the next").line()
        'send 64 3 0 after 0,2 step 0 # to the next'
        """
        what = {"collective": f"{self.operation} {self.amount} {self.family}"}
        what |= dict.fromkeys(("send", "recv"), f"{self.amount} {self.peer} {self.tag}")
        after = f" after {','.join(map(str, self.after))}" if self.after else ""
        name = f" # {' '.join(self.name.split())}" if self.name.split() else ""
        return f"{self.kind} {what.get(self.kind, self.amount)}{after} step {self.step}{name}"


def task_of(line: Any) -> Any:
    """The task that ``line`` describes; ValueError if it is not valid.

    >>> task_of("compute 5000 after 1 step 0 # layer 3").amount
    5000
    """
    if not isinstance(line, str):
        return line
    text, _, name = line.partition(" # ")
    text, _, step = text.rpartition(" step ")
    head, _, after = text.rpartition(" after ")
    text = head or text
    kind, *words = text.split()
    common: dict[str, Any] = {
        "after": tuple(int(number) for number in after.split(",")) if head else (),
        "step": int(step or 0),
        "name": name,
    }
    if kind == "collective":
        operation, size, family = words
        return Task(kind, int(size), operation=operation, family=family, **common)
    amount, *other = (int(word) for word in words)
    peer, tag = other or (0, 0)
    return Task(kind, amount, peer=peer, tag=tag, **common)


TaskLine = Annotated[
    Task,
    BeforeValidator(task_of, json_schema_input_type=str),
    PlainSerializer(Task.line, return_type=str),
]


RankNumber = Annotated[int, Field(ge=0, le=1_048_576)]
"""Number of a rank, or of its program."""


class GroupSet(Closed):
    """Groups of ranks of the same kind: for example, all data-parallel groups."""

    kind: GroupKind = Field(description="Kind of their traffic, as in the truth.")
    groups: tuple[tuple[RankNumber, ...], ...]
    """Ranks of each group, in their order."""


def _families_of(program: tuple[Task, ...], number: int) -> set[str]:
    """Families of the collectives of ``program``; ValueError if a task is not valid."""
    for at, task in enumerate(program):
        known = task.kind in KINDS and (task.kind != "collective" or task.operation in OPERATIONS)
        if (
            not known
            or not 0 <= task.amount <= LARGEST_AMOUNT
            or not all(0 <= before < at for before in task.after)
        ):
            raise ValueError(f"task {at} of program {number} is not valid: {task.line()}")
    return {task.family for task in program if task.kind == "collective"}


class Graph(Closed):
    """The tasks of every rank of a job, for one pass through the trace."""

    families: dict[Annotated[str, Field(pattern=r"^[^\s#]+$")], GroupSet] = Field(
        description="Groups that collectives run in, by name; a name is one word."
    )
    programs: tuple[tuple[TaskLine, ...], ...]
    """Programs, each a list of tasks, one per line."""
    ranks: tuple[RankNumber, ...] = Field(description="Number of the program of each rank.")
    steps: int = Field(ge=1, le=1_000_000_000, description="Training steps in the trace.")
    tp: int = Field(default=1, ge=1, le=1_048_576)
    """Number of neighbouring ranks that must share one server."""

    @model_validator(mode="after")
    def _ranks_are_there(self) -> Graph:
        ranks = range(len(self.ranks))
        if not ranks or any(not 0 <= number < len(self.programs) for number in self.ranks):
            raise ValueError("a rank has no program")
        if len(ranks) % self.tp:
            raise ValueError(f"tp {self.tp} does not divide {len(ranks)} ranks")
        for task in (task for program in self.programs for task in program):
            if task.peer not in ranks or not 0 <= task.step < self.steps:
                raise ValueError(f"no such rank or step: {task.line()}")
        return self

    @model_validator(mode="after")
    def _groups_are_there(self) -> Graph:
        used = [_families_of(program, number) for number, program in enumerate(self.programs)]
        members: dict[str, set[int]] = {}
        for name, family in self.families.items():
            own = [rank for group in family.groups for rank in group]
            members[name] = set(own)
            if len(members[name]) != len(own) or not members[name] <= set(range(len(self.ranks))):
                raise ValueError(f"the groups of {name} have wrong ranks")
        for rank, number in enumerate(self.ranks):
            for name in used[number]:
                if rank not in members.get(name, ()):
                    raise ValueError(f"rank {rank} is in no group of {name}")
        return self

    def program(self, rank: int) -> tuple[Task, ...]:
        """The tasks of ``rank``."""
        return self.programs[self.ranks[rank]]
