"""A blind monitor does not look healthy: the reasons why it may not see, and their exit codes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmprism.watch.alerts import Alert, of_blindness
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.state import Blindness, State
from prism_common.quantities import duration, percent

NO_RECORDS, REFUSED, LAG, DROPPED = "NoRecords", "RecordsRefused", "MonitorLags", "DatagramsDropped"
TOPOLOGY, NO_DIAGNOSIS = "TopologyRefused", "NoDiagnosis"
EXITS = {NO_RECORDS: 5, REFUSED: 6, LAG: 7, DROPPED: 8, TOPOLOGY: 1, NO_DIAGNOSIS: 4}
"""Exit code of a monitor that ends while it is blind; the first reason counts."""

_REFUSED_SHARE = 0.5  # of the records that came together


@dataclass
class Health:
    """What the monitor has seen since the last look; times of this machine's steady clock [s].

    Attributes
    ----------
    latest_s : end of the last round in which records came.
    read, refused : records that came since the last look, and those of them that are no use.
    files : files that could not be read since the last look.
    dropped : datagrams that the kernel dropped, until it drops none for the quiet period.
    topology, diagnosis : why the topology or the last diagnosis failed; empty if it did not.
    """

    latest_s: float = field(default_factory=time.monotonic)
    read: int = 0
    refused: int = 0
    files: list[str] = field(default_factory=list)
    dropped: int = 0
    topology: str = ""
    diagnosis: str = ""
    _all_dropped: int = 0
    _dropped_s: float = 0.0

    def saw(self, read: int, refused: int, files: list[str]) -> None:
        """Take note of what came from the source."""
        self.read += read
        self.refused += refused
        self.files += files

    def lost(self, dropped: int) -> None:
        """Take note of the datagrams that were dropped since the source was opened."""
        if dropped > self._all_dropped:
            self.dropped += dropped - self._all_dropped
            self._dropped_s = time.monotonic()
        self._all_dropped = dropped

    def reasons(self, state: State, settings: Settings, is_end: bool) -> dict[str, str]:
        """The reasons why the monitor is blind now, with what to say of them."""
        found: dict[str, str] = {}
        silent_s = time.monotonic() - self.latest_s
        if silent_s > settings.silence_s and not self.read and not is_end:
            found[NO_RECORDS] = f"no record has come for {duration(silent_s * 1e9)}"
        if is_end and state.watermark_ns is None:
            found[NO_RECORDS] = "no record has come"
        if self.files:
            found[REFUSED] = f"{len(self.files)} files cannot be read, such as {self.files[0]}"
        elif self.refused > _REFUSED_SHARE * self.read:
            found[REFUSED] = (
                f"{percent(self.refused / max(self.read, 1))} of the records are no use"
            )
        elif not self.read and REFUSED in state.blind:
            found[REFUSED] = state.blind[REFUSED].text  # nothing has shown that it is over
        behind_ns = lag_ns(state)
        if self.read and behind_ns is not None and behind_ns > settings.lag_ns:
            found[LAG] = f"the latest record is {duration(behind_ns)} old"
        elif not self.read and LAG in state.blind:
            found[LAG] = state.blind[LAG].text
        if time.monotonic() > self._dropped_s + settings.quiet_ns / SECOND_NS:
            self.dropped = 0
        if self.dropped:
            found[DROPPED] = f"the kernel dropped {self.dropped} datagrams"
        if self.topology:
            found[TOPOLOGY] = self.topology
        if self.diagnosis:
            found[NO_DIAGNOSIS] = self.diagnosis
        return found

    def looked(self) -> None:
        """Begin to count again; a round may take long, and what comes meanwhile waits."""
        if self.read:
            self.latest_s = time.monotonic()
        self.read = self.refused = 0
        self.files = []


def lag_ns(state: State) -> int | None:
    """Age of the latest record, on this machine's clock [ns]."""
    return None if state.watermark_ns is None else time.time_ns() - state.watermark_ns


def take_reasons(state: State, reasons: dict[str, str]) -> Iterator[tuple[str, Alert]]:
    """Bring the state up to date with the present reasons; yield the events."""
    now_ns = time.time_ns()
    for name, text in reasons.items():
        if name not in state.blind:
            state.blind[name] = Blindness(text, now_ns)
            yield "opened", of_blindness(name, state.blind[name])
        state.blind[name].text = text
    for name in [one for one in state.blind if one not in reasons]:
        yield "resolved", of_blindness(name, state.blind.pop(name), now_ns)


def exit_code(state: State) -> int:
    """Exit code of a monitor that ends now."""
    return next((code for name, code in EXITS.items() if name in state.blind), 0)
