"""Names of servers and NICs by address, in the form of ``/etc/hosts``.

Most descriptions of a network name servers, and flows name addresses. A line is
``ADDRESS NAME [NAME ...]``; a NIC of a server with several is ``SERVER-NIC``, for example
``10.0.1.7 gpu01-mlx5_0``. Text after ``#`` is a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llmprism.errors import Problem, UserError
from llmprism.ingest.tables import plain_address
from llmprism.io.sources import read_text

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
        for name in words[1:]:
            found.setdefault(name, plain_address(words[0]) or words[0])
    if problems:
        raise UserError(problems[:50])
    return found


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
