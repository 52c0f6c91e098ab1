"""Reading whatever lies in a folder of logs: one clear line for each defect, and nothing lost."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from llmlog.cli import app
from llmlog.streams import Intake, lines

TRACEBACK = b"""Traceback (most recent call last):
  File "train.py", line 3, in <module>
KeyError: 'lr'
"""


def cause(path: Path) -> tuple[str | None, list[str]]:
    """The cause that the command finds, and its messages after the first."""
    result = CliRunner().invoke(app, [str(path), "--json"])
    assert result.exit_code == 0, result.output
    failures = json.loads(result.stdout)["failures"]
    return failures[0]["cause"], result.stderr.strip().split("\n")[1:]


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


COMPRESSIONS = {"gz": gzip.compress, "zst": zstd, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("named", [True, False], ids=["named", "not named"])
def test_compression_is_recognised_by_content(tmp_path: Path, suffix: str, named: bool) -> None:
    path = tmp_path / (f"s1.log.{suffix}" if named else "s1.log")
    path.write_bytes(COMPRESSIONS[suffix](TRACEBACK))
    assert cause(path) == ("key_error", [])


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_truncated_file_is_read_up_to_its_end(tmp_path: Path, suffix: str) -> None:
    """Whatever a decoder gives byte by byte is there, and one sentence says that it ends early."""
    content = b"".join(b"%d ordinary line\n" % (number**3) for number in range(30_000))
    whole = COMPRESSIONS[suffix](content)
    path = tmp_path / "out.txt"
    path.write_bytes(whole[: len(whole) // 2])
    intake = Intake()
    found = [raw for _, raw in lines(path, "out.txt", intake)]
    assert 1_000 < len(found) < 30_000 or suffix == "bz2"  # bzip2 may need all for its one block
    assert content.startswith(b"\n".join(found))
    (note,) = intake.notes
    assert note.startswith("out.txt: ends early")


def test_concatenated_parts_are_all_read(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(gzip.compress(b"begin\n") + gzip.compress(TRACEBACK))
    assert cause(path) == ("key_error", [])


@pytest.mark.parametrize(
    ("damage", "note"),
    [
        (lambda text: b"x" * 3_000_000 + b"\n" + text, "very long lines"),
        (lambda text: b"x" * 3_000_000 + b"\r" + text, "very long lines"),
        (lambda text: b"caf\xe9\n" + text, "not UTF-8 were read as Latin-1: 1"),
        (lambda text: text.decode().encode("utf-16"), None),
        (lambda text: b"\xef\xbb\xbf" + text, None),
        (lambda text: b"\0" * 5000 + text, None),
        (lambda text: b"[rank" + b"9" * 5000 + b"]: " + text, None),
        (lambda text: text.replace(b"\n", b"\r\n"), None),
        (lambda text: b"10%|#  |\r20%|## |\r" + text, None),
        (lambda text: b"\x1b[31m" + text.replace(b"Key", b"\x1b[1mKey"), None),
    ],
)
def test_text_of_any_encoding_is_read(
    tmp_path: Path, damage: Callable[[bytes], bytes], note: str | None
) -> None:
    (tmp_path / "out.txt").write_bytes(damage(TRACEBACK))
    found, messages = cause(tmp_path / "out.txt")
    assert found == "key_error"
    assert len(messages) == (note is not None)
    assert note is None or note in messages[0]


def test_a_file_that_grows_is_read_up_to_its_first_size(tmp_path: Path) -> None:
    path, intake = tmp_path / "out.txt", Intake()
    path.write_bytes(b"one line\n" * 100_000)
    count = 0
    for _ in lines(path, "out.txt", intake):
        count += 1
        if count % 1000 == 0:
            with path.open("ab") as stream:
                stream.write(b"another\n" * 10_000)
    assert count == 100_000
    assert [note.split(";")[0] for note in intake.notes] == ["out.txt: grew while it was read"]


def test_an_archive_is_not_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "s1.log").write_bytes(TRACEBACK)
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "s1.log", "s1.log")
    found, (message,) = cause(tmp_path)
    assert found == "key_error"
    assert "a tar archive" in message


def test_one_unreadable_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "s1.log").write_bytes(TRACEBACK)
    (tmp_path / "s2.log").write_bytes(b"\x1f\x8b" + b"garbage" * 20)
    found, (message,) = cause(tmp_path)
    assert found == "key_error"
    assert message.startswith("s2.log: ends early after line 0")


def test_memory_does_not_grow_with_the_length_of_lines_or_the_number_of_events(
    tmp_path: Path,
) -> None:
    """Forty times as much of both needs no more memory."""
    peaks = []
    for factor in (1, 40):
        folder = tmp_path / str(factor)
        folder.mkdir()
        (folder / "s1.log").write_bytes(b"y" * (500_000 * factor) + b"\n" + TRACEBACK)
        (folder / "s2.log").write_bytes(TRACEBACK * (150 * factor))
        tracemalloc.start()
        found, messages = cause(folder)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found == "key_error"
        assert any("events repeat others" in text for text in messages)
    assert peaks[1] < 1.5 * peaks[0]
