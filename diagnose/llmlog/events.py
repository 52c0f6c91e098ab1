"""Joining lines into events: a stack trace, an agent's summary, a line with a meaning.

Outputs of many ranks may lie in one file, so lines that continue others are joined by who
prints them (:class:`~llmlog.evidence.Writer`). Events of ordinary output are not kept; memory
grows with what failed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, groupby

from llmlog import statements, tracebacks
from llmlog.catalogue import Kind, classify
from llmlog.course import read_sizes
from llmlog.evidence import KEPT, TEXT_KEPT, Event, Evidence, Writer
from llmlog.learning import SAMPLE, SAMPLE_BYTES
from llmlog.ordinary import Ordinary
from llmlog.placing import FILE, TASK, place
from llmlog.progress import cut
from llmlog.reading import Job, LogFile
from llmlog.records import Lines, Record
from llmlog.streams import Intake, decoded, lines
from llmlog.summaries import learn, rank_in, read_summary, read_tasks
from llmlog.understanding import is_bad, is_bad_text, is_known
from prism_common.quantities import LONE
from prism_common.recorder import DumpError, looks_like_dump, read_dumps

_APART, _EVERY = 1000, 64
"""Lines of other writers within which an event continues, and after how many that is checked."""
_TELLING = ("fault", "report", "awaited", "reaction")
_FOLLOWING = ("reaction", "teardown")
"""Groups of events that follow from others."""
_OF_OTHERS = {"awaited", "lost", "host_memory", "preempted", "report"}
"""Verdicts that an exception of a rank can pass on others, and the group of all of an agent."""
_OWN = re.compile(
    r"(?s)\w+: \[?[Rr]ank \d+\b|.*(?:\bremote target \S+/task:\d|, RankID:\d)"
)  # whose it is
_SAYS_NOT_WHY = re.compile(r".*terminate called after throwing[^\n]*\n*")
"""An abort without a reason, which the end of anything can be."""
_READ = 2000
"""Characters of a line in which its kind is looked for."""
_BLOCK = 80
"""Lines after which a block of keys (of ``kubectl describe``) says nothing of a line."""
_SAMPLES = 8
"""Lines of unknown kinds that are shown."""


def read_job(job: Job, intake: Intake) -> Evidence:
    """Read all files of a job."""
    evidence = Evidence(job, job.nodes)
    ordinary: dict[str, Ordinary] = defaultdict(Ordinary)
    for (_, place_), parts in groupby(job.files, key=lambda file: (file.whole, file.place)):
        reader = _Reader(evidence, ordinary[place_])
        for file in parts:
            if looks_like_dump(file.path):
                _read_dump(evidence, file, intake)
            else:
                reader.read(file, lines(file.path, file.name, intake))
    if lone := evidence.progress.settle():
        intake.notes.append(f"{job.name}: {LONE}: {lone}")
    statements.settle(evidence)
    place(evidence)
    if evidence.passed_over:
        intake.notes.append(
            f"{job.name}: {evidence.passed_over} events repeat others of the same rank; "
            f"the first {KEPT - 1} of a kind and the last are kept"
        )
    return evidence


def _read_dump(evidence: Evidence, file: LogFile, intake: Intake) -> None:
    """Add the dumps of a file; of a rank that is there twice, the one that is read first."""
    try:
        found = read_dumps(file.path)
    except DumpError as error:
        intake.notes.append(f"{file.name}: {error}")
        return
    intake.dumps += len(found)
    for dump in found:
        evidence.dumps.setdefault(dump.rank, dump)
        evidence.dump_files.setdefault(dump.rank, file.name)


def _refine(event: Event) -> None:
    """An exception is of a known kind if its text is, and names a rank, a node or a peer."""
    text = event.statement[:_READ]
    of_nccl = "nccl" if "NCCL" in text else ""
    found, statement = classify(of_nccl, text), statements.read("", text)
    if found and any(found[1].groupdict().values()) and found[0].group in _TELLING:
        kind, match = found
        event.kind, event.group, event.fields = kind.name, kind.group, match.groupdict()
    elif (
        statement
        and (statement.placed or (event.group == "report" and statement.complete))
        and (event.group == "report" or statement.verdict.name in _OF_OTHERS)
    ):
        verdict = statement.verdict
        event.kind, event.group, event.fields = verdict.name, verdict.group, statement.fields
    elif event.rank is None and _OWN.match(text):
        event.fields = statements.subjects(text)
        event.rank = event.numbers("rank")[0]


def _follows(kind: Kind, record: Record) -> bool:
    """Whether a line only follows from another event, or quotes the kernel of some node."""
    quoted = kind.name == "out_of_memory" and record.tool != "kernel"
    return quoted or kind.group in _FOLLOWING


def _first(numbered: Iterator[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The first lines of a file, as many as a prefix is learned from."""
    first: list[tuple[int, bytes]] = []
    nbytes = 0
    for line, raw in numbered:
        first.append((line, raw))
        nbytes += len(raw)
        if len(first) >= SAMPLE or nbytes >= SAMPLE_BYTES:
            break
    return first


