"""Links and neighbours in any document: JSON, tables and blocks of text, and lines with two ends.

An object of JSON, a row of a table or a block of ``name: value`` is one link. The words in its keys
tell of which end a value is, and whether it is the device, the port, an address or a role; they
are in ``ends.toml``. So the neighbours of ``lldpcli -f json``, SONiC, EOS, NX-OS, Junos, napalm,
OpenConfig and SNMP are read alike, and lists of cables of NetBox, Apstra, Batfish and RFC 8345.

A link has two ends, or one: what a device reports of the device at the other end. Then the file is
called by the device that reports (``leaf1.json``). The media type that ``lldpcli`` prints is not
taken for a rate: many switches report a wrong one.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from llmprism.io.notes import Notes
from llmprism.network.parts import SERVERS, SWITCHES, Neighbour, Parts, plain_name
from prism_common.errors import Problem, UserError
from prism_common.untrusted import OutsideError, parsed

NAMELESS = "LLDP neighbour without a name"
_ROWS = tomllib.loads((files(__package__) / "ends.toml").read_text(encoding="utf-8"))
_SIDES, _KINDS, _ROLES = (
    {word: name for name, words in _ROWS[table].items() for word in words.split()}
    for table in ("sides", "kinds", "roles")
)
_NAMES, _LISTS = (_ROWS["names"][name].split() for name in ("names", "lists"))
_LINES = [re.compile(line) for line in _ROWS["lines"].values()]
_OWN, _OTHER = "own", "other"
_DEEPEST = 16
_ENDINGS = re.compile(r"(\.(json|txt|log|out|lldp))+$")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_JSON = re.compile(r"\s*[\[{]\s*[\[{\]}\"]")
_MAC = re.compile(r"(?:[0-9a-f]{2}[: -]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}", re.I)
_PORT = re.compile(r"(?:[A-Z_]+:)?([A-Za-z][\w/.:-]*\d)")
_BITS = re.compile(r"([0-9A-F]{2}) [0-9A-F]{2}\b.*", re.IGNORECASE)
_FORWARDS = 0x28  # bridge and router in the first byte of the capabilities
_HEAD = re.compile(r"(?:Switch: 0x\w+|CA:|RT:) (.+):")
_OID = re.compile(
    r"(?:[\w-]+::)?(lldpRem\w+)\.\d+\.(\d+)\.\d+ = (?:[A-Za-z-]+: )?\"?(.*?)\"?$", re.MULTILINE
)


class _End(NamedTuple):
    """What is known of an end; ``ports`` and ``addresses`` in the order of the document."""

    device: str
    ports: Sequence[str]
    roles: Sequence[Any]
    addresses: Sequence[str] = ()

    @property
    def port(self) -> str:
        """The name of the port rather than its hardware address or its number."""
        order = sorted(self.ports, key=lambda one: (bool(_MAC.fullmatch(one)), one.isdigit()))
        return next(iter(order), "")


@dataclass
class _Found:
    """The links of a document, and what it says elsewhere of devices and ports."""

    links: list[tuple[_End, _End, float | None]] = field(default_factory=list)
    nameless: int = 0
    device: str = ""
    roles: dict[str, bool | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)


def recognises(text: str, _name: str) -> bool:
    """Whether a text has links or neighbours."""
    with suppress(OutsideError):
        return '"lldp"' in text or bool(_found(text).links)
    return False


def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the links of a document, or the neighbours of the device whose name the file has."""
    try:
        found = _found(text)
    except OutsideError as error:
        raise UserError(Problem(str(error), where)) from error
    if not (found.links or found.nameless):
        how = "print lldpcli show neighbors -f json, or a CSV of cables (server, address, switch)"
        raise UserError(Problem("no neighbours of LLDP, and no links", where, how))
    notes.drop(NAMELESS, found.nameless)
    device = found.device or _ENDINGS.sub("", Path(where).name)
    reports = (one for link in found.links for one in _reports(found, *link, device))
    return Parts(neighbours=[*dict.fromkeys(reports)])  # both ends may list a link


