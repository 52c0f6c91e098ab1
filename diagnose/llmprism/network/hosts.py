"""Names of servers and NICs by address, in the form of ``/etc/hosts``.

Most descriptions of a network name servers, and flows name addresses. A line is
``ADDRESS NAME [NAME ...]``; a NIC of a server with several is ``SERVER-NIC``, for example
``10.0.1.7 gpu01-mlx5_0``. Text after ``#`` is a comment. The addresses 0.0.0.0 and :: stand for
an unknown one.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from pathlib import Path

from llmprism.io.sources import read_text
from prism_common.errors import Problem, UserError

_LIMIT_BYTES = 1 << 28
_JOINTS = "-.:_"  # between a server's name and its NIC's

Hosts = Mapping[str, str]
"""The address of each name."""


def read_hosts(path: Path) -> dict[str, str]:
    """Return the address of each name; the first line that has a name counts.

    Raises
    ------
    UserError : for lines without a name, all at once.
    """
    found: dict[str, str] = {}
    problems = []
    for number, raw in enumerate(read_text(path, _LIMIT_BYTES).splitlines(), start=1):
        words = raw.split("#", 1)[0].split()
        if len(words) == 1:
            what = f"there is no name for {words[0]!r}"
            problems.append(Problem(what, f"{path}:{number}", "write ADDRESS NAME"))
        if words and is_known(words[0]):
            address = plain_address(words[0]) or words[0]
            for name in words[1:]:
                found.setdefault(name, address)
    if problems:
        raise UserError(problems[:50])
    return found


@lru_cache(maxsize=1 << 16)
def plain_address(text: str | None) -> str | None:
    """Return an address in one notation; other text as it is.

    >>> plain_address("::ffff:10.0.0.1"), plain_address("FD00::0:1"), plain_address(" gpu-7 ")
    ('10.0.0.1', 'fd00::1', 'gpu-7')
    """
    stripped = (text or "").strip()
    if not stripped or stripped == "-":
        return None
    try:
        address = ipaddress.ip_address(stripped)
    except ValueError:
        return stripped
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def is_known(address: str) -> bool:
    """Return whether this is an address, and not one that stands for none.

    >>> is_known("10.0.0.1"), is_known("0.0.0.0"), is_known("::"), is_known("")
    (True, False, False, False)
    """
    try:
        return not ipaddress.ip_address(address.strip()).is_unspecified
    except ValueError:
        return bool(address.strip())


def address_of(server: str, port: str, is_only_nic: bool, hosts: Hosts) -> str:
    """Return the address of a NIC; empty if the names do not tell.

    >>> address_of("gpu01", "mlx5_0", False, {"gpu01": "10.0.0.1", "gpu01-mlx5_0": "10.0.1.1"})
    '10.0.1.1'
    """
    if port:
        names = [f"{server}{joint}{port}" for joint in _JOINTS]
        found = next((hosts[name] for name in names if name in hosts), "")
        if found:
            return found
    return hosts.get(server, "") if is_only_nic else ""


def server_names(hosts: Hosts) -> set[str]:
    """Return every name that is a server's: a whole name, or one up to where a NIC's begins.

    >>> sorted(server_names({"gpu01-mlx5_0": "10.0.1.1"}))
    ['gpu01', 'gpu01-mlx5', 'gpu01-mlx5_0']
    """
    ends = {name[:i] for name in hosts for i, mark in enumerate(name) if mark in _JOINTS}
    return ends | set(hosts)


def nics_by_server(hosts: Hosts, servers: Set[str]) -> dict[str, dict[str, str]]:
    """Return the address of each NIC, by server, of servers with several NICs in ``hosts``.

    The address of the server itself comes last, under an empty name.

    >>> nics_by_server({"gpu1": "10.9.0.1", "gpu1-b": "10.0.2.1", "gpu1-a": "10.0.1.1"}, {"gpu1"})
    {'gpu1': {'a': '10.0.1.1', 'b': '10.0.2.1', '': '10.9.0.1'}}
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name, address in hosts.items():
        for server, nic in _divided(name):
            if server in servers:
                if address not in found[server].values():
                    found[server][nic] = address
                break
    for server, nics in found.items():
        own = hosts.get(server)
        ordered = dict(sorted(nics.items(), key=lambda item: (len(item[0]), item[0])))
        found[server] = ordered | ({"": own} if own and own not in nics.values() else {})
    return {server: nics for server, nics in found.items() if len(nics) - ("" in nics) > 1}


def _divided(name: str) -> Iterator[tuple[str, str]]:
    """Yield a name as server and NIC, the longest server first; a domain is no NIC."""
    for i in range(len(name) - 2, 0, -1):
        if name[i] in _JOINTS and name[i] != ".":
            yield name[:i], name[i + 1 :]
