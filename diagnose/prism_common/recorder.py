"""Reading dumps of PyTorch's flight recorder: what each rank had given to NCCL, and what was done.

A dump is a pickle of one rank (``nccl_trace_rank_3``), its JSON form, or a JSON object whose key
``ranks`` has the dumps of several. Of pickles, plain values only are read. The
format is that of torch/csrc/distributed/c10d (FlightRecorder), versions 2.x.

A pickle is a program of anybody. A small one is expensive if it fills a memo far beyond its size,
makes many empty containers, or shares a value so often that it is endless once written out. So its
instructions are counted before they run, and the value before it is used; nothing is imported.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from struct import calcsize
from typing import Any, NamedTuple

from prism_common.untrusted import parsed, real, whole

LARGEST = 256 << 20
"""Bytes of a dump that is read."""
_HEAD = 4096
_KEYS = {"entries", "pg_config", "pg_status"}
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_JSON = re.compile(rb'\s*\{.*?"(?:entries|pg_config|pg_status|nccl_version|ranks)"\s*:', re.DOTALL)
_ALL = re.compile(rb'\s*\{.*?"ranks"\s*:\s*\{', re.DOTALL)
_RANK = re.compile(r"(\d+)(?:\.\w+)?$")
_MOST_RANKS = 1 << 31
_NUMBER = re.compile(r"[0-9]{1,18}")
_WHAT = ("enqueued", "completed")
_FORMS = {"Double": "d", "Long": "q", "ComplexFloat": "q", "BFloat16": "e", "Half": "e",
             "Short": "h", **dict.fromkeys(("Byte", "Char", "Bool"), "b")}  # fmt: skip
"""A type of :mod:`struct` of the same size, for types of elements without four bytes."""
_PAIR = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")


class Call(NamedTuple):
    """An operation that a rank gave to NCCL.

    Attributes
    ----------
    group, number : name of the communicator, and number of the collective within it.
    operation : as ``all_reduce`` or ``recv 0<-3``; numbers of ranks are within the group.
    sizes : shapes of inputs and outputs, and types of elements, as text.
    done : whether it was completed.
    size_bytes : of what it receives.
    created_us, exec_us : when the rank gave it, by the clock of its host, and how long it took on
        the GPU; None if the recorder did not time it.
    """

    group: str
    number: int
    operation: str
    sizes: str
    done: bool
    size_bytes: int
    created_us: int
    exec_us: float | None

    @property
    def pair(self) -> tuple[str, int] | None:
        """Direction and partner (within the group) of a message; None for a collective."""
        match = _PAIR.match(self.operation)
        return (match[1], int(match[3])) if match else None


class Status(NamedTuple):
    """The numbers of the last operation that was given, and that was completed."""

    given: int
    done: int


@dataclass
class Dump:
    """What one rank recorded: members of its groups, calls, and the state of each group."""

    rank: int
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    status: dict[str, Status] = field(default_factory=dict)


class DumpError(Exception):
    """A file that should be a dump is none: the reason."""


def looks_like_dump(path: Path) -> bool:
    """Whether the first bytes are those of a pickle, or of JSON with the keys of a dump."""
    head = _head(path)
    return bool(_PICKLE.match(head) or _JSON.match(head))


def has_all_ranks(path: Path) -> bool:
    """Whether a file looks like the dumps of all ranks of a job."""
    return bool(_ALL.match(_head(path)))


def _head(path: Path) -> bytes:
    """The first bytes of a file; none of a pipe, which gives each of its bytes once."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as stream:
            return stream.read(_HEAD)
    except OSError:  # noted where its lines are read
        return b""


