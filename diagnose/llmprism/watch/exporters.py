"""Who sends records: clocks, activity and losses of each exporter.

An exporter is known by the observation point of its records. Its *offset* is the end of its latest
record minus the time of this machine at which that came. Offsets of exporters whose clocks agree
differ by no more than the time for which records wait for their export. Where datagrams tell when
they were sent, the offset is what they are ahead by when they come, which no waiting changes.

The window moves with the records of exporters whose clocks agree. One that is ahead of most others
does not move it; after AGAIN times in a row it is an alert, and its records are set aside, since
at a wrong time they would show a delay that nobody had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median_low

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.numerics.arrays import Bools, Ints
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.state import Exporter, State
from prism_common.quantities import duration

SILENT, CLOCK = "ExporterSilent", "ExporterClock"
AGAIN = 3
"""Times in a row: one file of an exporter may come before those of the others."""
LEAST_BOUND_NS = 10 * SECOND_NS
MEASURED_BOUND_NS = 5 * SECOND_NS
"""Of clocks that datagrams tell: they count seconds."""
_SHARE = 4  # of a window: records may wait so long for their export
_GAPS = 10  # usual times between two arrivals, in which an exporter is not silent
_KNOWN_TAKES = 5  # after which the usual time between two arrivals is known
_FORGOTTEN_NS = 86_400 * SECOND_NS
_MOST = 1_024
_LATE = 0.9  # of the records of a take end before a late one, and as many after an early one
_USUAL = 2  # usual times between two arrivals, for which an exporter is waited for
_CALMS = 0.8  # of the disorder is left after a take in order
_SMOOTH = 0.2  # weight of the latest value in the mean of all


@dataclass(frozen=True)
class Arrival:
    """What came of one exporter in one take.

    Attributes
    ----------
    early_ns, late_ns : end of an early record and of a late one [ns]: few records with impossible
        times do not change them.
    latest_ns : end of the latest one [ns].
    """

    early_ns: int
    late_ns: int
    latest_ns: int
    records: int


def arrivals(records: pa.Table) -> dict[str, Arrival]:
    """What came of each exporter."""
    names, code = _exporters(records["observer"])
    end = records["end_ns"].to_numpy()
    order = np.lexsort((end, code))
    counts = np.bincount(code, minlength=len(names))
    last = np.cumsum(counts) - 1
    few = ((counts - 1) * (1 - _LATE)).round().astype(np.int64)
    early, late, latest = (end[order[rows]] for rows in (last - counts + 1 + few, last - few, last))
    return {
        name: Arrival(int(early[at]), int(late[at]), int(latest[at]), int(counts[at]))
        for at, name in enumerate(names)
        if counts[at]
    }


def of_exporters(records: pa.Table, names: frozenset[str]) -> Bools:
    """Mark the records of some exporters."""
    known, code = _exporters(records["observer"])
    wanted = np.array([name in names for name in known], np.bool_)
    found: Bools = wanted[code] if len(known) else np.zeros(records.num_rows, np.bool_)
    return found


def _exporters(observers: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """Names of exporters, and the number of that of each record."""
    coded = pc.fill_null(observers, "").combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    plain = [str(one).partition("#")[0] for one in coded.dictionary.to_pylist()]
    names = sorted(set(plain))
    numbers = np.array([names.index(one) for one in plain], np.int64)
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return names, numbers[codes] if names else np.zeros(0, np.int64)


def note(state: State, came: Mapping[str, Arrival], now_ns: int) -> None:
    """Take note of what came of each exporter."""
    for name, arrival in came.items():
        if name not in state.exporters and len(state.exporters) >= _MOST:
            continue
        one = state.exporters.setdefault(name, Exporter())
        since_ns = max(now_ns - one.seen_ns, 1) if one.takes else 0
        if since_ns:
            one.gap_ns = _smooth(one.gap_ns, since_ns, one.takes)
            one.rate_per_s = arrival.records * SECOND_NS / since_ns * _SMOOTH + one.rate_per_s * (
                1 - _SMOOTH
            )
        one.latest_ns, one.seen_ns = arrival.late_ns, now_ns
        one.records, one.takes = one.records + arrival.records, one.takes + 1


def advance(state: State, moving: Mapping[str, Arrival], settings: Settings) -> None:
    """Take note of how far the records of exporters whose clocks agree have come."""
    for name, arrival in moving.items():
        if (one := state.exporters.get(name)) is not None:
            disorder_ns = max(one.until_ns - arrival.early_ns, round(_CALMS * one.disorder_ns))
            one.disorder_ns = min(disorder_ns, settings.window_ns // _SHARE)
            one.until_ns = max(one.until_ns, arrival.latest_ns)


def complete_ns(state: State, settings: Settings, now_ns: int) -> int:
    """Time up to which the records of exporters that send, and whose clocks agree, have come [ns].

    An exporter is waited for until it is silent for longer than usual, and never longer than
    records may wait for their export.
    """
    latest_ns = state.watermark_ns or 0
    found = [
        one.until_ns - one.disorder_ns
        for one in state.exporters.values()
        if one.until_ns
        and not one.disagreements
        and now_ns <= one.seen_ns + _USUAL * one.gap_ns + SECOND_NS
    ]
    least_ns = latest_ns - settings.window_ns // _SHARE
    return min(latest_ns, max(min(found, default=latest_ns), least_ns))


def _smooth(mean: int, value: int, count: int) -> int:
    weight = max(_SMOOTH, 1 / count)
    return round(mean + (value - mean) * weight)


@dataclass(frozen=True)
class Clocks:
    """The clocks of exporters that send at present.

    Attributes
    ----------
    offsets_ns : of each [ns].
    agreed_ns : the offset that most others agree with [ns]; None if there are fewer than two.
    bound_ns : by how much an offset may differ from it [ns].
    """

    offsets_ns: dict[str, int]
    agreed_ns: int | None
    bound_ns: int

    def ahead(self) -> frozenset[str]:
        """Exporters whose records end later than those of the others can."""
        return frozenset(one for one, away in self._away() if away > self.bound_ns)

    def behind(self) -> frozenset[str]:
        """Exporters whose records are so old that windows do not have them all."""
        return frozenset(one for one, away in self._away() if away < -2 * self.bound_ns)

    def away_ns(self, name: str) -> int:
        """By how much the clock of an exporter is ahead of those of most others [ns]."""
        return self.offsets_ns.get(name, 0) - (self.agreed_ns or 0)

    def _away(self) -> Iterator[tuple[str, int]]:
        if self.agreed_ns is not None:
            yield from ((name, self.away_ns(name)) for name in self.offsets_ns)


def clocks(exporters: Mapping[str, Exporter], settings: Settings, now_ns: int) -> Clocks:
    """The clocks of the exporters that have sent within the silence bound.

    Of two that differ, the one closer to this machine's clock is right if it is close to that;
    otherwise the one that is behind, since it moves no window to a time that has not come.
    """
    since_ns = now_ns - round(settings.silence_s * SECOND_NS)
    sending = {name: one for name, one in exporters.items() if one.seen_ns >= since_ns}
    measured = {n: one.ahead_ns for n, one in sending.items() if one.ahead_ns is not None}
    is_measured = len(measured) == len(sending)
    offsets = measured if is_measured else {name: one.offset_ns for name, one in sending.items()}
    agreed = median_low(offsets.values()) if len(offsets) > 1 else None
    nearest = min(offsets.values(), key=abs, default=0)
    if len(offsets) == 2 and abs(nearest) < settings.lag_ns:
        agreed = nearest
    bound_ns = max(LEAST_BOUND_NS, settings.window_ns // _SHARE)
    return Clocks(offsets, agreed, MEASURED_BOUND_NS if is_measured else bound_ns)


def count_disagreements(state: State, came: Mapping[str, Arrival], found: Clocks) -> None:
    """Count how often in a row the clocks of exporters that sent did not agree."""
    wrong = found.ahead() | found.behind()
    for name in came.keys() & state.exporters.keys():
        one = state.exporters[name]
        one.disagreements = one.disagreements + 1 if name in wrong else 0


def out_of_step(state: State, found: Clocks) -> frozenset[str]:
    """Exporters ahead of the others for long enough: their records are set aside."""
    return frozenset(name for name in found.ahead() if state.exporters[name].disagreements >= AGAIN)


def problems(state: State, settings: Settings, now_ns: int, started_ns: int) -> dict[str, str]:
    """What is wrong with each exporter now, by the names of the alert and of the exporter.

    None is silent for longer than the monitor runs, since ``started_ns`` [ns].
    """
    found: dict[str, str] = {}
    present = clocks(state.exporters, settings, now_ns)
    for name, one in state.exporters.items():
        if one.disagreements >= AGAIN:
            away_ns = present.away_ns(name)
            side = "ahead of" if away_ns > 0 else "behind"
            found[f"{CLOCK}/{name}"] = (
                f"the clock of exporter {name} is {duration(abs(away_ns))} {side} those of the "
                "others"
            )
        silent_ns = now_ns - max(one.seen_ns, started_ns)
        if name not in present.offsets_ns and present.offsets_ns and silent_ns > _patience_ns(one):
            found[f"{SILENT}/{name}"] = (
                f"exporter {name} has sent nothing for {duration(silent_ns)}"
            )
    return found


def _patience_ns(one: Exporter) -> int:
    """How long an exporter may send nothing [ns]."""
    return _GAPS * one.gap_ns if one.takes >= _KNOWN_TAKES else 60 * SECOND_NS


def forget(state: State, now_ns: int) -> None:
    """Forget the exporters that have sent nothing for a day."""
    kept = {n: one for n, one in state.exporters.items() if now_ns - one.seen_ns < _FORGOTTEN_NS}
    state.exporters = kept


@dataclass
class Coverage:
    """Which addresses send in the records of each exporter."""

    _senders: dict[str, set[str]] = field(default_factory=dict)

    def add(self, records: pa.Table) -> None:
        """Take note of records."""
        names, code = _exporters(records["observer"])
        for number, name in enumerate(names if len(self._senders) < _MOST else ()):
            own = records.filter(pa.array(code == number))["src"].unique().to_pylist()
            self._senders.setdefault(name, set()).update(own)

    def unseen(self, lost: frozenset[str]) -> frozenset[str]:
        """Addresses whose traffic only the exporters ``lost`` recorded."""
        seen = [own for name, own in self._senders.items() if name not in lost]
        gone = [own for name, own in self._senders.items() if name in lost]
        return frozenset(set().union(*gone).difference(*seen)) if gone else frozenset()