def _reports(
    found: _Found, own: _End, other: _End, gbps: float | None, device: str
) -> Iterator[Neighbour]:
    """What the ends report of each other; one end that nobody names is the device of the file.

    Of two ends, one whose role is unknown does not report a switch: it may be a server.
    """

    own, other = (
        end._replace(device=found.names.get(end.device, end.device)) for end in (own, other)
    )
    known = [found.roles.get(end.device, _forwards(end.roles)) for end in (own, other)]
    if not own.device:
        gbps = found.rates.get(own.port, gbps)
    else:
        for k, end in enumerate((own, other)):
            if known[k] is None and (SWITCHES.search(end.device) or SERVERS.search(end.device)):
                known[k] = bool(SWITCHES.search(end.device))
    pairs = ((own, other, known[0], known[1]), (other, own, known[1], known[0]))
    for one, two, role, of_two in pairs if own.device else pairs[:1]:
        if not own.device or role is not None or not of_two:
            address = _address_of(two.addresses)
            yield Neighbour(
                one.device or device, one.port, two.device, two.port, address, of_two, gbps
            )


_Value = tuple[str, str, int, Any]
"""Side (own, other or unknown), kind (device, port, ...), rank (0 is the surest) and value."""


@lru_cache(1)
def _found(text: str) -> _Found:
    found = _Found()
    if _JSON.match(text):
        content = parsed(text)
        if not (isinstance(content, dict) and isinstance(content.get("endpoints"), list)):
            _walk(content, "", found, _DEEPEST)
    else:
        for row in (*_blocks(text), *_tables(text)):
            _take(row, "", found)
        found.links += _of_lines(text)
    return found


def _walk(node: Any, port: str, found: _Found, depth: int, above: str = "") -> None:
    """Take all links below a node; ``port`` is named by a key, or an interface, around it."""
    if isinstance(node, list) and depth:
        for one in node:
            _walk(one, port, found, depth - 1, above)
    if not isinstance(node, dict) or not depth:
        return
    node = {key: _leaf(value, key) for key, value in node.items()}
    if _take(node, port, found):
        return
    own = str(node.get("name") or "") if above.startswith("interface") else ""
    for key, value in node.items():
        named = _PORT.fullmatch(key) or _PORT.fullmatch(own)
        _walk(value, named[1] if named else port, found, depth - 1, key)


