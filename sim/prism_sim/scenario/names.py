"""Names of servers, NICs and switches of the simulated cluster.

Topology, flow records, truth and the faults of a scenario all use these names, so a
finding can be compared with the injected fault without translation.
"""

from __future__ import annotations

import re

_SERVER = re.compile(r"s(\d{4,})")


def server_name(server: int) -> str:
    """Name of the server with index ``server``.

    >>> server_name(7)
    's0007'
    """
    return f"s{server:04d}"


def server_index(name: str) -> int | None:
    """Index of the server called ``name``; None if the name is not a valid one.

    >>> server_index("s0007"), server_index("s7")
    (7, None)
    """
    match = _SERVER.fullmatch(name)
    index = int(match[1]) if match else None
    return index if index is not None and server_name(index) == name else None


def nic_address(server: int, nic: int) -> str:
    """Address of NIC ``nic`` (from 0) of server ``server`` (from 0).

    >>> nic_address(258, 0)
    '10.1.2.1'
    """
    return f"10.{server >> 8}.{server & 255}.{nic + 1}"


def leaf_name(leaf: int) -> str:
    """Name of the leaf switch with index ``leaf``.

    >>> leaf_name(3)
    'leaf003'
    """
    return f"leaf{leaf:03d}"


def domain_name(domain: int) -> str:
    """Name of the NVLink domain with index ``domain``.

    >>> domain_name(3)
    'd003'
    """
    return f"d{domain:03d}"


def core_name(core: int) -> str:
    """Name of the core switch with index ``core``.

    >>> core_name(3)
    'core03'
    """
    return f"core{core:02d}"


def spine_name(spine: int) -> str:
    """Name of the spine switch with index ``spine``.

    >>> spine_name(3)
    'spine03'
    """
    return f"spine{spine:02d}"
