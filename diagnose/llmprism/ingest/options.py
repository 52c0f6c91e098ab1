"""How to read: what the user says about the sources, checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from llmprism.ingest.starts import ExporterMemory
from prism_common.errors import Problem, UserError

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATIONS_NS = UNITS_NS | {
    one: n * UNITS_NS["s"] for one, n in (("m", 60), ("h", 3_600), ("d", 86_400))
}
_SIZES = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (0, 10**9))
"""From which number on a time since 1970 is in units of so many ns."""
DEFAULT_IDLE_GAP_NS = 5_000_000
"""A few round trips of a training network; real captures are cut right at 1 to 10 ms."""
DEFAULT_TOLERANCE_NS = 2_500_000
"""Half of the idle gap: records of one point are further apart."""
DEFAULT_ACTIVE_TIMEOUT_NS = 60 * 1_000_000_000
_SEPARATORS = {
    "tab": "\t", "\\t": "\t", "space": " ", "spaces": " ", "comma": ",", "semicolon": ";",
}  # fmt: skip
_LONGEST_NS = 2**61


@dataclass(frozen=True)
class Options:
    """How sources are to be read.

    Attributes
    ----------
    mapping : for tables, the source's column of each of ours (``src``: ``srcaddr``).
    time_unit : of numeric times in tables: s, ms, us, ns; None: by their names or size.
    separator : of the columns of a table of text; a space stands for any number of them.
    idle_gap_ns, active_timeout_ns : how packets are cut into records [ns].
    sampling : one packet in this many was captured; counts of packets are scaled by it.
    tolerance_ns : how far apart the clocks of observation points may be [ns].
    points : names of observation points by what the sources call them.
    homes : the switch of each address, where the network is described.
    exporters : what is known of exporters from files before; None: each file is on its own.
    from_ns, to_ns : records that start before or at and after these times are left out [ns].
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    time_unit: str | None = None
    separator: str | None = None
    idle_gap_ns: int = DEFAULT_IDLE_GAP_NS
    active_timeout_ns: int = DEFAULT_ACTIVE_TIMEOUT_NS
    sampling: int = 1
    tolerance_ns: int = DEFAULT_TOLERANCE_NS
    points: Mapping[str, str] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    from_ns: int | None = None
    to_ns: int | None = None
    exporters: ExporterMemory | None = None


def parse_duration(text: str, option: str) -> int:
    """Return a duration such as ``5ms`` or ``2h`` in nanoseconds; without a unit, seconds.

    >>> parse_duration("5ms", "--idle-gap"), parse_duration("1.5", "--idle-gap")
    (5000000, 1500000000)
    >>> [parse_duration(text, "--window") // 10**9 for text in ("5m", "2h", "1d")]
    [300, 7200, 86400]
    """
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*(ns|us|ms|s|m|h|d|)\s*", text)
    length = round(float(found[1]) * _DURATIONS_NS[found[2] or "s"]) if found else 0
    if not 0 < length <= _LONGEST_NS:
        what = f"{text!r} is no duration above zero and below 73 years"
        raise UserError(Problem(what, option, "write it as 5ms, 60s, 10m or 2h"))
    return length


def parse_separator(text: str) -> str:
    r"""Return one character that separates columns, from it or its name.

    >>> parse_separator("tab"), parse_separator(";")
    ('\t', ';')
    """
    found = _SEPARATORS.get(text.lower(), text)
    if len(found) != 1 or found in '\r\n"\0' or not found.isascii():
        how = "write one character, or tab or space"
        raise UserError(Problem(f"{text!r} separates no columns", "--separator", how))
    return found


def parse_time(text: str, option: str) -> int:
    """Return a point in time, ISO 8601 (UTC unless it says otherwise) or seconds, in ns.

    >>> parse_time("1970-01-01T00:00:02", "--from"), parse_time("2.5", "--from")
    (2000000000, 2500000000)
    """
    found = moment_of(text)
    if found is None:
        how = "write it as 2026-03-01T12:00:00 (UTC) or as seconds since 1970"
        raise UserError(Problem(f"{text!r} is no point in time", option, how))
    return found


def parse_window(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The times of ``--from`` and ``--to`` [ns]; None where they are left out."""
    first, last = (
        parse_time(text, option) if text else None
        for option, text in (("--from", since), ("--to", until))
    )
    return first, last


def moment_of(value: object, unit: str | None = None) -> int | None:
    """A time in ns from a number, in ``unit`` or by its size, or from text in ISO 8601.

    >>> moment_of("1700000000.5"), moment_of(1700000000500), moment_of("2023-11-14 22:13:20.5")
    (1700000000500000000, 1700000000500000000, 1700000000500000000)
    """
    text = str(value)
    if found := re.fullmatch(r"(\d{1,19})(?:\.(\d{1,12})\d*)?", text):
        number = int(found[1])
        factor = UNITS_NS[unit] if unit else next(f for size, f in _SIZES if number >= size)
        return number * factor + int((found[2] or "").ljust(12, "0")) * factor // 10**12
    try:
        moment = datetime.fromisoformat(re.sub(r"[.,](\d{6})\d*", r".\1", text))
    except ValueError:
        return None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(
        1970, 1, 1, tzinfo=UTC
    )
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


def parse_pairs(text: str, option: str) -> dict[str, str]:
    """Return ``a=b,c=d`` as a dictionary.

    >>> parse_pairs("src=srcaddr,dst=dstaddr", "--map")
    {'src': 'srcaddr', 'dst': 'dstaddr'}
    """
    pairs = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = (side.strip() for side in part.partition("="))
        if not (name and equals and value):
            what = f"{part!r} is no pair"
            raise UserError(Problem(what, option, "write it as NAME=VALUE,NAME=VALUE"))
        pairs[name] = value
    return pairs