def read_dumps(path: Path) -> list[Dump]:
    """The dumps in a file.

    Raises
    ------
    DumpError : the file is broken, too large, or not a dump.
    """
    if path.stat().st_size > LARGEST:
        raise DumpError(f"larger than {LARGEST >> 20} MiB")
    data = path.read_bytes()
    try:
        content = unpickled(data) if _PICKLE.match(data) else _parsed(data)
    except ValueError as error:
        raise DumpError(str(error)) from None
    try:
        return [_dump(rank, one) for rank, one in _by_rank(content, path)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DumpError(f"no flight-recorder dump ({type(error).__name__}: {error})") from None


def _parsed(data: bytes) -> Any:
    content = parsed(data)
    check_values(content)
    return content


def _by_rank(content: Any, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rank and content of each dump; a file of one rank has its number at the end of its name."""
    if not isinstance(content, dict):
        raise TypeError(f"its content is a {type(content).__name__}")
    if isinstance(content.get("ranks"), dict):
        yield from ((whole(rank, 0, _MOST_RANKS), one) for rank, one in content["ranks"].items())
        return
    if not _KEYS & content.keys():
        raise KeyError("entries")
    match = _RANK.search(path.name)
    if match is None:
        raise ValueError("its name does not end with the number of its rank")
    yield whole(match[1], 0, _MOST_RANKS), content


def _dump(rank: int, content: dict[str, Any]) -> Dump:
    dump = Dump(rank)
    for key, config in (content.get("pg_config") or {}).items():
        name = str(config.get("name", key))
        ranks = config.get("ranks") or []
        ranks = parsed(ranks) if isinstance(ranks, str) else ranks
        dump.members[name] = tuple(whole(each, 0, _MOST_RANKS) for each in ranks)
        dump.names[name] = str(config.get("desc") or name)
    numbers = {}
    for entry in content.get("entries") or []:
        call = _call(entry, dump)
        dump.calls.append(call)
        numbers[str(entry.get("pg_id"))] = call.group
    states = content.get("pg_status") or {}
    for key, name in {**_by_order(states, dump), **numbers}.items():
        if state := states.get(key, states.get(int(key)) if _NUMBER.fullmatch(key) else None):
            given, done = (whole(state[f"last_{what}_collective"], -1) for what in _WHAT)
            dump.status[name] = Status(given, done)
    return dump


def _call(entry: dict[str, Any], dump: Dump) -> Call:
    group = entry.get("process_group") or [str(entry.get("pg_id")), ""]
    name = str(group[0])
    dump.names.setdefault(name, str(group[1] or name))
    number = entry.get("collective_seq_id", entry.get("seq_id"))
    done = entry.get("state") == "completed" or bool(entry.get("retired"))
    operation = str(entry["profiling_name"]).split(":", 1)[-1]
    sizes = [entry.get(key) for key in ("input_sizes", "output_sizes", "input_dtypes")]
    took_ms = entry.get("duration_ms")
    return Call(
        name, whole(number or 0), operation, json.dumps(sizes), done, _size_bytes(entry),
        whole(entry.get("time_created_ns") or 0) // 1000,
        None if took_ms is None else real(took_ms, 0.0) * 1000,
    )  # fmt: skip


def _size_bytes(entry: dict[str, Any]) -> int:
    """Bytes of all outputs; elements of a type that is not known are taken to have four."""
    sizes = [prod(whole(count) for count in shape) for shape in entry.get("output_sizes") or ()]
    types = [*map(str, entry.get("output_dtypes") or ()), *[""] * len(sizes)]
    return sum(n * calcsize(_FORMS.get(kind, "i")) for n, kind in zip(sizes, types, strict=False))


def _by_order(states: dict[Any, Any], dump: Dump) -> dict[str, str]:
    """Names of groups by their local numbers: both count groups in the order of creation."""
    names, keys = list(dump.members), [str(key) for key in states]
    if len(names) != len(keys) or not all(map(_NUMBER.fullmatch, names + keys)):
        return {}
    return dict(zip(sorted(keys, key=int), sorted(names, key=int), strict=True))


MOST_INSTRUCTIONS = 4_000_000
MOST_VALUES = 16_000_000
"""Values, with each of a shared one's, and a piece of text for each :data:`_PIECE` characters."""
_DEEPEST, _PIECE = 64, 64
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
_BROKEN = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError,
    OverflowError, MemoryError,
)  # fmt: skip


class PickleError(ValueError):
    """A pickle is broken, too large, or has more than plain values: the reason."""


def unpickled(data: bytes) -> Any:
    """Return the value of a pickle.

    Raises
    ------
    PickleError : it is broken, too large, or has more than plain values.
    """
    try:
        for count, (code, place, _) in enumerate(pickletools.genops(data), 1):
            beyond = code.name in _PUTS and not 0 <= int(place or 0) < count
            if count > MOST_INSTRUCTIONS or beyond:
                raise PickleError(f"a pickle whose memo or length exceeds {count} instructions")
        value = _PlainOnly(io.BytesIO(data)).load()
    except PickleError:
        raise
    except _BROKEN as error:
        raise PickleError(f"a broken pickle ({error or type(error).__name__})") from None
    check_values(value)
    return value


class _PlainOnly(pickle.Unpickler):
    """Builds no objects: whatever a pickle would import is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}; only plain types are read")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside")


def check_values(value: Any) -> None:
    """Refuse a value that contains itself, is nested too deep, or has too many values in all.

    Raises
    ------
    PickleError : it does.
    """
    _size(value, 0, {})


def _size(one: Any, depth: int, sizes: dict[int, int]) -> int:
    if isinstance(one, str | bytes):
        return 1 + len(one) // _PIECE
    if not isinstance(one, dict | list | tuple | set | frozenset):
        return 1
    if depth > _DEEPEST or sizes.get(id(one)) == 0:
        raise PickleError("values that are nested too deep, or contain themselves")
    if id(one) not in sizes:
        sizes[id(one)] = 0
        parts = [*one, *one.values()] if isinstance(one, dict) else one
        sizes[id(one)] = 1 + sum(_size(part, depth + 1, sizes) for part in parts)
    if sizes[id(one)] > MOST_VALUES:
        raise PickleError(f"more than {MOST_VALUES} values, most of them shared")
    return sizes[id(one)]
