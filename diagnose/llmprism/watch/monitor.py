"""The loop of a monitor: take records, keep them, diagnose the window, tell what is new.

Each round makes at most two commits. The first has the records and the position of the source
behind them. The second has what the diagnosis of a window changed, and the events. Events are
written after their commit, so a crash between the two only delays them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from llmprism.collectives.reading import Records
from llmprism.ingest.flow_cache import address_text
from llmprism.ingest.options import Options
from llmprism.ingest.starts import ExporterMemory, Starts
from llmprism.watch.alerts import Alert, AlertLines
from llmprism.watch.diagnosing import Diagnoser
from llmprism.watch.exporters import Coverage, complete_ns
from llmprism.watch.exporters import forget as forget_exporters
from llmprism.watch.following import Followed, count_steps, follow
from llmprism.watch.health import Health, exit_code, take_reasons
from llmprism.watch.incidents import closed, forget, resolved, take_findings
from llmprism.watch.intake import SET_ASIDE, Dumps, take_in
from llmprism.watch.listening import Listener
from llmprism.watch.logging import reason_of
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.sources import Source, Taken
from llmprism.watch.state import COLLECTIVES, State
from llmprism.watch.state_folder import StateFolder
from llmprism.watch.tracking.records import COLUMNS
from llmprism.watch.tracking.tracker import Tracker, Turn
from llmprism.watch.view import View
from llmprism.watch.window import Span, next_span, read_parts, write_part
from prism_common.errors import UserError

WAIT_S = 1.0  # for records, before health is looked at
ROUND_S = 5.0  # for windows, before health is looked at


class Monitor:
    """One source, one network, one folder of state."""

    def __init__(
        self,
        source: Source,
        network: Network,
        folder: StateFolder,
        settings: Settings,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._source, self._network, self._folder = source, network, folder
        self._settings, self._listeners = settings, listeners
        self._lines = AlertLines(folder.path / "alerts.jsonl")
        self._health = Health()
        self._tracker = Tracker(settings)
        self._diagnoser = Diagnoser(folder, network, settings)
        self._coverage = Coverage()
        self._memory = ExporterMemory(Starts.restored(folder.state.starts))
        self._lost_before = {name: one.lost for name, one in folder.state.exporters.items()}
        self._is_interrupted: Callable[[], bool] = lambda: False
        self._failed = ""
        self._dumps = Dumps()
        self._taken: Taken | None = None  # whose windows are not all diagnosed yet

    def run(
        self, is_over: Callable[[], bool], is_interrupted: Callable[[], bool] = lambda: False
    ) -> int:
        """Watch until the source ends, or ``is_over`` when no window waits; return the exit code.

        ``is_interrupted`` is asked before each window as well: then the monitor ends at once, and
        goes on with that window when it is started again.
        """
        self._is_interrupted = is_interrupted
        while True:
            try:
                is_end = self._round()
                self._tell_failure("")
            except OSError as error:
                self._tracker.forget()
                self._tell_failure(f"{error.filename or self._folder.path}: {error.strerror}")
                time.sleep(WAIT_S)
                is_end = False
            if is_end or is_interrupted() or (self._taken is None and is_over()):
                break
        self._source.close()
        return 1 if self._failed else exit_code(self._folder.state)

    def adopt(self, settings: Settings) -> None:
        """Go on with other bounds."""
        self._settings = self._tracker.settings = self._diagnoser.settings = settings

    def _round(self) -> bool:
        """Take what has come, and do what follows from it; return whether it was the last."""
        self._deliver()
        is_behind = self._taken is not None
        taken = self._taken or self._received()
        until_s = time.monotonic() + ROUND_S
        while (span := self._next(taken.is_end)) and time.monotonic() < until_s:
            if self._is_interrupted():
                break
            is_last = taken.is_end and span.end_ns >= (self._folder.state.watermark_ns or 0)
            turn = self._tracker.follow(span, self._folder.state.jobs)
            if turn.is_due or is_last:
                self._diagnose(span, Turn() if is_last else turn, is_last)
            else:
                self._follow(span, turn.steps)
            self._deliver()
        self._taken = taken if span else None
        self._look(taken, is_behind)
        return taken.is_end and span is None

    def _received(self) -> Taken:
        """What has come, which is stored."""
        taken, state = self._take(), self._folder.state
        operations, places = Records(), state.dumps
        if (folder := self._settings.collectives) is not None:
            try:
                operations, places = self._dumps.take(folder, state.dumps, taken.is_end)
            except (OSError, UserError) as error:
                what = f"collectives cannot be read: {reason_of(error)}"
                self._health.source = self._health.source or what
        self._network.refresh()
        if self._tracker.cover(self._network.topology):
            self._add_stored()
        if taken.files or taken.refused or places != state.dumps:
            self._keep(taken, operations, places)
        self._source.stored(taken)
        for listener in self._listeners:
            listener.took(self._folder.state, taken)
        return taken

    def _add_stored(self) -> None:
        """Let the tracker have the stored records that no window had."""
        state = self._folder.state
        since_ns = state.cursor_ns or 0
        parts = [one for one in state.parts if one.last_ns > since_ns]
        for table in read_parts(parts, self._folder.parts, COLUMNS):
            self._tracker.add(table.filter(pc.greater(table["end_ns"], since_ns)))

    def _take(self) -> Taken:
        """What has come; nothing if the source cannot be read."""
        position = self._folder.state.position
        try:
            taken = self._source.take(position, WAIT_S)
        except Exception as error:
            self._health.source = f"the source cannot be read: {reason_of(error)}"
            time.sleep(WAIT_S)
            return Taken(position=position)
        self._health.source = ""
        return taken

    def _keep(self, taken: Taken, operations: Records, places: dict[str, Any]) -> None:
        """Store records and operations, and the positions of the sources behind them."""
        settings, network = self._settings, self._network
        memory = self._memory
        options = Options(homes=network.leaf_of, points=network.names.points, exporters=memory)
        with self._folder.commit() as state:
            topology = network.topology
            found = take_in(taken.files, operations, topology, options, settings, state)
            state.position, state.dumps = taken.position, places
            state.starts = memory.starts.stored()
            self._take_note(state)
            found.fates[SET_ASIDE] += taken.refused
            for fate, count in found.fates.items():
                state.count(fate, count)
            folder = self._folder.parts
            for records in (found.records, found.beside):
                if records.num_rows:
                    kind = COLLECTIVES if "communicator" in records.column_names else ""
                    name = f"{state.commit}{kind}.parquet"
                    part = write_part(records, found.notes, folder, name, state.jobs)
                    state.parts.append(part)
            latest_ns = taken.watermark_ns or found.latest_ns
            for one in state.exporters.values():
                one.until_ns = max(one.until_ns, taken.watermark_ns or 0)
            if found.records.num_rows and latest_ns is not None:
                state.watermark_ns = max(state.watermark_ns or latest_ns, latest_ns)
        self._coverage.add(found.records)
        self._tracker.add(found.records)
        self._tracker.add(found.beside)
        self._health.saw(found.read, found.refused, found.reason, found.unread)

    def _take_note(self, state: State) -> None:
        """Of what exporters lost, beside what was known before the start, and of their clocks."""
        points, memory = self._network.names.points, self._memory
        for raw in memory.ahead_ns.keys() | memory.sequences.lost.keys():
            name = points.get(address_text(raw), address_text(raw))
            if (one := state.exporters.get(name)) is not None:
                one.lost = self._lost_before.get(name, 0) + memory.sequences.lost[raw]
                one.ahead_ns = memory.ahead_ns.get(raw)

    def _next(self, is_end: bool) -> Span | None:
        state, settings = self._folder.state, self._settings
        complete = complete_ns(state, settings, time.time_ns())
        until_ns = (state.watermark_ns or 0) if is_end else complete
        later_ns = self._tracker.later_ns(state.cursor_ns or 0)
        return next_span(state, settings, until_ns, later_ns, is_end)

    def _diagnose(self, span: Span, turn: Turn, is_last: bool) -> None:
        """Diagnose a window, and store what follows from it.

        A method may fail in any way: then the window is passed over, and the next one is tried.
        """
        followed: Followed | None = None
        try:
            followed, turn = self._diagnosed(span, turn, is_last)
            if followed is not None:
                self._learn(followed, span, turn)
        except OSError:
            raise
        except Exception as error:
            with self._folder.commit() as state:
                self._diagnoser.failed(error, state)
                if state.cursor_ns is None or state.cursor_ns < span.end_ns:
                    self._move(state, span)
            followed = None
        self._health.diagnosis = self._diagnoser.problem
        self._folder.tidy()
        if followed is None:
            self._tracker.forget(until_ns=span.end_ns + self._settings.pause_ns)

    def _diagnosed(self, span: Span, turn: Turn, is_last: bool) -> tuple[Followed | None, Turn]:
        """What a window shows, in lasting names; None if its records allow no diagnosis."""
        began_s = time.monotonic()
        with self._folder.commit() as state:
            followed = None
            diagnosis, turn = self._diagnoser.diagnosis(state, span, turn, is_last)
            if diagnosis is not None:
                diagnosis = self._diagnoser.with_collectives(diagnosis, state, span)
                diagnosis = diagnosis.with_names(self._network.names.scheduled)
                count_steps(turn.steps, state, span.start_ns)
                servers = self._network.servers
                shown = Span(max(span.start_ns, turn.since_ns), span.end_ns)
                followed = follow(diagnosis, servers, state, shown, is_last, turn.others)
                took_s = time.monotonic() - began_s
                folder = self._diagnoser.flows.parent
                view = View(followed, self._network, span, folder, took_s, turn.others, turn.steps)
                _add(state, self._events(view, state, is_last))
                for listener in self._listeners:
                    listener.diagnosed(state, view)
            self._move(state, span)
        return followed, turn

    def _learn(self, followed: Followed, span: Span, turn: Turn) -> None:
        """Learn how to follow the jobs of a diagnosis."""
        state = self._folder.state
        others = [one for one in state.jobs if one.name in turn.others]
        since_ns = max(span.start_ns, turn.since_ns)
        parts = [one for one in state.parts if one.last_ns > since_ns]
        tables = read_parts(parts, self._folder.parts, COLUMNS, others)
        self._tracker.learn(followed, tables, span, state, turn)

    def _events(self, view: View, state: State, is_last: bool) -> Iterator[tuple[str, Alert]]:
        """What happened, by a diagnosis and by the steps of other jobs."""
        settings, network = self._settings, self._network
        lost = {name.partition("/")[2] for name in state.blind if "/" in name}
        unseen = self._coverage.unseen(frozenset(lost))
        followed, span = view.followed, view.span
        yield from take_findings(followed, network, state, span, settings, is_last, unseen)
        yield from resolved(view.steps, state, settings.quiet_ns)

    def _quiet(self, steps: pd.DataFrame, state: State, span: Span) -> Iterator[tuple[str, Alert]]:
        """What is over, by the steps of jobs that were followed."""
        yield from resolved(steps, state, self._settings.quiet_ns)
        yield from closed(state, span, self._settings)

    def _follow(self, span: Span, steps: pd.DataFrame) -> None:
        """Store the steps that were completed in a window which needs no diagnosis."""
        with self._folder.commit() as state:
            count_steps(steps, state, span.start_ns)
            _add(state, self._quiet(steps, state, span))
            self._move(state, span)
            for listener in self._listeners:
                listener.followed(state, steps)
        self._folder.tidy()

    def _move(self, state: State, span: Span) -> None:
        """Let go of what no later window has."""
        state.windows += 1
        state.cursor_ns = span.end_ns
        state.parts = [one for one in state.parts if one.last_ns > span.start_ns]
        forget(state, span.start_ns - self._settings.quiet_ns)

    def _look(self, taken: Taken, is_behind: bool) -> None:
        """Look whether the monitor is blind; while it is behind, it has not asked for records."""
        self._health.topology = self._network.problem or self._network.names.problem
        self._health.lost(taken.dropped)
        self._health.posts = "; ".join(one.problem for one in self._listeners if one.problem)
        state, settings = self._folder.state, self._settings
        reasons = self._health.reasons(state, settings, taken.is_end, is_behind)
        self._health.looked(is_behind)
        if reasons.keys() != state.blind.keys():
            with self._folder.commit() as state:
                forget_exporters(state, time.time_ns())
                _add(state, take_reasons(state, reasons))
        self._deliver()

    def _deliver(self) -> None:
        """Write the events that are not written yet."""
        state = self._folder.state
        events = self._lines.write(state.outbox)
        for listener in self._listeners:
            listener.happened(state, events)

    def _tell_failure(self, text: str) -> None:
        if text != self._failed:
            self._failed = text
            for listener in self._listeners:
                listener.failed_to_store(text)


def _add(state: State, events: Iterable[tuple[str, Alert]]) -> None:
    """Number events, and put them into the outbox; the file of events has those of before."""
    state.outbox = []
    for event, alert in events:
        state.events += 1
        state.outbox.append(alert.as_event(event, state.events))
