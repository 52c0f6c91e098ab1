"""The topology and names of a monitor, which are read again when their files change."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from llmprism.io.topology import Topology, as_content, read_topology
from llmprism.part_names import Parts
from llmprism.watch.names import KnownNames, Names, stamp_of
from prism_common.service.guard import NAMES, TOPOLOGY, Guard


class Network:
    """What a topology file says; what of it, or of names, is wrong later on stands in ``guard``.

    Attributes
    ----------
    content, parts : the topology as ``topology.json`` has it, and the names of its parts.
    names : of jobs and switches, as people know them.
    servers, leaf_of : the server of each address, and its switch if that is known.

    Raises
    ------
    UserError : the file cannot be read when the monitor starts.
    """

    def __init__(self, path: Path, names: Names | None = None, guard: Guard | None = None) -> None:
        self._path, self.guard = path, guard or Guard()
        self._stamp = stamp_of(path)
        self._adopt(read_topology(path), KnownNames(names or Names()))
        self.names.read(_switches(self.topology))

    def refresh(self) -> None:
        """Read files again that have changed; one that is wrong changes nothing."""
        self.names.refresh(self.guard)
        stamp = stamp_of(self._path)
        is_due, self._stamp = stamp != self._stamp, stamp
        found = self.guard.read(TOPOLOGY, partial(read_topology, self._path), is_due)
        if found is not None:
            self._adopt(found, self.names)

    def adopt(self, fresh: Network) -> None:
        """Be as another one that was read later."""
        self._stamp = fresh._stamp
        self._adopt(fresh.topology, fresh.names)
        for part in (TOPOLOGY, NAMES):
            self.guard.succeeded(part)

    def _adopt(self, topology: Topology, names: KnownNames) -> None:
        self.topology, self.names = topology, names
        self.content = as_content(topology)
        self.parts = Parts.of(self.content)
        self.servers = {end.address: end.server for end in topology.endpoints}
        self.leaf_of = {end.address: end.switch for end in topology.endpoints if end.switch}


def _switches(topology: Topology) -> frozenset[str]:
    return frozenset(one.name for one in topology.switches)
