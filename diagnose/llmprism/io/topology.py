"""The physical network: addresses, servers, switches and links.

``topology.json`` is read once, checked as a whole, and turned into arrays. The order of its
endpoints gives every address its number (*endpoint code*), which all stages use instead of
names: a diagnosis then cannot depend on the names of hosts.

Endpoints of one server and NIC that differ in their ``port`` are one NIC: all their addresses have
one code, and the first of them names it. Servers of one ``domain`` share NVLink: what they send to
each other leaves no record, as what is sent inside a server.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llmprism.io.sources import read_text
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import components
from prism_common.errors import Problem, UserError

_LIMIT_BYTES = 1 << 29  # a million endpoints with their links take about half of this
_RARE = ("port", "domain", "plane")
_LISTED = 50  # problems in one message; the others are counted
_MAKE = (
    "llmprism ingest FLOWS --topology FILE writes a topology.json from a table of cables,"
    " or from the flows alone"
)


class _Part(BaseModel):
    """Topologies from elsewhere may contain further keys; that is not an error."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Endpoint(_Part):
    """One NIC, or a port of it: its address, its server and NVLink domain, and its switch."""

    address: str
    server: str
    nic: int | None = None
    gpus: tuple[int, ...] | None = None
    switch: str | None = None
    port: int | None = None
    domain: str | None = None

    @property
    def home(self) -> str:
        """Name of the NVLink domain; without one, of the server."""
        return self.domain or self.server


class Switch(_Part):
    """One switch, the tier it belongs to (``leaf``, ``spine``, ...), and its plane."""

    name: str
    tier: str
    plane: int | None = None


