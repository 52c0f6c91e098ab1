"""What must hold whatever comes in: a user error or an answer, nothing of others changed, no hang.

Each *target* takes what was drawn, and raises if a promise is broken. All errors other than those
for users count, and so do warnings of libraries.
"""

from __future__ import annotations

import json
import shutil
import signal
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st
from typer.testing import CliRunner

from evaluation.attacks.foreign import Entry, contents, entries, place
from evaluation.attacks.programs import PROGRAMS, Program
from evaluation.paths import ROOT
from llmlog.cli import app as llmlog_app
from llmprism.counters.diagnosing import diagnose as diagnose_counters
from llmprism.counters.naming import read_ports
from llmprism.counters.readers import read as read_counters
from llmprism.counters.readers.options import Options as CounterOptions
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import find
from llmprism.io.notes import Notes
from llmprism.io.topology import read_topology
from llmprism.network import read_network
from llmprism.watch.sources.directory import Directory
from llmprism.watch.sources.messages import Messages
from llmprism.watch.sources.spool import own_spool
from llmprism.watch.state_folder import StateFolder
from prism_common.errors import UserError
from prism_sim.operations.reading import read_operations
from prism_sim.operations.running import run as run_operations

# What a cut copy, a full disk, an editor or an attacker makes of bytes that we read.

Edit = Callable[[bytes], bytes]
TOKENS = (
    b"", b"0", b"-1", b"9223372036854775808", b"1e400", b"Infinity", b"NaN", b"null", b"..", b"\0",
    b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"\xff" * 10, b"\x80", b"\xff" * 9 + b"\1",
    struct.pack("<q", -1), struct.pack(">I", 1 << 31), b"\x1b[2J", b"\n", b'"',
)  # fmt: skip


def _put(share: float, token: bytes, instead: int) -> Edit:
    def edit(data: bytes) -> bytes:
        at = int(share * len(data))
        return data[:at] + token + data[at + instead :]

    return edit


def _cut(first: float, second: float) -> Edit:
    def edit(data: bytes) -> bytes:
        start, end = sorted((int(first * len(data)), int(second * len(data))))
        return data[:start] + data[end:]

    return edit


def _repeat(share: float, size: int, times: int) -> Edit:
    def edit(data: bytes) -> bytes:
        at = int(share * len(data))
        return data[:at] + data[at : at + size] * times + data[at + size :]

    return edit


def _flip(share: float, mask: int) -> Edit:
    def edit(data: bytes) -> bytes:
        at = min(int(share * len(data)), len(data) - 1)
        return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] if data else data

    return edit


_SHARE = st.floats(0, 1)
_EDITS = st.one_of(
    st.builds(_put, _SHARE, st.sampled_from(TOKENS), st.integers(0, 12)),
    st.builds(_cut, _SHARE, _SHARE),
    st.builds(_repeat, _SHARE, st.integers(1, 200), st.integers(0, 30)),
    st.builds(_flip, _SHARE, st.integers(1, 255)),
)


def edits(most: int = 4) -> st.SearchStrategy[list[Edit]]:
    """Draw some damage."""
    return st.lists(_EDITS, min_size=1, max_size=most)


def damaged(data: bytes, drawn: list[Edit]) -> bytes:
    """Return the bytes after some edits."""
    for edit in drawn:
        data = edit(data)
    return data[: 1 << 20]


SLOWEST_S = 60
"""Time of one example; more is a hang [s]."""
_FIXTURES = ROOT / "tests" / "fixtures"
_LARGEST = 1 << 16  # bytes of a file that is damaged
_STUDY = """\
description: For damaged points.
servers: 4
days: 2
seeds: 2
failures: {per_server_day: 0.1, campaign: acme, causes: [ECC error], between: {kind: exponential}}
policies:
  - name: one
    checkpoint: {kind: sync, stall_s: 60, interval: {kind: fixed, every_s: 1800}}
    detection: timeout
    localisation: by_hand
    recovery: {kind: requeue, requeue_s: 454}
"""


@dataclass(frozen=True)
class Target:
    """Something that is attacked: its name, what is drawn, and what must hold."""

    name: str
    drawn: st.SearchStrategy[Any]
    check: Callable[[Any], None]


@contextmanager
def _promised() -> Iterator[Path]:
    """Yield a new folder; errors for users end the block, warnings and hangs are errors."""

    def hang(*_: object) -> None:
        raise TimeoutError(f"no answer in {SLOWEST_S} s")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SLOWEST_S)
    try:
        with TemporaryDirectory() as folder, warnings.catch_warnings(), suppress(UserError):
            warnings.simplefilter("error")
            yield Path(folder)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_folder(program: Program, given: list[Entry]) -> None:
    """A program changes nothing of others in a folder, nor behind links in it."""
    with _promised() as here:
        folder, outside = here / "folder", here / "outside"
        place(given, folder, outside)
        before, far, own = contents(folder), contents(outside), program.owns(folder)
        with suppress(UserError, OSError):
            program.run(folder)
        after = contents(folder)
        lost = {name for name in before if after.get(name) != before[name]} - own
        if lost or contents(outside) != far:
            raise AssertionError(f"{program.name} changed {sorted(lost) or 'files outside'}")


@cache
def _files(*folders: str) -> list[Path]:
    every = (one for folder in folders for one in sorted((_FIXTURES / folder).rglob("*")))
    return [
        one
        for one in every
        if one.is_file() and one.suffix != ".md" and one.stat().st_size <= _LARGEST
    ]


