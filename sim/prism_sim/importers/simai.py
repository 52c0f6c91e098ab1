"""A SimAI workload file: layers with their compute times and collectives.

The first line gives the groups of ranks, the second the number of layers. A layer has, for
the forward pass, the gradient of its input and that of its weights, a compute time [ns], a
collective and its size; a last number is a delay after every collective [ns].
Every rank runs through all layers forward, then through all of them backward. Collectives of
forward and input gradient block; those of weights overlap, and the pass ends with the last one.

Groups are laid out as in SimAI: tensor-parallel ranks are neighbours, expert-parallel ranks are
counterparts in neighbouring tensor-parallel groups. A size is that of the whole buffer; each of
n ranks contributes, or receives, 1/n of it. SimAI's packet simulation has no pipeline, and the
file does not assign layers to stages, so a workload with stages is refused.

References: https://github.com/aliyun/SimAI (``workload/Workload.cc``, ``Layer.cc``,
``MockNcclGroup.cc``); https://github.com/aliyun/aicb, which generates such files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from prism_common.errors import Problem, UserError
from prism_common.kinds import GroupKind
from prism_sim.importers.base import LARGEST_BYTES, Remark, TraceProblems, contents, unread
from prism_sim.importers.graph_file import GraphFile
from prism_sim.scenario.graph import Graph, GroupSet, Task
from prism_sim.scenario.timings import LONGEST_NS
from prism_sim.scenario.words import did_you_mean

POLICIES = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD")
OPERATIONS = {
    "ALLREDUCE": "all_reduce",
    "REDUCESCATTER": "reduce_scatter",
    "ALLGATHER": "all_gather",
    "ALLTOALL": "all_to_all",
    "BROADCAST": "broadcast",
}
_SUFFIXES = {"_DP_EP": "dp_ep", "_EP": "ep"}
_WORDS = 12
_MOST_RANKS = 1 << 20


class SimAI(GraphFile):
    """Layer costs and collectives from a SimAI workload file."""

    kind: Literal["simai"] = "simai"
    ranks: int | None = Field(default=None, ge=1, le=1_048_576)
    """Ranks of the job. Left out: all_gpus in the file."""

    def read(self, path: Path, _remark: Remark = unread) -> Graph:
        lines = _lines(path)
        found = TraceProblems()
        header = _header(lines[0], f"{path}:1", self.ranks, found)
        layers = _layers(lines, str(path), found)
        found.refuse()
        families = _families(header)
        program = _Program(families)
        program.run_through(layers)
        if not program.tasks:
            what = "nothing is computed and nothing sent"
            raise UserError(Problem(what, str(path), "is every compute time 0?"))
        return Graph(
            families=families,
            programs=(tuple(program.tasks),),
            ranks=(0,) * header.ranks,
            steps=1,
            tp=header.tp,
        )


class Part(NamedTuple):
    """One of a layer's three parts; ``operation`` is empty if it has no collective."""

    compute_ns: int
    operation: str
    family: str
    size_bytes: int


class Layer(NamedTuple):
    """A layer: its parts, and the delay after each collective."""

    name: str
    forward: Part
    inputs: Part
    weights: Part
    delay_ns: int


@dataclass(frozen=True)
class Header:
    """The groups of ranks."""

    ranks: int
    tp: int
    ep: int


