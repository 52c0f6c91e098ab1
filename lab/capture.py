"""Observation: packets at the ports of leaves and spines, and NetFlow exports of both.

``tcpdump`` writes three kinds of files: what hosts send as it enters their leaf (``leaf000``),
what they receive as it leaves their leaf (``leaf000-out``), and what enters a spine (``spine00``).
Each packet is in one file of each kind at most. Leaves export NetFlow v9, spines export IPFIX.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

from lab.network import COLLECTOR_ADDRESS, Network
from lab.processes import Processes

SNAPLEN = 96
"""Bytes kept of a packet: up to the end of the TCP header and its options."""
BUFFER_KIB = 32_768
PORTS = {9: 2055, 10: 4739}
FOLDERS = {9: "netflow9", 10: "ipfix"}
ACTIVE_S = 5
OUT = "-out"


def start(network: Network, folder: Path, room: Path, processes: Processes) -> None:
    """Start all captures, exporters and collectors.

    Captures and exports go below ``folder``; what tools need while they run, below ``room``.
    """
    pcaps = folder / "pcap"
    pcaps.mkdir(parents=True, exist_ok=True)
    for leaf, addresses in network.leaves.items():
        hosts = [f"host {address}" for address in addresses]
        sent = " or ".join(f"src {host}" for host in hosts)
        received = " or ".join(f"dst {host}" for host in hosts)
        _tcpdump(processes, leaf, pcaps / f"{leaf}.pcap", "in", sent)
        _tcpdump(processes, leaf, pcaps / f"{leaf}{OUT}.pcap", "out", received)
    for spine in network.switches:
        if spine not in network.leaves:
            _tcpdump(processes, spine, pcaps / f"{spine}.pcap", "in", "net 10.0.0.0/8")
    _collectors(folder, room, processes)
    _exporters(network, room, processes)


def _tcpdump(processes: Processes, switch: str, path: Path, way: str, which: str) -> None:
    command = ["tcpdump", "-i", "any", "-Q", way, "-n", "-s", str(SNAPLEN), "-B", str(BUFFER_KIB),
               "--time-stamp-precision=nano", "-Z", "root", "-w", str(path), which]  # fmt: skip
    processes.start(command, f"tcpdump-{path.stem}", switch, signal.SIGINT)


def _collectors(folder: Path, room: Path, processes: Processes) -> None:
    for version, port in PORTS.items():
        target = folder / FOLDERS[version]
        target.mkdir()
        command = ["nfcapd", "-w", str(target), "-p", str(port), "-b", COLLECTOR_ADDRESS,
                   "-t", "3600", "-P", str(room / f"nfcapd-{version}.pid")]  # fmt: skip
        processes.start(command, f"nfcapd-{version}")


def _exporters(network: Network, room: Path, processes: Processes) -> None:
    """Start an exporter a port, for the packets that enter the switch there."""
    for ends, cable in network.cables.items():
        port = cable.b
        at_leaf = port.owner in network.leaves
        version = 9 if at_leaf else 10
        below = [ends[0]] if at_leaf else network.leaves[ends[0]]
        which = " or ".join(f"src host {address}" for address in below)
        name = f"{port.owner}-{port.device}"
        command = ["softflowd", "-d", "-i", port.device, "-v", str(version), "-L", "8",
                   "-n", f"{COLLECTOR_ADDRESS}:{PORTS[version]}", "-A", "milli",
                   "-p", str(room / f"{name}.pid"), "-c", str(room / f"{name}.ctl"),
                   "-t", "general=1", "-t", "tcp=1", "-t", "tcp.fin=1", "-t", "tcp.rst=1",
                   "-t", "udp=1", "-t", "icmp=1", "-t", f"maxlife={ACTIVE_S}", "-t", "expint=1",
                   which]  # fmt: skip
        processes.start(command, f"softflowd-{name}", port.owner)


def lost_packets(logs: Path) -> dict[str, int]:
    """Return how many packets each capture lost, as tcpdump counts them."""
    found = {}
    for log in sorted(logs.glob("tcpdump-*.log")):
        counted = re.search(r"(\d+) packets dropped by kernel", log.read_text(errors="replace"))
        found[log.stem.removeprefix("tcpdump-")] = int(counted[1]) if counted else -1
    return found
