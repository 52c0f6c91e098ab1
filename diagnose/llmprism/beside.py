"""Telemetry beside flow records, in a folder or files; what reads a kind is imported with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmprism.diagnosis import Diagnosis
from llmprism.io.topology import Topology, read_topology
from llmprism.logged import courses_of
from llmprism.together import COLLECTIVES, COUNTERS, differences, of_several_jobs, together
from prism_common.errors import UserError
from prism_common.progress import Progress


@dataclass(frozen=True)
class Beside:
    """Files and folders of other telemetry than flows: see the commands of each kind."""

    counters: Sequence[Path] = ()
    collectives: Sequence[Path] = ()
    logs: Sequence[Path] = ()

    def or_in(self, folder: Path) -> Beside:
        """The same, with what is in ``folder`` for kinds of which nothing is named."""
        own = {name: folder / name for name in ("counters.parquet", "collectives")}
        here = {path.stem: [path] for path in own.values() if path.exists()}
        given = {name: each for name, each in vars(self).items() if each}
        return replace(self, **here | given)

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def around(
        self,
        of_flows: Callable[..., Diagnosis],
        network: Topology | Path,
        tell: Callable[[str], None],
    ) -> Callable[..., Diagnosis]:
        """A diagnosis of flows, or of them and these kinds if there are any.

        A kind that cannot be used is left out, and ``tell`` gets the reason.
        """
        if not self:
            return of_flows
        topology = read_topology(network) if isinstance(network, Path) else network

        def of_all(progress: Progress) -> Diagnosis:
            others: dict[str, Diagnosis] = {}
            kinds = {COLLECTIVES: self.of_collectives, COUNTERS: self.of_counters}
            for kind, diagnose in kinds.items():
                try:
                    if vars(self)[kind]:
                        others[kind] = diagnose(topology)
                except UserError as error:
                    tell(f"{kind} are left out: {error}")
            found, courses = of_flows(progress=progress), [*courses_of(self.logs, topology)]
            for line in differences(found, courses, topology):
                tell(line)
            return of_several_jobs(together(found, others, topology, self.logs, courses), topology)

        return of_all

    def of_collectives(self, topology: Topology) -> Diagnosis:
        """What communication libraries show alone."""
        from llmprism.collectives.diagnosing import diagnose
        from llmprism.collectives.reading import read

        return diagnose(read([*map(str, self.collectives)], {}), topology).diagnosis

    def of_counters(self, topology: Topology) -> Diagnosis:
        """What counters show alone."""
        from llmprism.counters.diagnosing import diagnose
        from llmprism.counters.readers import read
        from llmprism.counters.readers.options import Options

        return diagnose(read([*map(str, self.counters)], Options()), topology).diagnosis