class _Reader:
    """Reads the parts of one file, the oldest first: joins lines of the same writer."""

    def __init__(self, evidence: Evidence, ordinary: Ordinary) -> None:
        self.evidence = evidence
        self.ordinary = ordinary
        self.open: dict[Writer, Event] = {}
        self.touched: dict[Writer, int] = {}
        self.blocks: dict[Writer, tuple[int, dict[str, str | None]]] = {}

    def read(self, file: LogFile, numbered: Iterator[tuple[int, bytes]]) -> None:
        self.file = file
        first = _first(numbered)
        self.parts = Lines(cut(decoded(raw))[-1] for _, raw in first)
        for line, raw in chain(first, numbered):
            self.evidence.lines += 1
            if self.open and line % _EVERY == 0:
                self._close(line - _APART)
            if not self.open and (known := self.ordinary.knows(raw)) is not None:
                self.evidence.understood += known
                continue
            self._line(line, raw)
        self._close()

    def _line(self, line: int, raw: bytes) -> None:
        *bars, text = cut(decoded(raw))
        record = self.parts.parse(text)
        for bar in bars:
            self.evidence.progress.read(bar, self.file.name, line, record.time)
        if record.rank is None and self.file.rank is not None:
            record = record._replace(rank=self.file.rank)
        writer = self._writer(record)
        if record.rank is not None and (writer.local is not None or writer.stream):
            self.evidence.ranks[writer] = record.rank
        if self._continues(writer, record) or self._begins(writer, record, line):
            self.touched[writer] = line
            self.evidence.understood += 1
            return
        known = is_known(record)
        self.evidence.understood += known
        if not known:
            self._unknown(record, line)
        names_process = record.rank is not None or record.tool == "nccl"
        self.ordinary.add(raw, names_process, known)

    def _unknown(self, record: Record, line: int) -> None:
        """Keep samples of lines of no known kind, and those with words of errors."""
        text = record.text[:200]
        if len(self.evidence.samples) < _SAMPLES:
            self.evidence.samples.setdefault(text[:12], text)
        if is_bad(record) and len(self.evidence.unread) < KEPT:
            self.evidence.unread.append((self.file.name, line, text))

    def _writer(self, record: Record) -> Writer:
        """Who prints: by the accounting, the prefix, the line itself, or the file's name."""
        file, origin = self.file, record.origin
        kernel = file.place == "kernel" or record.tool == "kernel"
        local = file.local if record.local is None else record.local
        stream = "" if local is not None and origin.task is None else origin.stream
        node: str | None
        if file.sure:
            node = file.node
        elif origin.host is not None:
            node = origin.host
        elif origin.task is not None:
            node, stream = f"{TASK}{origin.task}", ""
            self._task(origin.task, record)
        else:
            node = record.host or f"{FILE}{file.name}"
        if record.host is not None:
            self.evidence.hosts[file.name].add(record.host)
        if record.rank is not None and local is None:
            stream = f"rank {record.rank}"
        return Writer(node, None if kernel else local, kernel, "" if kernel else stream)

    def _task(self, task: int, record: Record) -> None:
        """Note what a line of a numbered process says about it."""
        self.evidence.tasks[task].add(record.origin.local)
        if record.rank is not None:
            self.evidence.task_ranks.add((task, record.rank))
        if record.host is not None:
            self.evidence.task_nodes.setdefault(task, record.host)

    def _continues(self, writer: Writer, record: Record) -> bool:
        """Whether the line belongs to the open event of its writer."""
        event = self.open.get(writer)
        if event is None:
            return False
        if event.kind in statements.VERDICT_NAMES and not event.error:
            if not record.tool and statements.continued(event, record.text[:_READ]):
                return True
            self._end(self.open.pop(writer))
            return not record.tool and self._another(writer, record, event)
        if not tracebacks.continues(event, record.tool, record.text):
            self._end(self.open.pop(writer))
            return False
        if tracebacks.is_complete(event, record.text):
            self._end(self.open.pop(writer))
        return True

    def _another(self, writer: Writer, record: Record, event: Event) -> bool:
        """Whether a line names one more subject of the verdict of ``event``."""
        found = statements.again(event, record.text[:_READ])
        if found is None:
            return False
        line = event.line + event.count
        self.open[writer] = self._event(event.kind, event.group, writer, record, line)
        self.open[writer].fields = event.fields | found
        return True

    def _close(self, before: int | None = None) -> None:
        """End the events whose last line is before ``before``; all of them if it is None."""
        for writer in [*self.open]:
            if before is None or self.touched.get(writer, 0) < before:
                self._end(self.open.pop(writer))
                self.touched.pop(writer, None)

    def _end(self, event: Event) -> None:
        """All lines of an event are there."""
        if event.kind == "summary":
            read_summary(self.evidence, event)
        elif event.kind == "exception" and event.error:
            _refine(event)
        elif event.kind in statements.VERDICT_NAMES and not statements.is_complete(event):
            self._leave(event)
        elif _SAYS_NOT_WHY.fullmatch(event.text):
            event.group = "report"
        elif event.kind == "exception" and not event.error and "Traceback" not in event.text:
            event.group = "advice"  # frames without an exception: a stack that was only printed

    def _leave(self, event: Event) -> None:
        """A verdict on nobody is no statement: its line was not understood."""
        evidence, event.group = self.evidence, "advice"
        evidence.understood -= 1
        bad = event.kind not in ("behind", "awaited") or is_bad_text(event.text)
        if bad and len(evidence.unread) < KEPT:
            evidence.unread.append((event.file, event.line, event.text[:200]))

    def _begins(self, writer: Writer, record: Record, line: int) -> bool:
        """Whether the line says something: an event, progress, or who prints."""
        text, evidence = record.text[:_READ], self.evidence
        learned = learn(evidence, writer, record) | read_sizes(text, evidence.sizes)
        if (row := statements.row_of(text)) is not None:
            evidence.rows[self.file.name].add(row)
            learned = True
        if begun := tracebacks.begin(record.tool, record.level, text):
            event = self.open[writer] = self._event(*begun, writer, record, line)
            tracebacks.begun(event)
            return True
        if evidence.progress.read(text, self.file.name, line, record.time, writer.node):
            return True
        stripped = record.level == "W" and not text.startswith("WARN")
        found = classify(record.tool, f"WARNING {text}" if stripped else text)
        if found and _follows(found[0], record) and self._says_more(writer, record, line):
            return True
        if found:
            kind, match = found
            if kind.group == "moment" and not record.time:
                return learned
            event = self._event(kind.name, kind.group, writer, record, line)
            event.fields = match.groupdict()
            if kind.group == "fault" and record.tool not in statements.SILENT_TOOLS:
                event.fields = statements.subjects(text) | event.fields
            event.row, event.job = statements.row_of(text), statements.job_in(text)
            read_tasks(evidence, event)
            return True
        if self._states(writer, record, line) or learned:
            return True
        if record.level == "F" and record.tool != "c10d":  # the process ends with it
            self.open[writer] = self._event("abort", "fault", writer, record, line)
        return record.level == "F"

    def _says_more(self, writer: Writer, record: Record, line: int) -> bool:
        """Whether a line of a part that waits or is ended names for whom, or why."""
        found = statements.read("", record.text[:_READ])
        telling = found and found.complete and found.verdict.group in ("awaited", "fault")
        return bool(telling) and self._states(writer, record, line)

    def _states(self, writer: Writer, record: Record, line: int) -> bool:
        """Whether the line is a statement about others, or names whom the next ones are about."""
        text = record.text[:_READ]
        if (block := statements.is_block(text)) is not None:
            self.blocks[writer] = (line, self.blocks.get(writer, (0, {}))[1] | block)
            for event in self.evidence.events[-1:]:
                named = event.fields.get("node") or event.writer != writer
                if not named and line - event.line < _BLOCK:
                    event.fields = block | event.fields
            return bool(block)
        found = statements.read(record.tool, text)
        if found is None:
            return False
        group = statements.group_of(found)
        event = self._event(found.verdict.name, group, writer, record, line)
        at, above = self.blocks.get(writer, (0, {}))
        event.fields = (above if line - at < _BLOCK else {}) | found.fields
        event.row, event.job = statements.row_of(text), statements.job_in(text)
        self.open[writer] = event
        return True

    def _event(self, kind: str, group: str, writer: Writer, record: Record, line: int) -> Event:
        rank = rank_in(record.text) if record.rank is None else record.rank
        event = Event(
            kind, group, writer, rank, self.file.name, line, record.time,
            record.text[:TEXT_KEPT],
        )  # fmt: skip
        self.evidence.keep(event)
        return event
