"""What the name of a counter says: its direction, what it counts, and where.

Exporters build names from the same words: ``ifHCInOctets``, ``SAI_PORT_STAT_IF_IN_OCTETS``,
``rx_bytes_phy``, ``infiniband_portxmitdata_total``. A name is divided into these words. Switches
say *in* and *out*; hosts and InfiniBand say *rx* and *tx*, and mean the NIC. A name with any other
word counts something else (one queue, one priority, multicast) and is not used.

``data`` without ``bytes`` counts words of 4 bytes (InfiniBand Architecture Specification 1,
PortCounters). A name is one hypothesis only: :mod:`llmprism.counters.hypotheses` compares the
values with the links.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from llmprism.counters.readings import NIC, Side, Unit, mirrored
from prism_common.errors import Problem, UserError

_ROWS = tomllib.loads((files(__package__) / "names.toml").read_text(encoding="utf-8"))
_DIRECTIONS: dict[str, tuple[str, Side]] = {
    word: (way, side)
    for side, ways in _ROWS["directions"].items()
    for way, words in ways.items()
    for word in words.split()
}
_QUANTITIES: dict[str, str] = _ROWS["quantities"]
PLACES: dict[str, list[str]] = {ours: row.split() for ours, row in _ROWS["places"].items()}
WALKED: dict[str, list[str]] = {ours: row.split() for ours, row in _ROWS["walked"].items()}
LINES: dict[str, str] = _ROWS["lines"]
OIDS: dict[str, str] = _ROWS["oids"]
HEADS: dict[str, str] = _ROWS["heads"]
SAMPLES: list[str] = [*_ROWS["samples"].values()]
_SAME = frozenset({"ecn_marks", "pause_frames", "link_downs"})  # they need no direction
_VOCABULARY = sorted(
    {*_DIRECTIONS, *" ".join(_QUANTITIES.values()).split(), *_ROWS["others"]["words"].split()},
    key=len,
    reverse=True,
)
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_RATE = re.compile(
    r"\w*rates?|\w*bps|\w*speed|ratio|util\w*|percent\w*|\w*persec(ond)?|[kmg]bits?|throughput|"
    r"bandwidth"
)
_PER_SECOND = re.compile(r"(?<![a-z])per[ _]?s(ec(ond)?)?\b|(b|bits?|bytes?)/s", re.IGNORECASE)
_TIME = re.compile(PLACES["time"][0])
WHY_NO_RATES = (
    "rates leave out what was between two readings, and hide resets and holes; export the counters"
    " themselves (ifHCInOctets and ifHCOutOctets, in-octets and out-octets)"
)


class Meaning(NamedTuple):
    """What a counter is: our column, the unit of its bytes, and its name without a direction."""

    column: str
    unit: Unit
    family: str


@lru_cache(1 << 12)
def plain(name: str) -> str:
    """A name without case and separators, and without the path before it.

    >>> plain("/interfaces/interface/state/counters/in-octets"), plain("ifHCInOctets")
    ('inoctets', 'ifhcinoctets')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower().rsplit("/", 1)[-1].rsplit(":", 1)[-1])


def is_time(name: str) -> bool:
    """Whether a name is that of the time of a reading.

    >>> [is_time(name) for name in ("counterRefreshTime", "time_ms", "StartTimeUnix", "uptime")]
    [True, True, False, False]
    """
    return bool(_TIME.fullmatch(plain(name)))


def port_above(path: str) -> str:
    """The port in a path before a counter: its last element that is no word in between.

    >>> port_above("/sys/class/infiniband/mlx5_0/ports/1/counters"), port_above("COUNTERS/Eth4")
    ('mlx5_0/1', 'Eth4')
    """
    found = [one for one in path.split("/") if one.lower() not in ("", *WALKED["around"])]
    last = -2 if found[-1:] and found[-1].isdecimal() else -1
    return re.sub(r"^[A-Z_]+:", "", "/".join(found[last:]))


@lru_cache(1 << 12)
def meaning_of(name: str, side: Side | None = None) -> Meaning | None:
    """What a counter's name says, as the switch sees it; None if it is no counter we use.

    ``side`` is where the exporter is, if the name does not decide it.

    >>> meaning_of("ifHCInOctets"), meaning_of("port_xmit_data")
    (Meaning(column='in_bytes', unit='bytes', family='if hc octets'), Meaning(column='in_bytes', \
unit='words', family='port data'))
    >>> meaning_of("rx_prio3_bytes"), meaning_of("in_bytes", "nic").column
    (None, 'out_bytes')
    """
    if is_rate(name):
        return None
    words = [word for piece in _pieces(name) for word in _words(piece)]
    if not {*words} <= {*_VOCABULARY}:
        return None
    quantity = next((q for q, of in _QUANTITIES.items() if {*of.split()} & {*words}), "")
    directions = [word for word in words if word in _DIRECTIONS]
    if quantity in _SAME:
        return Meaning(quantity, "bytes", "")
    if not quantity or len(directions) != 1 or "prio" in words:
        return None
    way, usual = _DIRECTIONS[directions[0]]
    unit: Unit = "words" if quantity == "words" else "bits" if quantity == "bits" else "bytes"
    column = f"{way}_{'bytes' if quantity in ('bits', 'words') else quantity}"
    family = " ".join(word for word in words if word not in directions)
    return Meaning(mirrored(column) if (side or usual) == NIC else column, unit, family)


def _pieces(name: str) -> list[str]:
    """The parts of a name between separators and changes of case, without the path before it."""
    return [one.lower() for one in _PIECE.findall(name.rsplit("/", 1)[-1].rsplit(":", 1)[-1])]


def _words(piece: str) -> Iterator[str]:
    """The longest known words of a piece, one after the other; an unknown rest is one as well."""
    while piece:
        word = next((one for one in _VOCABULARY if piece.startswith(one)), piece)
        yield word
        piece = piece[len(word) :]


def is_rate(name: str) -> bool:
    """Whether a name, or a value with its unit, is that of a rate.

    >>> [is_rate(text) for text in ("instance:ifHCInOctets:rate5m", "2.9 GB/s", "ifHCInOctets")]
    [True, True, False]
    """
    return any(map(_RATE.fullmatch, _pieces(name))) or bool(_PER_SECOND.search(name))


def refuse_rates(names: Iterable[str], where: str) -> None:
    """Refuse an input that has rates and no counters.

    Raises
    ------
    UserError : one of the names is that of a rate.
    """
    rates = sorted(name for name in names if is_rate(name))
    if rates:
        what = f"{', '.join(rates[:3])}: rates, and no counters of bytes"
        raise UserError(Problem(what, where, WHY_NO_RATES))