def _leaf(value: Any, key: str = "") -> Any:
    """A value, also where it is written as an object or as a list of one; a chassis by its name."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return value
    if key == "chassis" and "id" not in value and len(value) == 1:
        ((name, inner),) = value.items()
        return {"name": name, **inner} if isinstance(inner, dict) else value
    return next((value[one] for one in ("value", "data") if one in value), value)


def _take(node: dict[str, Any], port: str, found: _Found) -> bool:
    """Take what an object says of a link, if it is one; else of a device or of a port."""
    values = sorted(_values(node, ()), key=lambda one: one[2])
    name = next((str(value) for side, kind, _, value in values if not side and not kind), "")
    rates = [gbps for _, kind, _, value in values if kind == "rate" and (gbps := _gbps(str(value)))]
    own, other = _ends(values)
    if not (own.device or other.device) and port:
        other, name = other._replace(device=name), ""
    near = (name if other.ports or own.device else "", port)
    own = own._replace(ports=[*own.ports, *(one for one in near if _PORT.fullmatch(one))])
    if own.device and not other.device and len(own.ports) < 2:
        own, other = other, own
    says_end = other.ports or "chassis" in node or any(one[0] for one in values)
    if other.device and (own.device or (own.ports and says_end)):
        found.links.append((own, other, next(iter(rates), None)))
        return True
    if (other.ports and port) or "chassis" in node:
        found.nameless += 1
        return True
    if port and rates:
        found.rates[port] = rates[0]
    found.device = str(node.get("hostname") or found.device)
    if identity := str(node.get("id") or other.device or name):
        found.names.setdefault(identity, name or other.device or identity)
        found.roles.setdefault(identity, _forwards(other.roles))
    return False


def _ends(values: Sequence[_Value]) -> tuple[_End, _End]:
    """Both ends of a link, of what an object says; what names no end is of the one without words.

    A role that names no end is of the other one, unless that has its own.
    """
    sides = {side for side, kind, _, _ in values if side and kind in ("device", "port", "")}
    unsided = _OWN if _OTHER in sides else _OTHER
    of_other = _OTHER if ("role" not in {one[1] for one in values if one[0] == _OTHER}) else unsided
    found = []
    for end in (_OWN, _OTHER):
        own: dict[str, list[Any]] = defaultdict(list)
        for side, kind, rank, value in values:
            if end == (side or (of_other if kind == "role" else unsided)) and (side or kind):
                is_port = kind == "port" or (rank and not kind)
                own["port" if is_port else kind or "device"].append(value)
        devices = (str(one).split("|")[0] for one in own["device"] if not _MAC.fullmatch(str(one)))
        found.append(_End(next(devices, ""), own["port"], own["role"], own["address"]))
    return found[0], found[1]


def _values(node: Any, path: tuple[str, ...]) -> Iterator[_Value]:
    """Side, kind, rank and value of all that an object says itself."""
    for key, raw in node.items():
        value, words = _leaf(raw, str(key)), _words_of(str(key))
        above = (*path, *words)
        side = next((_SIDES[word] for word in above if word in _SIDES), "")
        kinds = [_KINDS[word] for word in above if word in _KINDS]
        kind = "nothing" if "nothing" in kinds else kinds[-1] if kinds else ""
        if kind == "role":
            yield side, kind, "enabled" not in above and "enable" not in above, value
        elif isinstance(value, dict):
            if {*words} <= {*_KINDS, *_SIDES} or not _PORT.fullmatch(str(key)):
                yield from _values(value, above)
        elif words[-1:] and words[-1] in _LISTS and isinstance(value, list) and len(value) == 2:
            for end, one in zip((_OWN, _OTHER), value, strict=True):
                yield from _values(one if isinstance(one, dict) else {"": one}, (end, *above))
        else:
            rank = _rank(words, kind) if side or kind or not path else None
            for one in value if isinstance(value, list) else [value]:
                text = "" if isinstance(leaf := _leaf(one), dict | list) else str(leaf)
                if rank is not None and kind != "nothing" and text not in ("", "-", "None"):
                    yield side, kind, rank, text


def _words_of(key: str) -> list[str]:
    """The words of a key; numbers count where they are those of a device or of a port."""
    words = [one.lower() for one in _WORD.findall(key)]
    return [one for one in words if not one.isdigit() or {*words} & {*_KINDS}]


def _rank(words: Sequence[str], kind: str) -> int | None:
    """How surely a value is a name, 0 first; None if its last word says that it is none."""
    last = next((word for word in reversed(words) if not word.isdigit()), "")
    if (kind == "device" and last.startswith("desc")) or last in ("", *_KINDS, *_SIDES):
        return None if last.startswith("desc") else 0
    return _NAMES.index(last) + (not kind) if last in _NAMES else None


def _gbps(text: str) -> float | None:
    """A rate [Gbit/s]; a number without a unit is in Mbit/s, kbit/s or bit/s, by its size."""
    number = re.match(r"(\d+)\s*([Gg]?)", text)
    units = (1.0,) if number and number[2] else (1e3, 1e6, 1e9)
    rates = (int(number[1]) / unit for unit in units if number)
    return next((rate for rate in rates if 1 <= rate < 1000), None)


def _forwards(roles: Iterable[Any]) -> bool | None:
    """Whether a device calls itself a bridge or router; None if it does not tell."""
    kinds = ({_ROLES[one] for one in _words(role) if one in _ROLES} for role in roles)
    return next(("forwards" in one for one in kinds if one), None)


def _words(role: Any) -> set[str]:
    """The words of a role: a text, letters, bits, or objects of what is enabled."""
    if isinstance(role, dict):
        typed = [role["type"]] if "type" in role and role.get("enabled") else []
        role = typed if "type" in role else [key for key, on in role.items() if on]
    if isinstance(role, list):
        return {word for one in role for word in _words(one)}
    text = str(role).strip().lower().replace("-", "_")
    if bits := _BITS.fullmatch(text):
        return {"router" if int(bits[1], 16) & _FORWARDS else "other"}
    found = {text.replace(" ", "_"), *re.split(r"[, ]+", text)}
    return {*text} if len(text) < 5 and str(role).isupper() and not found & {*_ROLES} else found


def _address_of(texts: Sequence[str]) -> str:
    """Return the first address that is not of one link only; empty if there is none."""
    for text in (one for given in texts for one in given.split(",")):
        try:
            address = ipaddress.ip_address(text.strip())
        except ValueError:
            continue
        if not address.is_link_local and not address.is_unspecified:
            return str(address)
    return ""


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """Blocks of ``name: value`` that have a local port, and rows of a walk over LLDP-MIB."""
    walked: dict[str, dict[str, str]] = {}
    for one in _OID.finditer(text):
        walked.setdefault(one[2], {"local port": one[2]})[one[1]] = one[3]
    yield from walked.values()
    blocks: list[dict[str, str]] = [{}]
    for line in text.splitlines():
        key, mark, value = (one.strip() for one in line.partition(": "))
        if mark and key in blocks[-1]:
            blocks.append({})
        if mark and value:
            blocks[-1][key] = value
    yield from (one for one in blocks if "local" in " ".join(one).lower())


def _tables(text: str) -> Iterator[dict[str, str]]:
    """Rows of the tables in a text, whose cells are divided by marks or begin below their names.

    A long name may be on a line of its own, before the other cells.
    """
    head: list[str] = []
    starts: list[int] = []
    alone = ""
    for line in text.splitlines():
        mark = next((one for one in "|,;\t" if line.count(one) > 1), "")
        if mark:
            cells = [one.strip(' "') for one in line.split(mark)]
        elif len(line.split()) == 1:
            alone = line.strip()
            continue
        else:
            is_row = all(line[at - 1 : at] in ("", " ") for at in starts[1:])
            ends = zip(starts, [*starts[1:], None], strict=False)
            cells = [line[low:high].strip() for low, high in ends] if is_row else []
        if head and len(cells) == len(head) and line.strip("-+=| "):
            yield dict(zip(head, [cells[0] or alone, *cells[1:]], strict=True))
            alone = ""
            continue
        names = cells if mark else re.split(r"\s{2,}", line.strip())
        if len(names) > 2 and _take(dict.fromkeys(filter(None, names), "x1"), "", _Found()):
            head = names
            starts = [] if mark else [one.start() for one in re.finditer(r"\S+(?: \S+)*", line)]


def _of_lines(text: str) -> Iterator[tuple[_End, _End, float | None]]:
    """Links of InfiniBand tools, of DOT and of GraphML, one a line."""
    head = ""
    for line in text.splitlines():
        head = named[1] if (named := _HEAD.match(line)) else head
        link = next((match.groupdict() for one in _LINES if (match := one.fullmatch(line))), {})
        own, other = (_of_line(link, end, head) for end in "ab")
        if link and own.device and other.device:
            yield own, other, None


def _of_line(own: Mapping[str, str | None], end: str, head: str) -> _End:
    """An end of a link; an adapter of InfiniBand is called by its server and its own name."""
    name, kind = own.get(end) or head, own.get(f"{end}_kind") or ""
    words = name.replace("'", "").split()
    if kind in ("CA", "") and len(words) == 2:
        return _End(words[0], [words[1]], ["ca"])
    return _End(plain_name(name), [own.get(f"{end}_port") or ""], [kind])
