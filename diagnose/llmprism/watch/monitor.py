"""The loop of a monitor: take records, keep them, diagnose the window, tell what is new.

Each round makes at most two commits. The first has the records and the position of the source
behind them. The second has what the diagnosis of a window changed, and the events. Events are
written after their commit, so a crash between the two only delays them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from llmprism.diagnosis import Diagnosis
from llmprism.ingest.options import Options
from llmprism.watch.alerts import Alert
from llmprism.watch.alerts.lines import AlertLines
from llmprism.watch.apart import diagnose_window, staying
from llmprism.watch.following import count_steps, follow
from llmprism.watch.health import Health, exit_code, take_reasons
from llmprism.watch.incidents import forget, resolved, take_findings
from llmprism.watch.intake import take_in
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.sources import Source, Taken
from llmprism.watch.state import State, StateFolder
from llmprism.watch.tracking.records import COLUMNS
from llmprism.watch.tracking.tracker import Tracker, Turn
from llmprism.watch.view import View
from llmprism.watch.window import Span, next_span, read_parts, write_part
from prism_common.errors import UserError

WAIT_S = 1.0  # for records, before health is looked at


class Listener(Protocol):
    """Something that shows or sends what a monitor finds."""

    def took(self, state: State, taken: Taken) -> None:
        """Records came, or did not."""

    def diagnosed(self, state: State, view: View) -> None:
        """A window was diagnosed; called before the commit, and again if that fails."""

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Steps were completed without a new diagnosis; called before the commit as well."""

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """These events were written; called in every round, also without any."""

    def failed_to_store(self, text: str) -> None:
        """The disk did not take the state; empty if it does again."""


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
        self._failed = ""

    def run(self, is_over: Callable[[], bool]) -> int:
        """Watch until the source ends or ``is_over``; return the exit code."""
        while True:
            try:
                is_end = self._round()
                self._tell_failure("")
            except OSError as error:
                self._tracker.forget()
                self._tell_failure(f"{error.filename or self._folder.path}: {error.strerror}")
                time.sleep(WAIT_S)
                is_end = False
            if is_end or is_over():
                break
        self._source.close()
        return 1 if self._failed else exit_code(self._folder.state)

    def _round(self) -> bool:
        """Take what has come, and do what follows from it; return whether it was the last."""
        self._deliver()
        taken = self._source.take(self._folder.state.position, WAIT_S)
        self._network.refresh()
        if taken.files:
            self._keep(taken)
        self._source.stored(taken)
        for listener in self._listeners:
            listener.took(self._folder.state, taken)
        while span := self._next(taken.is_end):
            known = self._folder.state.jobs
            turn = Turn() if taken.is_end else self._tracker.follow(span, known)
            if turn.is_due:
                self._diagnose(span, turn, taken.is_end)
            else:
                self._follow(span, turn.steps)
            self._deliver()
        self._look(taken)
        return taken.is_end

    def _keep(self, taken: Taken) -> None:
        """Store the records, and the position of the source behind them."""
        settings, options = self._settings, Options(homes=self._network.leaf_of)
        with self._folder.commit() as state:
            found = take_in(taken.files, self._network.topology, options, settings, state)
            state.position = taken.position
            for fate, count in found.fates.items():
                state.count(fate, count)
            if found.records.num_rows:
                name = f"{state.commit}.parquet"
                folder = self._folder.parts
                part = write_part(found.records, found.notes, folder, name, state.jobs)
                state.parts.append(part)
                latest = taken.watermark_ns or part.last_ns
                state.watermark_ns = max(state.watermark_ns or latest, latest)
        self._tracker.add(found.records, self._network.topology)
        self._health.saw(found.read, found.refused, found.unread)

    def _next(self, is_end: bool) -> Span | None:
        return next_span(self._folder.state, self._settings, is_end)

    def _diagnose(self, span: Span, turn: Turn, is_end: bool) -> None:
        """Diagnose a window, and store what follows from it."""
        began_s = time.monotonic()
        with self._folder.commit() as state:
            is_last = is_end and span.end_ns >= (state.watermark_ns or 0)
            followed = None
            diagnosis, turn = self._diagnosis(state, span, turn, is_last)
            if diagnosis is not None:
                count_steps(turn.steps, state, span.start_ns)
                servers = self._network.servers
                followed = follow(diagnosis, servers, state, is_last, turn.others)
                took_s = time.monotonic() - began_s
                folder = self._flows.parent
                view = View(followed, self._network, span, folder, took_s, turn.others, turn.steps)
                _add(state, self._events(view, state, is_last))
                for listener in self._listeners:
                    listener.diagnosed(state, view)
            self._move(state, span)
        self._folder.tidy()
        if followed is None:
            self._tracker.forget()
        else:
            state = self._folder.state
            others = [one for one in state.jobs if one.name in turn.others]
            since_ns = max(span.start_ns, turn.since_ns)
            parts = [one for one in state.parts if one.last_ns > since_ns]
            tables = read_parts(parts, self._folder.parts, COLUMNS, others)
            self._tracker.learn(followed, tables, span, state, turn)

    def _events(self, view: View, state: State, is_last: bool) -> Iterator[tuple[str, Alert]]:
        """What happened, by a diagnosis and by the steps of other jobs."""
        settings, parts = self._settings, self._network.parts
        yield from take_findings(view.followed, parts, state, view.span, settings, is_last)
        yield from resolved(_last_ends(view.steps), state, settings.quiet_ns)

    def _follow(self, span: Span, steps: pd.DataFrame) -> None:
        """Store the steps that were completed in a window which needs no diagnosis."""
        with self._folder.commit() as state:
            count_steps(steps, state, span.start_ns)
            _add(state, resolved(_last_ends(steps), state, self._settings.quiet_ns))
            self._move(state, span)
            for listener in self._listeners:
                listener.followed(state, steps)
        self._folder.tidy()

    def _move(self, state: State, span: Span) -> None:
        """Let go of what no later window has."""
        state.cursor_ns = span.end_ns
        state.parts = [one for one in state.parts if one.last_ns > span.start_ns]
        forget(state, span.start_ns - self._settings.quiet_ns)

    def _diagnosis(
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
                others = staying(diagnosis, self._network, state, turn.others)
                if others == turn.others:
                    return diagnosis, turn
                if others:
                    return self._without(state, recent, others), turn.only(others)
        return self._whole(state, span, is_last), Turn()

    def _whole(self, state: State, span: Span, is_last: bool) -> Diagnosis | None:
        """The diagnosis of a whole window; None if its records allow none.

        A window that is not whole yet may have too few records; that is not blindness.
        """
        is_whole = is_last or min(one.first_ns for one in state.parts) <= span.start_ns
        try:
            diagnosis = self._without(state, span, frozenset())
        except UserError as error:
            self._health.diagnosis = str(error.problems[0])
            return None
        doubts = "" if diagnosis.verdict.can_tell else "; ".join(diagnosis.verdict.lines())
        self._health.diagnosis = doubts if is_whole else ""
        return diagnosis

    def _without(self, state: State, span: Span, others: frozenset[str]) -> Diagnosis:
        settings, network = self._settings, self._network
        return diagnose_window(self._folder, state, span, network, settings, others, self._flows)

    @property
    def _flows(self) -> Path:
        return self._folder.path / "window" / "flows.parquet"

    def _look(self, taken: Taken) -> None:
        """Look whether the monitor is blind."""
        self._health.topology = self._network.problem
        self._health.lost(taken.dropped)
        reasons = self._health.reasons(self._folder.state, self._settings, taken.is_end)
        self._health.looked()
        if reasons.keys() != self._folder.state.blind.keys():
            with self._folder.commit() as state:
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


def _last_ends(steps: pd.DataFrame) -> pd.Series:
    """The end of the last step of each job [ns]."""
    return steps.groupby("job")["end_ns"].max()


def _add(state: State, events: Iterable[tuple[str, Alert]]) -> None:
    """Number events, and put them into the outbox; the file of events has those of before."""
    state.outbox = []
    for event, alert in events:
        state.events += 1
        state.outbox.append(alert.as_event(event, state.events))