_Damage = tuple[Path, list[Edit]]


def _damage(*folders: str) -> st.SearchStrategy[_Damage]:
    return st.tuples(st.deferred(lambda: st.sampled_from(_files(*folders))), edits())


def check_telemetry(given: _Damage) -> None:
    """Damaged telemetry is read or refused."""
    with _promised() as here:
        path = here / given[0].name
        path.write_bytes(damaged(given[0].read_bytes(), given[1]))
        ingest(find([str(path)]), here / "out" / "flows.parquet", Options(to_ns=1 << 60))


def check_counters(given: _Damage) -> None:
    """So are damaged counters of ports, and what is found can be written."""
    with _promised() as here:
        path = here / given[0].name
        path.write_bytes(damaged(given[0].read_bytes(), given[1]))
        network = read_topology(_FIXTURES / "counters" / "topology.json")
        ports = read_ports(_FIXTURES / "counters" / "ports.csv")
        found = diagnose_counters(read_counters([str(path)], CounterOptions()), network, ports)
        json.dumps(found.diagnosis.summary(), allow_nan=False)


def check_network(given: _Damage) -> None:
    """So is a damaged description of a network."""
    with _promised() as here:
        path = here / given[0].name
        path.write_bytes(damaged(given[0].read_bytes(), given[1]))
        read_network([path], {"node07": "10.7.0.7"}, Notes())


def check_logs(given: _Damage) -> None:
    """And a damaged log, dump or index of jobs."""
    with _promised() as here:
        path, edits_of = given
        top = next(one for one in path.parents if one.parent.name == "failures")
        shutil.copytree(top, here / "logs")
        target = here / "logs" / path.relative_to(top)
        target.write_bytes(damaged(path.read_bytes(), edits_of))
        result = CliRunner().invoke(llmlog_app, [str(here / "logs"), "--out", str(here / "out")])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception


def check_messages(given: list[bytes]) -> None:
    """Whatever a topic holds becomes records or is counted."""
    with _promised() as here:
        for file in Messages(here / "spool").files(given)[0]:
            with suppress(UserError):
                ingest([file], here / "out" / "flows.parquet", Options())


def check_state(given: tuple[Any, list[Edit]]) -> None:
    """A damaged or foreign state is refused, and removes nothing outside of its folder."""
    with _promised() as here:
        (here / "thesis.txt").write_text("precious")
        position, edits_of = given
        state = StateFolder(here / "state")
        with state.commit() as fresh:
            fresh.position = position
        state.close()
        file = here / "state" / "state.json"
        file.write_bytes(damaged(file.read_bytes(), edits_of))
        with suppress(UserError):
            state = StateFolder(here / "state")
            try:
                spool = here / "state" / "spool"
                Directory(spool, own_spool(spool)).take(state.state.position, 0.0)
            finally:
                state.close()
        if (here / "thesis.txt").read_text() != "precious":
            raise AssertionError("a file outside of the state was changed")


def check_points(given: list[Edit]) -> None:
    """A damaged point of a study is computed again, and all figures are the same."""
    with _promised() as here:
        (here / "study.yaml").write_text(_STUDY)
        study = read_operations(here / "study.yaml")
        expected = [one.result for _, one in run_operations(study, here / "points", 1)]
        point = min((here / "points").iterdir())
        whole = point.read_bytes()
        point.write_bytes(damaged(whole, given))
        found = [one.result for _, one in run_operations(study, here / "points", 1)]
        if _valid(point) and found != expected:
            return  # the damage has made another number of it, which nothing can tell
        if found != expected:
            raise AssertionError("a damaged point was taken for a result")


def _valid(point: Path) -> bool:
    try:
        return isinstance(json.loads(point.read_bytes())["row"]["ettr"], float)
    except (ValueError, KeyError, TypeError):
        return False


_POSITIONS = st.one_of(
    st.none(), st.integers(), st.text(max_size=5),
    st.dictionaries(
        st.sampled_from(["../thesis.txt", "../../thesis.txt", "/thesis.txt", "0", "a.lines"]),
        st.lists(st.integers(0, 9), max_size=2),
    ),
)  # fmt: skip
_MESSAGES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.binary(max_size=200).map(lambda data: b"\x08\x80\x80\x80\x80\x10\x12" + data),
        st.builds(
            lambda seconds, body: b"\x08" + seconds + b"\x12\x04" + body + b"\x1a\x04\x0a\0\0\1",
            st.binary(min_size=1, max_size=10), st.binary(min_size=4, max_size=4),
        ),
        st.binary(max_size=60).map(lambda data: b"{" + data),
    ),
    max_size=8,
)  # fmt: skip


def targets() -> list[Target]:
    """Return all targets: folders of each program, and everything that is read."""
    folders = [
        Target(f"folder of {one.name}", entries(), partial(check_folder, one)) for one in PROGRAMS
    ]
    return [
        *folders,
        Target("telemetry", _damage("cases", "formats", "exports", "tools"), check_telemetry),
        Target("counters", _damage("counters/formats", "counters/inputs"), check_counters),
        Target("networks", _damage("networks"), check_network),
        Target("logs", _damage("failures"), check_logs),
        Target("messages", _MESSAGES, check_messages),
        Target("state of a monitor", st.tuples(_POSITIONS, edits(2)), check_state),
        Target("points of a study", edits(2), check_points),
    ]
