"""The table of attacks: what was tried, and how often the promise held.

The first rows repeat what is drawn for folders and for everything that is read; the others are
single attacks, each with several sizes or forms. ``python -m evaluation attacks`` writes the page.
"""

from __future__ import annotations

import pickle
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from evaluation.attacks.fuzzing import attack
from evaluation.attacks.targets import targets
from evaluation.paths import REFERENCE
from llmprism.watch.live.application import Live, application
from llmprism.watch.live.serving import served
from llmprism.watch.metrics import Metrics
from llmprism.watch.sources.spool import Spool
from llmprism.watch.sources.standard_input import StandardInput
from llmprism.watch.sources.templates import Templates
from prism_common.errors import Problem, UserError
from prism_common.escapes import printable
from prism_common.recorder import PickleError, unpickled
from prism_sim.render.markdown import table

SEED = 4_711
EXAMPLES = 40
OF_READERS = {"counters": 2_000, "telemetry": 1_400, "networks": 800, "logs": 800}
"""Examples of what reads files, which each reader has to share."""
_TOKEN = "secret"


@dataclass(frozen=True)
class Attack:
    """What others do, what must hold, and each try: whether it held; a large one takes 10 s."""

    name: str
    promise: str
    tries: Callable[[], Iterator[bool]]
    is_large: bool = False


def _quota() -> Iterator[bool]:
    for limit in (1 << 12, 1 << 16, 1 << 20):
        with TemporaryDirectory() as folder:
            spool = Spool(Path(folder), ".lines", lambda: b"", limit)
            began_s = time.monotonic()
            with suppress(OSError):
                while time.monotonic() < began_s + 5:
                    spool.write(b"x" * 1024)
                    spool.rotate()
            size = sum(one.stat().st_size for one in Path(folder).iterdir())
            yield size < limit + (1 << 24)


def _endless_lines() -> Iterator[bool]:
    good = b"start_ns,end_ns,src,dst,bytes\n1,2,a,b,3\n"
    for size in (1 << 17, 1 << 22, 1 << 25):
        with TemporaryDirectory() as folder:
            source = StandardInput(BytesIO(b"a" * size + b"\n" + good), Path(folder))
            taken = source.take(None, 5.0)
            refused = taken.refused
            while not taken.files:  # what is refused may come before what follows is there
                taken = source.take(None, 1.0)
                refused += taken.refused
            yield refused == 1 and taken.files[0].path.read_bytes() == good


def _templates() -> Iterator[bool]:
    for exporters in (1, 100, 30_000):
        known = Templates()
        for domain in range(30_000):
            body = struct.pack(">HHHHHHHH", 0, 16, 256, 2, 8, 4, 12, 4)
            head = struct.pack(">HHIIII", 9, 1, 0, 0, 0, domain)
            known.learn(struct.pack(">I", domain % exporters), head + body)
        yield sum(len(content) for _, content in known.datagrams()) < 3 << 20


def _half_open() -> Iterator[bool]:
    app = application(Live(), Metrics([]), _TOKEN)
    for number in (20, 100, 300):
        with ExitStack() as stack:
            url = stack.enter_context(served(app, "127.0.0.1", 0))
            port = int(url.rsplit(":", 1)[1].strip("/"))
            for _ in range(number):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
                one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
            yield _answer(f"{url}metrics", {"Authorization": f"Bearer {_TOKEN}"})[0] == 200


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


def _answer(url: str, headers: dict[str, str]) -> tuple[int, str]:
    """Status of an answer, and where it leads."""
    try:
        with build_opener(_Stay).open(Request(url, headers=headers), timeout=10) as found:
            return found.status, ""
    except HTTPError as error:
        return error.code, error.headers.get("Location", "")


def _hosts() -> Iterator[bool]:
    with served(application(Live(), Metrics([]), ""), "127.0.0.1", 0) as url:
        for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80", "[::1", ""):
            yield _answer(f"{url}metrics", {"Host": host})[0] in (400, 421)
        yield _answer(f"{url}metrics", {})[0] == 200
    with served(application(Live(), Metrics([]), _TOKEN), "127.0.0.1", 0) as url:
        for path in ("/evil.example/", "\\evil.example/", "jobs/x"):
            yield _answer(f"{url}{path}?token={_TOKEN}", {}) == (303, "/")


def _bombs() -> Iterator[bool]:
    shared: list[object] = []
    for _ in range(60):
        shared = [shared, shared]
    endless: list[object] = []
    endless.append(endless)
    bombs = [pickle.dumps({"entries": one}) for one in (shared, endless)]
    bombs += [b"\x80\x02}r\x00\x00\x00\x04.", b"\x80\x02}r\xff\xff\xff\xff."]
    bombs += [b"\x80\x02(" + b"]" * (17 << 20) + b"l.", b"\x80\x02cos\nsystem\n(S'x'\ntR."]
    for bomb in bombs:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began_s = time.process_time()
        try:
            unpickled(bomb)
        except PickleError:
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            yield time.process_time() < began_s + 20 and grown < 1 << 20
        else:
            yield False


def _names() -> Iterator[bool]:
    for name in ("\x1b]0;owned\x07", "\x1b[2J", "a\nerror: forged", "\u202egnp.exe", "\x9b31m"):
        shown = f"{printable(name)}{UserError(Problem(name, name))}"
        yield shown.isprintable()


SINGLE = (
    Attack("records faster than a diagnosis", "files that wait stay below their quota", _quota),
    Attack("a line without an end", "it is set aside, and what follows is read", _endless_lines),
    Attack("30,000 templates", "less than 3 MiB are remembered", _templates, is_large=True),
    Attack("half-open requests without the token", "the page answers who has it", _half_open),
    Attack("host names and redirects", "only this machine is answered; a redirect stays", _hosts),
    Attack("pickle bombs", "refused in bounded time and memory", _bombs),
    Attack("names that control a terminal", "they are shown as escapes", _names),
)  # fmt: skip


def rows(examples: int) -> Iterator[tuple[str, str, int, int]]:
    """Name, promise, tries and good ones of each attack."""
    for one in targets():
        is_folder = one.name.startswith("folder")
        promise = (
            "nothing of others is changed" if is_folder else "an answer, or one error for users"
        )
        tried = good = 0
        for number in range(OF_READERS.get(one.name, examples) // 10):
            count = 10
            with suppress(Exception):
                count = attack(one, SEED + number, 10)
                good += count
            tried += count
        yield one.name, promise, tried, good
    for single in SINGLE:
        held = list(single.tries())
        yield single.name, single.promise, len(held), sum(held)


def write(examples: int) -> str:
    """Write the page; return its table."""
    found = [
        [name, promise, str(tried), str(good)] for name, promise, tried, good in rows(examples)
    ]
    text = table(["attack", "what must hold", "tried", "good"], found)
    page = (
        "# Attacks\n\nWhat others put into folders, files, messages and requests, and whether our "
        "promises hold. The first rows\nare drawn (`evaluation/attacks`): foreign files, links, "
        "pipes and marks in the folder of each program, and\ndamage to everything that is read. "
        "`python -m evaluation attacks` writes this page; `make fuzz` draws for a\nminute with a "
        f"new seed.\n\n{text}"
    )
    (REFERENCE / "attacks.md").write_text(page, encoding="utf-8")
    return text