def _lines(path: Path) -> list[str]:
    try:
        lines = contents(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        what = "not a text file, so not a SimAI workload"
        raise UserError(Problem(what, str(path))) from error
    if not lines or not lines[0].split():
        raise UserError(Problem("the file is empty", f"{path}:1"))
    return lines


def _header(line: str, where: str, ranks: int | None, found: TraceProblems) -> Header:
    policy, *words = line.split()
    if policy not in POLICIES:
        how = f"{did_you_mean(policy, POLICIES)} (others are not modelled)"
        found.add(f"the parallelism {policy!r} cannot be expressed", where, how)
        return Header(1, 1, 1)
    given = {word.rstrip(":"): after for word, after in pairwise(words)}
    numbers = {
        key: _number(given.get(key, default), key, where, found)
        for key, default in (
            ("model_parallel_NPU_group", "1"), ("ep", "1"), ("pp", "1"), ("checkpoints", "0"),
            ("checkpoint_initiates", "0"), ("all_gpus", str(ranks or 0)),
        )
    }  # fmt: skip
    _refuse_header(numbers, ranks, where, found)
    tp, ep = numbers["model_parallel_NPU_group"], numbers["ep"]
    return Header(ranks or numbers["all_gpus"], max(1, tp), max(1, ep))


def _refuse_header(
    numbers: dict[str, int], ranks: int | None, where: str, found: TraceProblems
) -> None:
    if numbers["pp"] > 1:
        what = f"{numbers['pp']} pipeline stages, but the file does not assign layers to stages"
        how = "generate the workload with one stage, or describe the job with model and pp"
        found.add(what, where, how)
    if numbers["checkpoints"] or numbers["checkpoint_initiates"]:
        what = "recomputed layers (checkpoints) are not modelled"
        found.add(what, where, "add the recomputation to the compute times of the layers")
    size, tp = ranks or numbers["all_gpus"], max(1, numbers["model_parallel_NPU_group"])
    if not size:
        found.add("the number of ranks is missing", where, "add all_gpus there, or ranks here")
    elif size > _MOST_RANKS:
        found.add(f"{size} ranks are more than can be simulated", where)
    elif size % tp:
        what = f"{size} ranks cannot be cut into groups of model_parallel_NPU_group {tp}"
        found.add(what, where)
    elif size // tp % max(1, numbers["ep"]):
        what = f"ep {numbers['ep']} does not divide {size // tp} tensor-parallel groups"
        found.add(what, where)


def _number(word: str, name: str, where: str, found: TraceProblems) -> int:
    """A number as SimAI writes it: an integer, sometimes with a decimal point."""
    try:
        value = float(word)
        if value >= 0 and value == int(value):
            return int(value)
    except (ValueError, OverflowError):
        pass
    found.add(f"{name} is {word!r}; it must be an integer", where)
    return 0


def _layers(lines: Sequence[str], file: str, found: TraceProblems) -> list[Layer]:
    if len(lines) < 2 or not lines[1].split():
        found.add("the number of layers is missing", f"{file}:2", "the file ends too early")
        return []
    promised = _number(lines[1].split()[0], "the number of layers", f"{file}:2", found)
    written = [(number, line.split()) for number, line in enumerate(lines[2:], 3) if line.split()]
    if len(written) != promised:
        what = f"{promised} layers are announced, but the file has {len(written)}"
        found.add(what, f"{file}:2", "the file is truncated, or line 2 is wrong")
    if not written:
        found.add("there are no layers", f"{file}:2")
    return [
        _layer(words, f"{file}:{number}", found)
        for number, words in written
        if _is_whole(words, f"{file}:{number}", found)
    ]


def _is_whole(words: list[str], where: str, found: TraceProblems) -> bool:
    if len(words) != _WORDS:
        what = f"a layer of {len(words)} words, where {_WORDS} are expected"
        how = "name, -1, then compute, collective and size three times, then the delay"
        found.add(what, where, how)
    return len(words) == _WORDS


def _layer(words: list[str], where: str, found: TraceProblems) -> Layer:
    name, _, *parts, delay = words
    forward, inputs, weights = (
        _part(parts[3 * i : 3 * i + 3], "dp" if i == 2 else "tp", where, found) for i in range(3)
    )
    delay_ns = _number(delay, "the delay", where, found)
    delay_ns = found.bounded(delay_ns, LONGEST_NS, "the delay [ns]", where)
    return Layer(name, forward, inputs, weights, delay_ns)


def _part(words: list[str], family: str, where: str, found: TraceProblems) -> Part:
    compute, operation, size = words
    compute_ns = _number(compute, "a compute time", where, found)
    compute_ns = found.bounded(compute_ns, LONGEST_NS, "a compute time [ns]", where)
    if operation == "NONE":
        return Part(compute_ns, "", "", 0)
    size_bytes = _number(size, f"the size of {operation}", where, found)
    size_bytes = found.bounded(size_bytes, LARGEST_BYTES, f"the size of {operation}", where)
    bare = operation
    for suffix, named in _SUFFIXES.items():
        if operation.endswith(suffix):
            bare, family = operation.removesuffix(suffix), named
            break
    if bare not in OPERATIONS:
        how = did_you_mean(operation, OPERATIONS)
        found.add(f"the collective {operation!r} cannot be expressed", where, how)
    return Part(compute_ns, OPERATIONS.get(bare, ""), family, size_bytes)


def _families(header: Header) -> dict[str, GroupSet]:
    """The groups of every kind, with SimAI's numbering of ranks."""
    tp, ep, ranks = header.tp, header.ep, range(header.ranks)
    block = tp * ep  # neighbours that hold one copy of all experts
    made: dict[str, tuple[GroupKind, Any]] = {
        "tp": ("tp", [ranks[first : first + tp] for first in ranks[::tp]]),
        "dp": ("dp", [ranks[offset::tp] for offset in range(tp)]),
        "ep": ("ep", [ranks[first + t : first + block : tp] for first in ranks[::block]
                      for t in range(tp)]),
        "dp_ep": ("dp", [ranks[offset::block] for offset in range(block)]),
    }  # fmt: skip
    return {
        name: GroupSet(kind=kind, groups=tuple(tuple(group) for group in groups))
        for name, (kind, groups) in made.items()
        if len(groups[0]) > 1
    }


class _Program:
    """Builds the list of a rank's tasks."""

    def __init__(self, families: dict[str, GroupSet]) -> None:
        self._families = families
        self.tasks: list[Task] = []
        self._last: tuple[int, ...] = ()

    def run_through(self, layers: Sequence[Layer]) -> None:
        """Add all layers forward, then all of them backward."""
        for layer in layers:
            self._compute(layer.forward.compute_ns, layer.name)
            self._exchange(layer.forward, layer)
        for layer in reversed(layers):
            self._compute(layer.inputs.compute_ns, layer.name)
            self._exchange(layer.inputs, layer)
            self._compute(layer.weights.compute_ns, layer.name)
            before = self._last
            self._exchange(layer.weights, layer)
            self._last = before  # later tasks do not depend on it

    def _compute(self, duration_ns: int, name: str) -> None:
        if duration_ns:
            self._add(Task("compute", duration_ns, self._last, name=name))

    def _exchange(self, part: Part, layer: Layer) -> None:
        """Add a collective and the delay after it; nothing for one rank or no bytes."""
        if not part.operation or not part.size_bytes or part.family not in self._families:
            return
        size, family = part.size_bytes, part.family
        self._add(Task("collective", size, self._last, part.operation, family, name=layer.name))
        if layer.delay_ns:
            self._add(Task("wait", layer.delay_ns, self._last, name=layer.name))

    def _add(self, task: Task) -> None:
        self._last = (len(self.tasks),)
        self.tasks.append(task)