class Link(_Part):
    """One cable between a server, an address or a switch (``a``) and another (``b``)."""

    a: str
    b: str
    gbps: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class _File(_Part):
    endpoints: tuple[Endpoint, ...]
    switches: tuple[Switch, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class ScheduledJob:
    """A job of a scheduler; a begin or end of None is unknown, or has not come.

    Attributes
    ----------
    servers : names of servers, or addresses of NICs where jobs share servers.
    begin_ns, end_ns : since the epoch.
    layout : number of places along each axis that is known.
    """

    name: str
    servers: frozenset[str]
    begin_ns: int | None = None
    end_ns: int | None = None
    layout: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Topology:
    """The network: parts by name, and arrays by endpoint and switch code.

    Attributes
    ----------
    ports : the endpoints as they are listed, each with an address of its own.
    jobs : those that an operator gives, as facts in place of what records show.
    """

    ports: tuple[Endpoint, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]
    jobs: tuple[ScheduledJob, ...] = ()

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The NICs: the first port of each."""
        first: dict[Hashable, Endpoint] = {}
        for end in self.ports:
            first.setdefault(_nic(end), end)
        return tuple(first.values())

    @cached_property
    def addresses(self) -> list[str]:
        """Address of each endpoint code."""
        return [end.address for end in self.endpoints]

    @cached_property
    def codes(self) -> dict[str, int]:
        """Endpoint code of each address; those of all ports of a NIC have one."""
        code = {_nic(end): i for i, end in enumerate(self.endpoints)}
        return {end.address: code[_nic(end)] for end in self.ports}

    @cached_property
    def servers(self) -> Codes:
        """Server code of each endpoint, shape (endpoints,), numbered by first appearance.

        Servers that share an NVLink domain have one code: no record tells them apart.
        """
        seen: dict[str, int] = {}
        codes = [seen.setdefault(end.home, len(seen)) for end in self.endpoints]
        return np.array(codes, dtype=np.int32)

    @cached_property
    def positions(self) -> Ints:
        """Number of each NIC in its server, -1 if unknown; in its domain, if it is in one."""
        nics: Counter[str] = Counter()
        for end in self.endpoints:
            nics[end.server] = max(nics[end.server], (end.nic or 0) + 1)
        first: dict[str, int] = {}
        of_home: Counter[str] = Counter()
        for end in self.endpoints:
            if end.server not in first:
                first[end.server] = of_home[end.home]
                of_home[end.home] += nics[end.server]
        places = [-1 if end.nic is None else first[end.server] + end.nic for end in self.endpoints]
        return np.array(places, np.int64)

    @cached_property
    def planes(self) -> dict[str, str]:
        """Name of the plane of each switch; empty if there are no planes.

        Planes are listed, or they are parts of the fabric that no cable joins, each with one port
        of every NIC.
        """
        if all(one.plane is not None for one in self.switches):
            return {one.name: f"plane {one.plane}" for one in self.switches}
        part = self._parts_of_the_fabric
        several = [sorted(part[leaf] for leaf in leaves) for leaves in self.leaves]
        every = sorted(set(part.values()))
        if len(every) < 2 or any(one != every for one in several):
            return {}
        return {name: f"plane {number}" for name, number in part.items()}

    @cached_property
    def _parts_of_the_fabric(self) -> dict[str, int]:
        """Number of the part of each switch, from the first one on: cables join those of a part."""
        ends = [(self.switch_codes.get(one.a), self.switch_codes.get(one.b)) for one in self.links]
        cables = {(a, b) for a, b in ends if a is not None and b is not None}
        src, dst = np.array([*cables], np.int32).reshape(-1, 2).T
        label = components(src, dst, len(self.switches))
        number: dict[int, int] = {}
        parts = [number.setdefault(int(one), len(number)) for one in label]
        return dict(zip(self.switch_codes, parts, strict=True))

    @cached_property
    def leaves(self) -> tuple[tuple[str, ...], ...]:
        """The switches that the ports of each endpoint are plugged into."""
        found: list[dict[str, None]] = [{} for _ in self.endpoints]
        for end in self.ports:
            if end.switch is not None:
                found[self.codes[end.address]][end.switch] = None
        for link in self.links:
            for nic, switch in ((link.a, link.b), (link.b, link.a)):
                if nic in self.codes and switch in self.switch_codes:
                    found[self.codes[nic]][switch] = None
        return tuple(map(tuple, found))

    @cached_property
    def lone(self) -> Bools:
        """Which endpoints are the only NIC of their server, shape (endpoints,)."""
        only: Bools = np.bincount(self.servers)[self.servers] == 1
        return only

    @cached_property
    def servers_unknown(self) -> bool:
        """Whether every address is called a server of its own, as if inferred from flows alone."""
        return all(end.server == end.address for end in self.endpoints)

    @cached_property
    def switch_codes(self) -> dict[str, int]:
        """Number of each switch name."""
        return {switch.name: i for i, switch in enumerate(self.switches)}

    @cached_property
    def tiers(self) -> Codes:
        """Tier code of each switch, shape (switches,), numbered by first appearance."""
        seen: dict[str, int] = {}
        codes = [seen.setdefault(switch.tier, len(seen)) for switch in self.switches]
        return np.array(codes, dtype=np.int32)

    @cached_property
    def nic_gbps(self) -> float:
        """Median known rate of the links of servers and NICs [Gbit/s]; NaN if none is known."""
        switches = self.switch_codes
        known = [
            link.gbps
            for link in self.links
            if link.gbps is not None and (link.a in switches) != (link.b in switches)
        ]
        return float(np.median(known)) if known else float("nan")

    @cached_property
    def fastest_gbps(self) -> float:
        """Rate of the fastest link [Gbit/s]; NaN if no rate is known."""
        return max((link.gbps for link in self.links if link.gbps is not None), default=math.nan)

    @cached_property
    def switch_gbps(self) -> Floats:
        """Sum of the rates of each switch's links [Gbit/s]; NaN if one is unknown or missing."""
        total = np.zeros(len(self.switches))
        linked = np.zeros(len(self.switches), dtype=bool)
        for link in self.links:
            for name in (link.a, link.b):
                code = self.switch_codes.get(name)
                if code is not None:
                    linked[code] = True
                    total[code] += np.nan if link.gbps is None else link.gbps
        total[~linked] = np.nan
        return total


def read_topology(path: Path | str) -> Topology:
    """Read and check ``topology.json``.

    Raises
    ------
    UserError : with all errors at once: a missing or invalid file, missing
        fields, an address or switch named twice, a link or endpoint that names a switch,
        server or address which does not exist.
    """
    text = read_text(path, _LIMIT_BYTES, _MAKE)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(Problem(f"not valid JSON: {error}", str(path), _MAKE)) from error
    except RecursionError as error:
        raise UserError(Problem("not a topology: nested too deeply", str(path))) from error
    return parse_topology(content, str(path))


def parse_topology(content: object, where: str = "topology") -> Topology:
    """Check a topology in memory, with the structure of ``topology.json``.

    Raises
    ------
    UserError : as :func:`read_topology`.
    """
    try:
        parsed = _File.model_validate(content)
    except ValidationError as error:
        raise UserError(_first_of(list(_field_problems(error, where)), where)) from error
    problems = list(_cross_problems(parsed, where))
    if problems:
        raise UserError(_first_of(problems, where))
    return Topology(parsed.endpoints, parsed.switches, parsed.links)


def _nic(end: Endpoint) -> Hashable:
    """What the ports of one NIC have in common; the address, if no port is known."""
    return end.address if end.port is None or end.nic is None else (end.server, end.nic)


def as_content(topology: Topology) -> dict[str, Any]:
    """The content of the ``topology.json`` of ``topology``."""
    parts = {
        "endpoints": topology.ports, "switches": topology.switches, "links": topology.links
    }  # fmt: skip
    return {name: [_dumped(one) for one in part] for name, part in parts.items()}


def _dumped(part: _Part) -> dict[str, Any]:
    """A part as JSON has it, without what only some networks have."""
    values = part.model_dump(mode="json")
    return {key: value for key, value in values.items() if key not in _RARE or value is not None}


def _first_of(problems: list[Problem], where: str) -> list[Problem]:
    """Return the first problems, and the number of others."""
    more = len(problems) - _LISTED
    if more <= 0:
        return problems
    return [*problems[:_LISTED], Problem(f"{more} more problems of this kind", where)]


def _field_problems(error: ValidationError, where: str) -> Iterator[Problem]:
    for fault in error.errors():
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
        place = "".join(steps).lstrip(".") or "content"
        value = "" if fault["type"] == "missing" else f" (it is {fault['input']!r:.60})"
        how = _MAKE if fault["loc"] in ((), ("endpoints",)) else ""
        yield Problem(f"{place}: {fault['msg']}{value}", where, how)


def _cross_problems(parsed: _File, where: str) -> Iterator[Problem]:
    """Yield problems across fields: repeated names, and unknown names."""
    addresses = {end.address for end in parsed.endpoints}
    servers = {end.server for end in parsed.endpoints}
    switches = {switch.name for switch in parsed.switches}
    for kind, names in (
        ("address", [end.address for end in parsed.endpoints]),
        ("switch", [switch.name for switch in parsed.switches]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield Problem(f"{kind} {name!r} is listed {count} times", where, "list it once")
    for name in sorted(switches & (servers | addresses)):
        yield Problem(f"{name!r} names a switch and an endpoint or server", where, "rename one")
    for end in parsed.endpoints:
        if end.switch is not None and end.switch not in switches:
            what = f"endpoint {end.address!r} is on unknown switch {end.switch!r}"
            yield Problem(what, where, f"add {end.switch!r} to switches")
    known = switches | servers | addresses
    for i, link in enumerate(parsed.links):
        for side in (link.a, link.b):
            if side not in known:
                what = f"links[{i}] names {side!r}, which is not listed"
                yield Problem(what, where, "add it to endpoints or switches, or remove the link")


def in_nic_order(topology: Topology, ends: Codes) -> Codes:
    """Endpoint codes of one server in the order of their NICs; unknown NICs count as 0."""
    return ends[np.lexsort((ends, np.maximum(topology.positions[ends], 0)))]
