"""The members of the process groups of a Chakra trace, and the kind of their traffic.

Groups of the scenario take precedence. Otherwise they come from the metadata of PyTorch's observer
in each rank's trace, where ranks may use one name for different groups. A collective without a
group includes all ranks.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from prism_common.kinds import GroupKind
from prism_sim.importers.base import TraceProblems
from prism_sim.importers.chakra_files import Node
from prism_sim.scenario.graph import GroupSet, Task
from prism_sim.scenario.words import did_you_mean

ALL_RANKS = "all"
"""Name of the group of a collective without a group."""


def one_word(name: str) -> str:
    """A group's name for a task's line, where spaces and # have a special meaning.

    >>> one_word("pipeline stage #1")
    'pipeline_stage_1'
    """
    return "_".join(re.split(r"[\s#]+", name.strip())) or ALL_RANKS


class ProcessGroups:
    """The members of each process group.

    Parameters
    ----------
    given : ranks of groups by name, from the scenario.
    ranks : number of ranks.
    found : receives problems.
    """

    def __init__(
        self, given: Mapping[str, Sequence[int]], ranks: int, found: TraceProblems
    ) -> None:
        self._given = {one_word(name): tuple(group) for name, group in given.items()}
        self._ranks = ranks
        self._found = found
        self._known: dict[tuple[str, int], tuple[int, ...]] = {}
        for name, group in self._given.items():
            self._check(name, group, "groups")

    def learn(self, nodes: Sequence[Node], where: str, rank: int) -> None:
        """Read the groups from the metadata of one rank's PyTorch trace."""
        for node in nodes:
            if node.type == "METADATA_NODE" and "pg_name" in node.values:
                for described, group in _described(node.values):
                    name = one_word(described)
                    self._check(name, group, f"{where}: node {node.id}")
                    self._known[name, rank] = group or tuple(range(self._ranks))

    def of(self, name: str, rank: int) -> tuple[int, ...] | None:
        """Ranks of the group that ``rank`` calls ``name``; None if they are unknown."""
        if name == ALL_RANKS and name not in self._given:
            return tuple(range(self._ranks))
        return self._given.get(name) or self._known.get((name, rank))

    def families(
        self, programs: Sequence[Sequence[Task]], kinds: Mapping[str, GroupKind], where: str
    ) -> dict[str, GroupSet]:
        """All groups that are used, by name."""
        used: dict[str, dict[tuple[int, ...], None]] = defaultdict(dict)
        exchanging: set[str] = set()
        for rank, program in enumerate(programs):
            for task in program:
                if task.kind == "collective":
                    used[task.family][self.of(task.family, rank) or ()] = None
                    exchanging |= {task.family} if task.operation == "all_to_all" else set()
        kinds = {one_word(name): kind for name, kind in kinds.items()}
        for name in kinds.keys() - used.keys():
            what = f"kinds names the process group {name!r}, which no task uses"
            self._found.add(what, where, did_you_mean(name, used))
        made: dict[str, GroupSet] = {}
        for name, groups in used.items():
            members = [rank for group in groups for rank in group]
            if len(set(members)) != len(members):
                what = f"ranks disagree about the members of process group {name!r}"
                self._found.add(what, where, "give it in groups")
            kind = kinds.get(name, "ep" if name in exchanging else "dp")
            made[name] = GroupSet(kind=kind, groups=tuple(groups))
        return made

    def _check(self, name: str, group: Sequence[int], where: str) -> None:
        wrong = [rank for rank in group if not 0 <= rank < self._ranks]
        if wrong or len(set(group)) != len(group):
            what = (
                f"process group {name!r} has ranks {list(group)[:8]}; the trace has {self._ranks}"
            )
            self._found.add(what, where, "each rank once, counted from 0")


def _described(values: str) -> list[tuple[str, tuple[int, ...]]]:
    """Groups in the text of PyTorch's observer: a list of one quoted JSON list."""
    try:
        groups = json.loads(values[values.index("[{") : values.rindex("}]") + 2])
        return [(str(g["pg_name"]), tuple(int(r) for r in g["ranks"])) for g in groups]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
