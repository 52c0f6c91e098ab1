"""Collective algorithms on whole clusters against their closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Connection, Network
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import HIDDEN, Templates
from prism_sim.toolkit import Cluster, Draws
from prism_sim.training.collectives import ALGORITHMS, Group
from prism_sim.training.collectives.base import NEVER_NS

MIB = 2**20
NIC, NVLINK = 50.0, 450.0  # bytes a nanosecond: 400 and 3,600 Gbit/s
HOP_NS = 1_000  # two links of 500 ns by way of one leaf


class Watch:
    """An observer that stores the trains that switches observe."""

    def __init__(self):
        self.bytes = {}

    def observe(self, trains):
        for train in trains[trains["route"] != HIDDEN]:
            self.add(train["route"], int(train["bursts"]) * int(train["burst_bytes"]))

    def add(self, route, size):
        self.bytes[int(route)] = self.bytes.get(int(route), 0) + int(size)


def network_of(**cluster):
    env, templates, layout = Clock(), Templates(), Layout(Cluster(servers=64, **cluster))
    router = Router(layout, templates, Draws(0))
    return Network(env, layout, router, Fabric(env, layout.capacity, templates), Watch())


def run(algorithm, gpus, size, operation="all_reduce", **cluster):
    """Time [ns] of one collective over ``gpus``, and the bytes each route carried."""
    network = network_of(**cluster)
    env, router, fabric, watch = network.env, network.router, network.fabric, network.observer
    ends = []
    for part in ALGORITHMS[algorithm](Group(gpus, Connection("a", "dp")), network):
        ends.append(env.event())
        part.start(operation, size, [0] * len(gpus), ends[-1])
    env.run(until=env.all_of(ends))
    for row in fabric.drain():
        watch.add(row["route"], row["bytes"])
    sent = {}
    for route, size_bytes in watch.bytes.items():
        src = router.routes.src[route]
        sent[src] = sent.get(src, 0) + size_bytes
    return env.now, sent


def one_a_server(n):
    return [8 * server for server in range(n)]


@pytest.mark.parametrize("n", [2, 8, 64])
def test_ring_across_servers_takes_the_textbook_time(n):
    time, sent = run("ring", one_a_server(n), 64 * MIB)
    assert time == pytest.approx(2 * (n - 1) * (64 * MIB / (n * NIC) + HOP_NS), rel=1e-3)
    assert set(sent.values()) == {2 * (n - 1) * 64 * MIB // n}


def test_a_group_with_eight_members_a_server_uses_all_eight_nics():
    gpus = list(range(32))  # four servers
    time, sent = run("ring", gpus, 256 * MIB)
    assert len(sent) == 32
    # Each NIC carries an eighth of 2 (n - 1) / n; NVLink carries all of it, nine times as fast.
    n = 32
    wire = 2 * (n - 1) / n * 256 * MIB / 8
    assert list(sent.values()) == [pytest.approx(wire, rel=1e-6)] * 32
    assert time == pytest.approx(max(wire / NIC, 8 * wire / NVLINK), rel=0.02)


def test_queue_pairs_share_a_connection_and_change_no_total():
    one, sent_one = run("ring", one_a_server(4), 64 * MIB)
    four, sent_four = run("ring", one_a_server(4), 64 * MIB, queue_pairs=4)
    assert sent_one == sent_four
    # A quarter of the bytes at a quarter of the rate each; one's latency hides behind another.
    assert one - 6 * HOP_NS <= four <= one


def test_a_group_in_one_server_is_seen_by_no_switch():
    time, sent = run("ring", list(range(8)), 64 * MIB)
    assert sent == {}
    assert time == pytest.approx(2 * 7 * (64 * MIB / (8 * NVLINK) + 25), rel=1e-3)


@pytest.mark.parametrize("n", [2, 16, 64])
def test_tree_is_logarithmic_in_latency_and_as_wide_as_the_nics(n):
    small, _ = run("tree", one_a_server(n), 1024)
    levels = int(np.log2(n))
    assert small == pytest.approx(2 * levels * HOP_NS, rel=0.05)
    large, sent = run("tree", one_a_server(n), 512 * MIB)
    bus = 2 * 512 * MIB / NIC  # at most: up and down, everything once
    assert 0.5 * bus <= large <= 1.1 * bus
    # Every server but the roots sends half up in each tree; each edge also carries it down.
    assert sum(sent.values()) == pytest.approx(2 * (n - 1) * 512 * MIB, rel=1e-6)


def test_tree_overtakes_ring_for_small_buffers_and_many_servers():
    assert run("tree", one_a_server(64), 16 * 1024)[0] < run("ring", one_a_server(64), 16 * 1024)[0]
    assert run("ring", one_a_server(4), 512 * MIB)[0] < run("tree", one_a_server(4), 512 * MIB)[0]


def test_hierarchical_crosses_the_network_with_a_ring_of_servers_for_each_nic():
    gpus, size = list(range(32)), 256 * MIB
    time, sent = run("hierarchical", gpus, size)
    across = 2 * 3 / 4 * size / 8  # ring over 4 servers of an eighth of the buffer
    assert set(sent.values()) == {across}
    inside = 7 * (size / (8 * NVLINK) + 25)
    rings = 2 * 3 * (size / 8 / (4 * NIC) + HOP_NS)
    assert time == pytest.approx(2 * inside + rings, rel=1e-3)


def test_broadcast_sends_the_buffer_once_over_every_hop():
    time, sent = run("chain", one_a_server(8), 512 * MIB, "broadcast")
    assert sent == {8 * server: 512 * MIB for server in range(7)}
    assert time == pytest.approx(512 * MIB / NIC, rel=0.02)  # bus bandwidth factor 1


def test_all_to_all_sends_all_but_its_own_part():
    n, size = 8, 64 * MIB
    time, sent = run("all_to_all", one_a_server(n), size, "all_to_all")
    assert set(sent.values()) == {(n - 1) * size // n}
    assert time == pytest.approx((n - 1) / n * size / NIC + HOP_NS, rel=1e-3)


def test_oversubscription_slows_traffic_across_the_spines():
    fabric = {"kind": "tor", "leaf_ports": 8, "uplinks": 2, "spines": 2}
    gpus = [0, 1, 2, 3, 8, 9, 10, 11]  # two racks, four NICs each on two uplinks
    time, _ = run("all_to_all", gpus, 64 * MIB, "all_to_all", fabric=fabric)
    crossing = 4 * 4 * 64 * MIB / 8  # from each rack to the other
    assert time >= crossing / (2 * NIC)


def test_small_buffers_are_slow_where_efficiency_is_measured():
    gpus = one_a_server(8)
    ideal, _ = run("ring", gpus, 16 * MIB)
    measured, _ = run("ring", gpus, 16 * MIB, efficiency="measured")
    assert 2 * 7 / 8 * 16 * MIB / NIC / measured == pytest.approx(0.13, rel=0.05)
    assert measured > ideal


def left_unfinished(algorithm, gpus, size, missing, operation):
    """Bytes on each pair of NICs of a collective that one member never joins."""
    network = network_of()
    ready_ns = [NEVER_NS if member == missing else member for member in range(len(gpus))]
    parts = ALGORITHMS[algorithm](Group(gpus, Connection("a", "dp")), network)
    for part in parts:
        network.env.call_at(10**10, lambda part=part: part.abandon(operation, size, ready_ns))
    network.env.run()
    routes = network.router.routes
    sent = network.observer.bytes.items()
    return {(routes.src[route], routes.dst[route]): size for route, size in sent}


def test_all_pairs_without_the_missing_member_exchange_their_parts():
    """A pair needs nothing from the others."""
    sent = left_unfinished("all_to_all", one_a_server(4), 4_000, 2, "all_to_all")
    assert sent == {(8 * a, 8 * b): 1_000 for a in (0, 1, 3) for b in (0, 1, 3) if a != b}


def test_a_shift_leaves_out_both_neighbours_of_the_missing_member():
    sent = left_unfinished("shift", one_a_server(4), 4_000, 2, "shift")
    assert sent == {(0, 8): 4_000, (24, 0): 4_000}


def test_servers_that_are_complete_begin_the_rings_of_a_hierarchical_all_reduce():
    sent = left_unfinished("hierarchical", list(range(32)), 32 * 32_000, 9, "all_reduce")
    servers = {}
    for (src, dst), size in sent.items():
        servers[src // 8, dst // 8] = servers.get((src // 8, dst // 8), 0) + size
    chunk = 32 * 32_000 // 4  # of all rings together
    assert servers == {(2, 3): chunk, (3, 0): 2 * chunk}  # nothing to or from server 1
