"""The diagnosis of a window, whatever a method makes of its records.

Records that suffice for no diagnosis are a ``UserError``. Any other exception is a mistake of the
method, or of what follows from its tables: it is counted, its window is kept as a *sample* with the
traceback, and the monitor goes on with the next window. A sample is named by the place of the
mistake, so one that repeats is kept once.

A job is diagnosed without the records of others, as in a file that is divided. But jobs that cross
the same switches show more about a part of the network than one of them. So if a finding about the
network is new, it is looked at again, together with all others that cross switches.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from llmprism.collectives.diagnosing import diagnose as diagnose_collectives
from llmprism.diagnosis import Diagnosis
from llmprism.finding_fields import text
from llmprism.ingest.options import Options
from llmprism.io.flows import Rest
from llmprism.pipeline import diagnose
from llmprism.together import COLLECTIVES, together
from llmprism.watch import policy
from llmprism.watch.logging import LOGGER, reason_of
from llmprism.watch.matching import place_of
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.state import State
from llmprism.watch.state_folder import StateFolder
from llmprism.watch.tracking.tracker import Turn
from llmprism.watch.window import Span, operations_in, write_window
from prism_common.errors import Problem, UserError

FAILED, INSUFFICIENT = "failed", "insufficient"
"""Reasons for a window without a diagnosis."""
MOST_SAMPLES = 5
_MOST_BYTES = 1 << 30  # of one sample


@dataclass
class Diagnoser:
    """Diagnoses windows with the settings of one monitor.

    Attributes
    ----------
    problem : why the last whole window has no diagnosis; empty if it has one.
    """

    folder: StateFolder
    network: Network
    settings: Settings
    problem: str = ""
    _seen: set[str] = field(default_factory=set)

    @property
    def flows(self) -> Path:
        """The flow table of the window that was diagnosed last."""
        return self.folder.path / "window" / "flows.parquet"

    def diagnosis(
        self, state: State, span: Span, turn: Turn, is_last: bool
    ) -> tuple[Diagnosis | None, Turn]:
        """The diagnosis of a window, and the turn that it is one of.

        Jobs that may have to do with what was found are diagnosed with those that were due; and
        all are, if the records of some allow no diagnosis.
        """
        if turn.others or turn.since_ns:
            recent = Span(max(span.start_ns, turn.since_ns), span.end_ns)
            with suppress(UserError):
                diagnosis = self._without(state, recent, turn.others)
                others = _staying(diagnosis, self.network, state, turn.others)
                if others == turn.others:
                    return diagnosis, turn
                if others:
                    return self._without(state, recent, others), turn.only(others)
        return self._whole(state, span, is_last), Turn()

    def _whole(self, state: State, span: Span, is_last: bool) -> Diagnosis | None:
        """The diagnosis of a whole window; None if its records allow none.

        A window that is not whole yet may have too few records, and so may one whose jobs have
        stopped; that is not blindness.
        """
        own = [one.first_ns for one in state.parts
               if one.is_of_collectives != self.settings.has_flows]  # fmt: skip
        is_whole = is_last or min(own, default=span.end_ns) <= span.start_ns
        is_whole = is_whole and not _has_stopped(state)
        try:
            diagnosis = self._without(state, span, frozenset())
        except UserError as error:
            self.problem = str(error.problems[0]) if is_whole or not _has_stopped(state) else ""
            state.failures[INSUFFICIENT] = state.failures.get(INSUFFICIENT, 0) + 1
            return None
        doubts = "" if diagnosis.verdict.can_tell else "; ".join(diagnosis.verdict.lines())
        self.problem = doubts if is_whole else ""
        return diagnosis

    def _without(self, state: State, span: Span, others: frozenset[str]) -> Diagnosis:
        """Diagnose a window without ``others``, jobs by name; the table of its flows is kept."""
        settings, network = self.settings, self.network
        without = [one for one in state.jobs if one.name in others]
        if not settings.has_flows:
            operations = operations_in(state.parts, self.folder.parts, span, without)
            if not len(operations.rows):
                raise UserError(Problem("no operation of a collective ends in this window"))
            return diagnose_collectives(operations, network.topology).diagnosis
        options = Options(homes=network.leaf_of)
        seen = write_window(state.parts, self.folder.parts, span, options, self.flows, without)
        senders = np.isin(network.topology.addresses, [*seen.senders])
        codes = np.flatnonzero(senders).astype(np.int32)
        return diagnose(
            self.flows,
            network.topology,
            settings.method,
            records_at_once=settings.records_at_once,
            cluster=settings.cluster,
            rest=Rest(seen.recorded_ns, codes, have_steps=True) if others else None,
        )

    def with_collectives(self, found: Diagnosis, state: State, span: Span) -> Diagnosis:
        """What flows show in a window, with what collectives say of the jobs that it has."""
        topology = self.network.topology
        if not self.settings.has_flows or self.settings.collectives is None:
            return found
        try:
            records = operations_in(state.parts, self.folder.parts, span)
            if not len(records.rows):
                return found
            others = {COLLECTIVES: diagnose_collectives(records, topology).diagnosis}
            every = together(found, others, topology)
        except Exception as error:  # a mistake costs what collectives show, and not the window
            LOGGER.warning("collectives are left out: %s", reason_of(error))
            return found
        here = every.findings["job"].isin(found.jobs["job"])
        return replace(every, jobs=found.jobs, findings=every.findings[here])

    def failed(self, error: Exception, state: State) -> None:
        """Count a mistake, and keep the window that shows it."""
        state.failures[FAILED] = state.failures.get(FAILED, 0) + 1
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        name = type(error).__name__
        self.problem = f"the method failed: {name} in {place}"
        key = hashlib.blake2b(f"{name} {place}".encode(), digest_size=4).hexdigest()
        sample = self.folder.path / "samples" / f"{name}-{key}"
        if key not in self._seen and not sample.exists():
            self._seen.add(key)
            with suppress(OSError):
                self._keep(sample, error)
        if sample.exists():
            self.problem += f"; its window is kept in {sample}"

    def _keep(self, sample: Path, error: Exception) -> None:
        """Keep the window as files that ``llmprism FLOWS --topology FILE`` reads."""
        before = [*sample.parent.iterdir()] if sample.parent.exists() else []
        if len(before) >= MOST_SAMPLES:
            return
        sample.mkdir(parents=True)
        text = "".join(traceback.format_exception(error))
        (sample / "error.txt").write_text(text, encoding="utf-8")
        content = json.dumps(self.network.content)
        (sample / "topology.json").write_text(content, encoding="utf-8")
        if self.flows.exists() and self.flows.stat().st_size <= _MOST_BYTES:
            shutil.copyfile(self.flows, sample / "flows.parquet")


def _has_stopped(state: State) -> bool:
    """Whether a job has stopped, as is known."""
    return any(one.stage == "open" and one.cause in policy.STOPS for one in state.incidents)


def _staying(
    diagnosis: Diagnosis, network: Network, state: State, others: frozenset[str]
) -> frozenset[str]:
    """Those of ``others`` that cannot have to do with what a diagnosis without them found.

    They are all, if it found nothing new about the network.
    """
    known = {one.place for one in state.incidents if one.stage != "resolved"}
    findings = diagnosis.findings[diagnosis.findings["level"] == "network"]
    culprits = ({"culprit": one} for one in findings["culprit"])
    if all(place_of(one, network.parts) in known for one in culprits):
        return others
    crossing = {one.name for one in state.jobs if _crosses(one.addresses, network)}
    return others - crossing


def _crosses(addresses: Iterable[str], network: Network) -> bool:
    """Whether traffic between some addresses leaves a switch, as far as is known."""
    leaves = {text(network.leaf_of.get(str(one))) for one in addresses}
    return len(leaves) > 1 or "" in leaves
