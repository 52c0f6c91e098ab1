"""The catalogue is data: each row has a real line, and says of which stack, version and source."""

from __future__ import annotations

import pytest

from llmlog import statements
from llmlog.catalogue import (
    KINDS,
    MEANINGS,
    READERS,
    VERDICTS,
    Kind,
    Meaning,
    Reader,
    Verdict,
    classify,
)
from llmlog.progress import Progress
from llmlog.records import Lines


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.line[:50]) for kind in KINDS])
def test_each_kind_is_that_of_its_line(kind: Kind) -> None:
    record = Lines([kind.line]).parse(kind.line)
    found = classify(kind.tool or record.tool, record.text)
    assert found is not None
    assert (found[0].name, found[0].group) == (kind.name, kind.group)


@pytest.mark.parametrize("meaning", [pytest.param(one, id=one.line[:50]) for one in MEANINGS])
def test_each_meaning_is_the_first_of_its_line(meaning: Meaning) -> None:
    first = next(one for one in MEANINGS if one.pattern.search(meaning.line))
    assert first.causes == meaning.causes


@pytest.mark.parametrize("reader", [pytest.param(one, id=one.line[:50]) for one in READERS])
def test_each_reader_of_progress_reads_its_line(reader: Reader) -> None:
    progress = Progress()
    text = Lines([reader.line]).parse(reader.line).text
    assert progress.read(text, "out.txt", 1)
    match = reader.pattern.search(text)
    assert match is not None
    number = match.groupdict().get("n")
    shown = [one.number for one in progress.iterations]
    assert shown == ([int(number)] if number else [])
    assert progress.shown


@pytest.mark.parametrize("verdict", [pytest.param(one, id=one.line[:50]) for one in VERDICTS])
def test_each_verdict_is_passed_on_the_subject_of_its_line(verdict: Verdict) -> None:
    statement = statements.read("", verdict.line)
    assert statement is not None
    assert statement.verdict.name == verdict.name
    assert statement.fields.items() >= verdict.says.items()


@pytest.mark.parametrize(
    "text",
    [
        "Rank 2 exited with exit code 0",
        "Sent rank termination signal 9 to rank 9",
        "If rank 3 died, restart the job",
        "The actor is dead. There are some potential root causes. (1) killed by the OOM killer",
    ],
)
def test_what_is_sent_or_held_possible_is_no_statement(text: str) -> None:
    statement = statements.read("", text)
    assert statement is None or not statement.complete
