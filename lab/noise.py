"""Traffic that belongs to no job: transfers between servers at random times, over TCP.

    python -m lab.noise NOISE.json

NOISE.json holds the scenario's ``background``, addresses by server, and a seed. Every server
receives on one port. A transfer is a connection of its own; its sender says how many bytes come
by closing it.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import sys
import threading
import time
from math import exp, log
from pathlib import Path
from typing import Any

from lab.namespaces import inside

PORT = 7000
LARGEST_BYTES = 64 << 20
CHUNK = bytes(1 << 16)


def main(path: str) -> None:
    settings = json.loads(Path(path).read_text(encoding="utf-8"))
    addresses: dict[str, str] = settings["addresses"]
    threading.Thread(target=_receive, args=(list(addresses),), daemon=True).start()
    time.sleep(0.5)
    for item in settings["background"]:
        threading.Thread(
            target=_send_all, args=(item, addresses, settings["seed"]), daemon=True
        ).start()
    threading.Event().wait()


def _receive(servers: list[str]) -> None:
    chosen = selectors.DefaultSelector()
    for server in servers:
        with inside(server):
            listener = socket.create_server(("0.0.0.0", PORT), backlog=64)
        chosen.register(listener, selectors.EVENT_READ, "listener")
    while True:
        for key, _ in chosen.select():
            port: Any = key.fileobj
            if key.data == "listener":
                chosen.register(port.accept()[0], selectors.EVENT_READ, "transfer")
            elif not _drained(port):
                chosen.unregister(port)
                port.close()


def _drained(port: socket.socket) -> bool:
    """Read once; return whether more may come."""
    try:
        return bool(port.recv(1 << 20))
    except OSError:
        return False


def _send_all(item: dict[str, Any], addresses: dict[str, str], seed: int) -> None:
    draw = random.Random(f"{seed}-{item['name']}")
    senders = item.get("servers") or list(addresses)
    while True:
        time.sleep(draw.expovariate(item["flows_per_s"]))
        sender = draw.choice(senders)
        others = [name for name in addresses if name != sender]
        target = item.get("to") or draw.choice(others)
        size = exp(draw.gauss(log(item["median_bytes"]), item["sigma"]))
        if target != sender:
            message = (sender, addresses[target], min(LARGEST_BYTES, max(1, round(size))))
            threading.Thread(target=_send, args=message, daemon=True).start()


def _send(sender: str, address: str, size: int) -> None:
    with inside(sender):
        port = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with port:
        try:
            port.connect((address, PORT))
            for start in range(0, size, len(CHUNK)):
                port.sendall(CHUNK[: size - start])
        except OSError:
            return


if __name__ == "__main__":
    main(sys.argv[1])
