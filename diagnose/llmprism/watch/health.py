"""A blind monitor does not look healthy: the reasons why it may not see, and their exit codes.

A reason is known by its name, or by its name and an exporter (``ExporterSilent/10.0.0.1``): an
exporter whose records are missing leaves a part of the cluster unseen, and is a warning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmprism.watch import exporters
from llmprism.watch.alerts import Alert, of_blindness
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.state import Blindness, State
from prism_common.quantities import counted, duration, percent

NO_RECORDS, REFUSED, LAG, DROPPED = "NoRecords", "RecordsRefused", "MonitorLags", "DatagramsDropped"
TOPOLOGY, NO_DIAGNOSIS = "TopologyRefused", "NoDiagnosis"
SOURCE, NOT_SENT, NOT_WRITTEN = "SourceUnreadable", "AlertsNotSent", "StateNotWritten"
EXITS = {
    NO_RECORDS: 5, REFUSED: 6, LAG: 7, DROPPED: 8, SOURCE: 9, NOT_SENT: 10, TOPOLOGY: 1,
    NO_DIAGNOSIS: 4,
}  # fmt: skip
"""Exit code of a monitor that ends while it is blind; the first reason counts."""

_REFUSED_SHARE = 0.5  # of the records that came together


@dataclass
class Health:
    """What the monitor has seen since the last look; times of this machine's steady clock [s].

    Attributes
    ----------
    latest_s : end of the last round in which records came.
    started_ns : of this machine's clock [ns].
    read, refused : records that came since the last look, and those of them that are no use.
    files : files that could not be read since the last look.
    dropped : datagrams that the kernel dropped, until it drops none for the quiet period.
    refusal : why most of the refused records are no use.
    topology, diagnosis : why the topology or the last diagnosis failed; empty if it did not.
    source, posts : why the source cannot be read, or alerts cannot be sent; empty if they can.
    """

    latest_s: float = field(default_factory=time.monotonic)
    read: int = 0
    refused: int = 0
    files: list[str] = field(default_factory=list)
    dropped: int = 0
    refusal: str = ""
    topology: str = ""
    diagnosis: str = ""
    source: str = ""
    posts: str = ""
    started_ns: int = field(default_factory=time.time_ns)
    _all_dropped: int = 0
    _dropped_s: float = 0.0

    def saw(self, read: int, refused: int, reason: str, files: list[str]) -> None:
        """Take note of what came from the source, and why records are no use."""
        self.read, self.refused = self.read + read, self.refused + refused
        self.refusal = reason if refused else self.refusal
        self.files += files

    def lost(self, dropped: int) -> None:
        """Take note of the datagrams that were dropped since the source was opened."""
        if dropped > self._all_dropped:
            self.dropped += dropped - self._all_dropped
            self._dropped_s = time.monotonic()
        self._all_dropped = dropped

    def reasons(
        self, state: State, settings: Settings, is_end: bool, is_behind: bool = False
    ) -> dict[str, str]:
        """The reasons why the monitor is blind now, with what to say of them."""
        found: dict[str, str] = {}
        silent_s = time.monotonic() - self.latest_s
        if silent_s > settings.silence_s and not (self.read or is_end or is_behind):
            found[NO_RECORDS] = f"no record has come for {duration(silent_s * 1e9)}"
        if is_end and state.watermark_ns is None:
            found[NO_RECORDS] = "no record has come"
        if self.files:
            found[REFUSED] = (
                f"{counted(len(self.files), 'file')} cannot be read, such as {self.files[0]}"
            )
        elif self.refused > _REFUSED_SHARE * self.read:
            share = percent(self.refused / max(self.read, 1))
            found[REFUSED] = f"{share} of the records are no use: most are {self.refusal}"
        behind_ns = time.time_ns() - state.watermark_ns if state.watermark_ns else 0
        if self.read and behind_ns > settings.lag_ns:
            found[LAG] = f"the latest record is {duration(behind_ns)} old"
        elif behind_ns < -settings.ahead_ns:
            found[LAG] = (
                f"the latest record is {duration(-behind_ns)} ahead of this machine's clock"
            )
        if not self.read:  # nothing has shown that these are over
            kept = {one: state.blind[one].text for one in (REFUSED, LAG) if one in state.blind}
            found = kept | found
        if time.monotonic() > self._dropped_s + settings.quiet_ns / SECOND_NS:
            self.dropped = 0
        if self.dropped:
            found[DROPPED] = f"the kernel dropped {self.dropped} datagrams"
        own = {TOPOLOGY: self.topology, NO_DIAGNOSIS: self.diagnosis}
        own |= {SOURCE: self.source, NOT_SENT: self.posts}
        found |= {name: text for name, text in own.items() if text}
        return found | exporters.problems(state, settings, time.time_ns(), self.started_ns)

    def looked(self, is_behind: bool) -> None:
        """Begin to count again; what comes while the monitor is behind waits."""
        if self.read or is_behind:
            self.latest_s = time.monotonic()
        self.read = self.refused = 0
        self.files = []


def take_reasons(state: State, reasons: dict[str, str]) -> Iterator[tuple[str, Alert]]:
    """Bring the state up to date with the present reasons; yield the events."""
    now_ns = time.time_ns()
    for name, text in reasons.items():
        if name not in state.blind:
            exporter = name.partition("/")[2]
            labels = {"exporter": exporter} if exporter else {}
            severity = "warning" if exporter else "critical"
            state.blind[name] = Blindness(text, now_ns, labels, severity)
            yield "opened", of_blindness(name, state.blind[name])
        state.blind[name].text = text
    for name in [one for one in state.blind if one not in reasons]:
        yield "resolved", of_blindness(name, state.blind.pop(name), now_ns)


def exit_code(state: State) -> int:
    """Exit code of a monitor that ends now."""
    return next((code for name, code in EXITS.items() if name in state.blind), 0)
