"""NICs without training traffic that belong to a job, as the rest of the cluster shows.

There are two cases, both on servers that only one job uses:

- *A leaf whose NICs send nothing*, while those of every other leaf do: it does not export, and its
  NICs belong to the job of their servers. Other leaves may export what they receive.
- *Ranks whose hops are all inside a server*: these hops are not seen. If the job shares other
  servers with a second job, and each of these is full, servers were filled one after the other, so
  none has idle GPUs. This is believed only if the job is seen through the same NICs in all servers
  that it does not share.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Bools, Codes, Ints


def silent_of(jobs: list[Codes], topology: Topology, senders: Codes) -> list[Codes]:
    """Endpoints without training traffic that belong to each job.

    ``jobs`` are endpoint codes, and so are the ``senders`` of any record.
    """
    servers = topology.servers
    sends = np.zeros(servers.size, np.bool_)
    sends[senders] = True
    at_unseen_leaf = _unseen_leaf(topology, sends)
    employed = np.zeros(servers.size, np.bool_)
    for job in jobs:
        employed[job] = True
    users: dict[int, set[int]] = {}
    for i, job in enumerate(jobs):
        for server in np.unique(servers[job]).tolist():
            users.setdefault(server, set()).add(i)
    found = []
    for job in jobs:
        homes = np.unique(servers[job]).tolist()
        alone = [server for server in homes if len(users[server]) == 1]
        unseen = np.isin(servers, alone) & ~employed
        shared = np.isin(servers, np.setdiff1d(homes, alone))
        filled = bool(shared.any() and employed[shared].all())
        if not filled or not _alike(topology, job, alone):
            unseen &= at_unseen_leaf
        found.append(np.flatnonzero(unseen).astype(np.int32))
    return found


def _unseen_leaf(topology: Topology, sends: Bools) -> Bools:
    """Endpoints at the only leaf of which no endpoint ever ``sends``."""
    leaves = np.array([end.switch or "" for end in topology.endpoints])
    silent = [leaf for leaf in np.unique(leaves) if not sends[leaves == leaf].any()]
    chosen: Bools = np.isin(leaves, silent) & (len(silent) == 1)
    return chosen


def _alike(topology: Topology, ends: Codes, alone: list[int]) -> bool:
    """Whether ``ends`` has the same NICs in each of the servers ``alone``."""
    nics: dict[int, set[int]] = {server: set() for server in alone}
    for end in ends.tolist():
        server = int(topology.servers[end])
        if server in nics:
            nics[server].add(int(topology.positions[end]))
    return bool(alone) and all(own == nics[alone[0]] for own in nics.values())


def with_silent_places(
    topology: Topology, endpoints: Codes, unseen: Bools, number: Ints, position: Ints
) -> tuple[Ints, Ints]:
    """Groups and positions of a job's ``endpoints``, with those of NICs that are ``unseen``.

    A NIC that was not seen is where the others of its server are, in a group with the NICs of its
    number of all servers that such a group passes through, if all others have one position.
    """
    number, position = number.copy(), position.copy()
    servers = topology.servers[endpoints]
    seen, known = number >= 0, number.copy()
    label: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero(unseen).tolist():
        beside = np.flatnonzero(seen & (servers == servers[row]))
        if beside.size == 0 or np.unique(position[beside]).size > 1:
            continue
        first = int(beside[0])
        key = int(known[first]), int(topology.positions[endpoints[row]])
        number[row] = label.setdefault(key, int(known.max()) + 1 + len(label))
        position[row] = position[first]
    return number, position
