"""Which column of a table is which of ours, and in which unit its times are.

Each of our columns has names under which it is commonly found; ``--map`` says otherwise. Names are
compared without case and separators, so that ``src_addr``, ``SrcAddr`` and ``src-addr`` are one.
The name of a time may end with its unit (``start_ms``, ``TimeFlowStartNs``, ``duration_us``). Of a
path such as ``jsonPayload.connection.src_ip``, the last parts suffice, if no other path ends so.

``bytes_back`` and ``packets_back`` are those of the other direction, for flows that have both.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files

from prism_common.errors import Problem, UserError

COMMON: dict[str, str] = tomllib.loads(
    (files(__package__) / "columns.toml").read_text(encoding="utf-8")
)
"""Names of each column, the most certain ones first."""
OURS = tuple(name.removesuffix("_ns") for name in COMMON)
"""What ``--map`` can name."""
_TIMES = ("start_ns", "end_ns", "duration")
_NEEDED = ("start_ns", "src", "dst", "bytes")
_OF_A_LINE = ("time", "timestamp")
_BEGINS = {"start", "first", "begin"}
_LISTED = 30
_UNITS = {
    "ns": "ns nsec nsecs nanos nanosec nanosecond nanoseconds",
    "us": "us usec usecs micros microsec microsecond microseconds",
    "ms": "ms msec msecs millis millisec millisecond milliseconds",
    "s": "s sec secs second seconds",
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_REGISTRY = "iana:"  # before names of information elements, in JSON of ipfixcol2
_FINEST_FIRST = ("ns", "us", "ms", None, "s")


def unit_in(name: str) -> str | None:
    """Return the unit that the name of a time ends with: s, ms, us or ns.

    >>> unit_in("TimeFlowStartNs"), unit_in("duration (ms)"), unit_in("durationms"), unit_in("ts")
    ('ns', 'ms', 'ms', None)
    """
    return _divided(name)[1]


def _divided(name: str) -> tuple[str, str | None]:
    """Return the name of a time without its unit, folded, and the unit."""
    words = _words(name)
    if len(words) > 1 and words[-1] in _UNIT_OF:
        return "".join(words[:-1]), _UNIT_OF[words[-1]]
    whole = "".join(words)
    for word, unit in _UNIT_OF.items():
        base = whole.removesuffix(word)
        if len(word) > 1 and base != whole and base in _TIME_NAMES:
            return base, unit
    return whole, None


def _words(name: str) -> list[str]:
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name.removeprefix(_REGISTRY))
    return re.findall(r"[^\W_]+", apart.lower())


def _folded(name: str) -> str:
    return "".join(_words(name))


_TIME_NAMES = {_folded(name) for ours in _TIMES for name in COMMON[ours].split()}


def choose(
    names: Iterable[str], mapping: Mapping[str, str], time_unit: str | None, where: str
) -> dict[str, str]:
    """Return the source's column for each of ours that it has.

    Parameters
    ----------
    mapping : the source's column of some of ours, as ``--map`` says.
    time_unit : of numeric times, as ``--time-unit`` says.

    Raises
    ------
    UserError : for a mapping to or from a column that does not exist, for each column that is
        needed and not found, for a time whose name has another unit than ``time_unit``, and for
        the time of a line beside one that may be the start of its flow.
    """
    present = list(names)
    problems = []
    chosen = {}
    for ours in COMMON:
        wanted = _mapped(ours, mapping)
        if wanted is not None and wanted not in present:
            how = f"its columns: {_listed(present)}"
            problems.append(Problem(f"there is no column {wanted!r}", where, how))
        found = wanted or _common(ours, present)
        if found is not None:
            chosen[ours] = found
    if _mapped("duration", mapping) and not _mapped("end_ns", mapping):
        chosen.pop("end_ns", None)
    for ours in mapping:
        if ours not in COMMON and f"{ours}_ns" not in COMMON:
            how = f"known: {', '.join(OURS)}"
            problems.append(Problem(f"there is no column {ours!r} to map to", "--map", how))
    problems += _missing(present, chosen, where)
    problems += _contradictions(chosen, time_unit, where)
    start = chosen.get("start_ns", "")
    others = [name for name in present if _BEGINS & {*_words(name)}]
    if others and not _mapped("start_ns", mapping) and _folded(start) in _OF_A_LINE:
        what = f"{start!r} may be the time of a line, and {others[0]!r} the start of a flow"
        problems.append(Problem(what, where, f"say which: --map start={others[0]}"))
    if problems:
        raise UserError(problems)
    return chosen


def _mapped(ours: str, mapping: Mapping[str, str]) -> str | None:
    return mapping.get(ours, mapping.get(ours.removesuffix("_ns")))


def _common(ours: str, present: list[str]) -> str | None:
    """Return the column with one of the common names of ours; of a time, in the finest unit."""
    found: dict[tuple[str, str | None], str] = {}
    for ending, name in [*_endings(present), *((name, name) for name in reversed(present))]:
        found[_divided(ending) if ours in _TIMES else (_folded(ending), None)] = name
    return next(
        (
            found[_folded(name), unit]
            for name in COMMON[ours].split()
            for unit in _FINEST_FIRST
            if (_folded(name), unit) in found
        ),
        None,
    )


def _endings(present: list[str]) -> list[tuple[str, str]]:
    """Return the last parts of paths that are those of one path only, and that path."""
    paths: dict[str, list[str]] = {}
    for name in present:
        rest = name.partition(".")[2]
        while rest:
            paths.setdefault(rest, []).append(name)
            rest = rest.partition(".")[2]
    return [(ending, names[0]) for ending, names in paths.items() if len(names) == 1]


def _missing(present: list[str], chosen: Mapping[str, str], where: str) -> list[Problem]:
    missing = [ours.removesuffix("_ns") for ours in _NEEDED if ours not in chosen]
    if not missing:
        return []
    what = f"no column was found for {', '.join(map(repr, missing))}"
    how = f"name it: --map {','.join(f'{ours}=COLUMN' for ours in missing)}; its columns: "
    return [Problem(what, where, how + _listed(present))]


def _contradictions(
    chosen: Mapping[str, str], time_unit: str | None, where: str
) -> Iterable[Problem]:
    for ours in _TIMES:
        unit = unit_in(chosen[ours]) if ours in chosen else None
        if unit and time_unit and unit != time_unit:
            what = (
                f"column {chosen[ours]!r} is in {unit} by its name, and --time-unit is {time_unit}"
            )
            yield Problem(what, where, "leave out --time-unit, or rename the column")


def recognised(names: Iterable[str]) -> set[str]:
    """Return those of our columns that a table has under a common name."""
    present = list(names)
    return {ours for ours in COMMON if _common(ours, present)}


def unused(present: Iterable[str], chosen: Mapping[str, str]) -> str:
    """Return a remark on the columns that are not used; empty if all are."""
    rest = [name for name in present if name not in chosen.values()]
    return f"columns that are not used: {_listed(rest)}" if rest else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
