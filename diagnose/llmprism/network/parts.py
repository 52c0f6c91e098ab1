"""What a description of a network lists: NICs, cables between switches, and switches.

A reader returns :class:`Parts`. One cable is often reported twice, once from each end; the
reports of the end that lists more of them count (:mod:`llmprism.network.content`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Content = dict[str, list[dict[str, Any]]]
"""What ``topology.json`` holds: ``endpoints``, ``switches``, ``links``."""


SERVERS = re.compile(r"server|host|client|gpu|compute|worker", re.IGNORECASE)
SWITCHES = re.compile(r"leaf|spine|switch|router|tor|core|fabric", re.IGNORECASE)
"""Words in the names of groups and devices."""


class Nic(NamedTuple):
    """One NIC and its cable.

    ``port`` names the NIC in its server (empty: unknown); ``address`` is what flows call it
    (empty: unknown); ``reporter`` is the device that reported the cable. ``number`` counts NICs in
    the server, and ``nic_port`` the ports of the NIC, if it has several.
    """

    server: str
    port: str
    switch: str
    gbps: float | None = None
    address: str = ""
    reporter: str = ""
    number: int | None = None
    nic_port: int | None = None


class Cable(NamedTuple):
    """One cable between two switches, and the switch that reported it."""

    a: str
    b: str
    gbps: float | None = None
    reporter: str = ""


class Neighbour(NamedTuple):
    """What a device reports of the device at the other end of a cable.

    Either may be a switch or a server. ``forwards``: whether the neighbour calls itself a bridge
    or router (None: it does not tell).
    """

    reporter: str
    reporter_port: str
    name: str
    port: str
    address: str = ""
    forwards: bool | None = None
    gbps: float | None = None


@dataclass
class Parts:
    """What one or several descriptions list.

    ``domains`` has the NVLink domain of servers that share one.
    """

    nics: list[Nic] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)
    switches: set[str] = field(default_factory=set)
    neighbours: list[Neighbour] = field(default_factory=list)
    domains: dict[str, str] = field(default_factory=dict)

    def add(self, other: Parts) -> None:
        """Add what another description lists."""
        self.nics += other.nics
        self.cables += other.cables
        self.switches |= other.switches
        self.neighbours += other.neighbours
        self.domains |= other.domains

    def renamed(self, names: dict[str, str]) -> Parts:
        """Return the parts with other names of devices."""

        def fields(one: Any, *which: str) -> Any:
            return one._replace(**{x: names.get(getattr(one, x), getattr(one, x)) for x in which})

        return Parts(
            [fields(one, "server", "switch", "reporter") for one in self.nics],
            [fields(one, "a", "b", "reporter") for one in self.cables],
            {names.get(one, one) for one in self.switches},
            [fields(one, "reporter", "name") for one in self.neighbours],
            {names.get(server, server): domain for server, domain in self.domains.items()},
        )

    @property
    def devices(self) -> set[str]:
        """Names of all servers and switches."""
        names = set(self.switches)
        names |= {name for one in self.nics for name in (one.server, one.switch)}
        names |= {name for one in self.cables for name in (one.a, one.b)}
        return names | {name for one in self.neighbours for name in (one.reporter, one.name)}


def plain_name(description: str) -> str:
    """Return the name in ``MF0;leaf-1:MQM8700/U1``; another description as it is.

    >>> plain_name("MF0;leaf-1:MQM8700/U1"), plain_name("ISR9024 Voltaire")
    ('leaf-1', 'ISR9024 Voltaire')
    """
    found = re.fullmatch(r"\w+;([^;:]+):[^:]*", description)
    return found[1] if found else description.replace("|", "/").strip()
