"""Names of the parts of a cluster, as an operator would find them: NICs, GPUs, servers, links.

A part of the network may have a direction, after an arrow: ``leaf1>spine0`` is one direction of a
link, ``leaf1>up`` all that a switch sends upwards, and ``10.0.0.1>out`` all that a NIC sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_COMPUTING = {"slow_gpu", "slow_compute", "intermittent_gpu", "thermal_ramp", "hang", "crash"}
"""Causes in a GPU: a NIC stands for the GPU behind it."""

_DIRECTIONS = {
    "out": "all that {} sends",
    "in": "all that {} receives",
    "up": "all that {} sends upwards",
    "down": "all that {} sends downwards",
}
"""One direction of a NIC or switch, after the arrow in the name of a suspect."""

_MOST_GPUS = 3
"""A NIC of more GPUs is named instead of them."""


def natural(name: str) -> tuple[int, str]:
    """A key that sorts ``s9`` before ``s10``."""
    return len(name), name


_NUMBERED = re.compile(r"(.*?)(\d+)")


def condensed(names: Iterable[str]) -> str:
    """Names of servers in ranges, as schedulers write them.

    >>> condensed(["s0001", "s0002", "s0003", "s0007", "login"])
    's[0001-0003,0007], login'
    """
    by_stem: dict[tuple[str, int], list[int]] = {}
    for name in names:
        matched = _NUMBERED.fullmatch(name)
        stem, digits = matched.groups() if matched else (name, "")
        by_stem.setdefault((stem, len(digits)), []).append(int(digits or -1))
    return ", ".join(_ranged(stem, width, sorted(own)) for (stem, width), own in by_stem.items())


def _ranged(stem: str, width: int, numbers: list[int]) -> str:
    if not width:
        return stem
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [
        f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"
        for first, last in ranges
    ]
    return f"{stem}{texts[0]}" if len(numbers) == 1 else f"{stem}[{','.join(texts)}]"


@dataclass(frozen=True)
class Parts:
    """The names of endpoints: server, NIC and GPUs of each address."""

    endpoints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def of(topology: Mapping[str, Any]) -> Parts:
        """Read the endpoints of ``topology.json``; an empty topology has no names."""
        return Parts({str(end["address"]): end for end in topology.get("endpoints", [])})

    def server(self, address: str) -> str:
        """Server of an address; the address itself if it is unknown."""
        return str(self.endpoints.get(address, {}).get("server", address))

    def gpu_count(self, addresses: Iterable[str]) -> int:
        """GPUs behind these addresses; one for an address without a list of GPUs."""
        known = [self.endpoints.get(address, {}).get("gpus") for address in addresses]
        return sum(len(gpus) if gpus else 1 for gpus in known)

    def name(self, kind: str, culprit: str, cause: str = "") -> str:
        """Name a culprit, as an operator would find it in the cluster."""
        if culprit in self.endpoints:
            return self._endpoint(culprit, cause)
        if kind == "link":
            ends = [self._end(end) for end in culprit.split("|")]
            return "the link between " + " and ".join(ends)
        one, arrow, other = culprit.partition(">")
        if arrow:
            what = _DIRECTIONS.get(other, f"all that {{}} sends to {self._end(other)}")
            return what.format(self._end(one))
        kind = kind or ("server" if culprit in self._servers else "")
        kind = "NVLink domain" if culprit in self._domains else kind
        prefixed = kind not in ("", "unknown", *culprit.split())
        return f"{kind} {culprit}".strip() if prefixed else culprit

    def one_of(self, addresses: Iterable[str]) -> str:
        """Name a GPU that is one of those behind these addresses.

        >>> ends = {"a": {"server": "s1", "gpus": [4, 5]}, "b": {"server": "s1", "gpus": [6, 7]}}
        >>> Parts(ends).one_of(["a", "b"])
        'one of GPUs 4 to 7 of server s1'
        """
        ends = [self.endpoints[address] for address in addresses]
        servers = list(dict.fromkeys(str(end.get("server")) for end in ends))
        gpus = sorted({gpu for end in ends for gpu in end.get("gpus") or ()})
        if len(servers) > 1 or not gpus:
            return f"one of the GPUs of servers {condensed(servers)}"
        whole = gpus == list(range(gpus[0], gpus[-1] + 1)) and len(gpus) > 2
        numbers = f"{gpus[0]} to {gpus[-1]}" if whole else ", ".join(map(str, gpus))
        return f"one of GPUs {numbers} of server {servers[0]}"

    def computes(self, cause: str) -> bool:
        """Whether a cause is in a GPU, and not in its NIC."""
        return cause in _COMPUTING

    @cached_property
    def _servers(self) -> frozenset[str]:
        return frozenset(str(end.get("server")) for end in self.endpoints.values())

    @cached_property
    def _domains(self) -> frozenset[str]:
        domains = frozenset(str(end.get("domain")) for end in self.endpoints.values())
        return domains - self._servers - {"None"}

    def _end(self, name: str) -> str:
        return self._endpoint(name, "") if name in self.endpoints else name

    def _endpoint(self, address: str, cause: str) -> str:
        end = self.endpoints[address]
        gpus, nic, server = end.get("gpus") or (), end.get("nic"), end.get("server")
        place = f"NIC {nic} of server {server}" if nic is not None else f"NIC {address}"
        if cause not in _COMPUTING:
            return place
        if not 0 < len(gpus) <= _MOST_GPUS:
            return f"{'a' if gpus else 'the'} GPU behind {place}"
        return f"GPU {' or '.join(str(gpu) for gpu in gpus)} of server {server}"
