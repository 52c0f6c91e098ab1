"""A few of each drawn attack; continuous integration draws for a minute (``make fuzz``)."""

from __future__ import annotations

import pickle
import resource
import socket
import struct
import time
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from evaluation.attacks.fuzzing import attack
from evaluation.attacks.targets import Target, targets
from llmprism.watch.live.application import Live, application
from llmprism.watch.live.serving import served
from llmprism.watch.metrics import Metrics
from llmprism.watch.sources.spool import Spool
from llmprism.watch.sources.standard_input import StandardInput
from llmprism.watch.sources.templates import Templates
from prism_common.recorder import PickleError, unpickled

EXAMPLES = 16


@pytest.mark.parametrize("target", targets(), ids=lambda one: one.name)
def test_what_others_leave_or_damage_breaks_no_promise(target: Target) -> None:
    assert attack(target, 23, EXAMPLES) >= EXAMPLES


@pytest.mark.parametrize("limit", [1 << 12, 1 << 16, 1 << 20])
def test_files_that_wait_stay_below_their_quota(limit: int, tmp_path: Path) -> None:
    spool = Spool(tmp_path, ".lines", lambda: b"", limit)
    began_s = time.monotonic()
    with suppress(OSError):
        while time.monotonic() < began_s + 5:
            spool.write(b"x" * 1024)
            spool.rotate()
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) < limit + (1 << 24)


@pytest.mark.parametrize("size", [1 << 17, 1 << 22, 1 << 25])
def test_a_line_without_an_end_is_set_aside(size: int, tmp_path: Path) -> None:
    good = b"start_ns,end_ns,src,dst,bytes\n1,2,a,b,3\n"
    source = StandardInput(BytesIO(b"a" * size + b"\n" + good), tmp_path)
    taken = source.take(None, 5.0)
    refused = taken.refused
    while not taken.files:  # what is refused may come before what follows is there
        taken = source.take(None, 1.0)
        refused += taken.refused
    assert (refused, taken.files[0].path.read_bytes()) == (1, good)


@pytest.mark.slow
def test_of_many_templates_few_bytes_are_remembered() -> None:
    for exporters in (1, 100, 30_000):
        known = Templates()
        for domain in range(30_000):
            body = struct.pack(">HHHHHHHH", 0, 16, 256, 2, 8, 4, 12, 4)
            head = struct.pack(">HHIIII", 9, 1, 0, 0, 0, domain)
            known.learn(struct.pack(">I", domain % exporters), head + body)
        assert sum(len(content) for _, content in known.datagrams()) < 3 << 20


@pytest.mark.parametrize("number", [20, 300])
def test_who_has_the_token_is_answered_beside_half_open_requests(number: int) -> None:
    with ExitStack() as stack:
        app = application(Live(), Metrics([]), "secret")
        url = stack.enter_context(served(app, "127.0.0.1", 0))
        port = int(url.rsplit(":", 1)[1].strip("/"))
        for _ in range(number):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
            one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        request = Request(f"{url}metrics", headers={"Authorization": "Bearer secret"})
        assert urlopen(request, timeout=10).status == 200


def bombs() -> list[bytes]:
    """Pickles that would be large, endless, or a command."""
    shared: list[object] = []
    for _ in range(60):
        shared = [shared, shared]
    endless: list[object] = []
    endless.append(endless)
    made = [pickle.dumps({"entries": one}) for one in (shared, endless)]
    made += [b"\x80\x02}r\x00\x00\x00\x04.", b"\x80\x02}r\xff\xff\xff\xff."]
    return [*made, b"\x80\x02(" + b"]" * (17 << 20) + b"l.", b"\x80\x02cos\nsystem\n(S'x'\ntR."]


@pytest.mark.parametrize("number", range(6))
def test_a_pickle_bomb_is_refused_in_bounded_time_and_memory(number: int) -> None:
    bomb = bombs()[number]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = time.process_time()
    with pytest.raises(PickleError):
        unpickled(bomb)
    assert time.process_time() < began_s + 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 20)
