"""The topology of a monitor, which is read again when its file changes."""

from __future__ import annotations

from pathlib import Path

from llmprism.io.asking import is_address
from llmprism.io.topology import Topology, as_content, read_topology
from llmprism.part_names import Parts
from llmprism.watch.logging import reason_of
from llmprism.watch.names import KnownNames, Names, present, stamp_of


class Network:
    """What a topology file says, and why its last change was refused, if it was.

    Attributes
    ----------
    content, parts : the topology as ``topology.json`` has it, and the names of its parts.
    names : of jobs and switches, as people know them.
    servers, leaf_of : the server of each address, and its switch if that is known.
    problem : why the last change of the file was refused; empty if it was not.

    Raises
    ------
    UserError : the file cannot be read when the monitor starts.
    """

    def __init__(self, path: Path, names: Names | None = None) -> None:
        self._path = path
        self._stamp = stamp_of(path)
        self.names = KnownNames(names or Names())
        self._adopt(read_topology(path))
        self.names.read(self._switches)

    def refresh(self) -> None:
        """Read files again that have changed; one that is wrong changes nothing."""
        self.names.refresh()
        stamp = stamp_of(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._adopt(read_topology(present(self._path)))
        except Exception as error:  # whatever others wrote, the monitor goes on
            self.problem = f"the topology is that of before: {reason_of(error)}"

    def reload(self, names: Names) -> None:
        """Read all again.

        Raises
        ------
        UserError : a file is wrong; then all is as it was.
        """
        for one in (names.jobs, names.hosts):
            if one is not None and not is_address(str(one)):
                present(Path(one))
        topology, fresh = read_topology(present(self._path)), KnownNames(names)
        fresh.read(frozenset(one.name for one in topology.switches))
        self._stamp, self.names = stamp_of(self._path), fresh
        self._adopt(topology)

    @property
    def _switches(self) -> frozenset[str]:
        return frozenset(one.name for one in self.topology.switches)

    def _adopt(self, topology: Topology) -> None:
        self.topology, self.problem = topology, ""
        self.content = as_content(topology)
        self.parts = Parts.of(self.content)
        self.servers = {end.address: end.server for end in topology.endpoints}
        self.leaf_of = {end.address: end.switch for end in topology.endpoints if end.switch}
