"""Records of sockets that wait, and records that come late."""

from __future__ import annotations

import math

import numpy as np
import pytest

from records import MS, collected, effects, many, rows

TCP = {"kind": "headers", "mtu_payload_bytes": 1000, "header_bytes": 52, "transport": "tcp"}
HOP_NS = 2000
"""Four links of 500 ns: the packet's way between the two servers of the bench."""


def answers(every=2, **more):
    return {"kind": "acknowledgements", "every": every, **more}


def bare(frame):
    """Begins of records without payload."""
    return sorted(frame[frame["payload"] == 0]["start_ns"])


def test_each_acknowledgement_has_its_time(tmp_path):
    """Five packets in 1 ms, every second one answered, and the last."""
    frame = collected(tmp_path, effects(TCP, answers(one_by_one=True)), [[(0, MS, 5000, 0)]])
    assert bare(frame) == [400_000 + HOP_NS, 800_000 + HOP_NS, MS + HOP_NS]
    assert (frame[frame["payload"] == 0]["bytes"] == 52).all()


@pytest.mark.parametrize(
    ("sent_ms", "answered_ms"),
    [([0], [40]), ([0, 30], [30]), ([0, 50], [40, 90]), ([0, 10, 20], [10, 60])],
)
def test_a_packet_alone_waits_for_a_second_one_or_for_the_delay(tmp_path, sent_ms, answered_ms):
    batch = [(at * MS, at * MS, 48, 0) for at in sent_ms]
    frame = collected(tmp_path, effects(TCP, answers(delay_ms=40)), [batch])
    assert bare(frame) == [at * MS + HOP_NS for at in answered_ms]


def test_packets_sent_during_a_delay_are_acknowledged_together(tmp_path):
    """A packet alone, then a transfer of four packets, which are acknowledged as they come."""
    batch = [(0, 0, 48, 0), (10 * MS, 11 * MS, 4000, 0)]
    frame = collected(tmp_path, effects(TCP, answers(4, delay_ms=40, one_by_one=True)), [batch])
    assert bare(frame) == [11 * MS + HOP_NS]


def test_small_packets_wait_behind_the_data_of_their_host(tmp_path):
    """A word sent within a message of 1 ms leaves at its end; behind a long one it need not."""
    batch = [(0, MS, 50_000, 0), (5 * MS, 6 * MS, 90_000, 0)]
    words = [(at, at, 48, 0) for at in (MS // 2, 2 * MS, 5 * MS + MS // 2)]
    slow = {"nic_gbps": 0.4}  # 50,000 bytes in 1 ms
    model = effects(TCP, {"kind": "waiting", "line_bytes": 60_000})
    frame = collected(tmp_path, model, [batch + words], **slow)
    small = frame[frame["payload"] == 48]
    assert sorted(small["start_ns"]) == [MS, 2 * MS, 5 * MS + MS // 2]


def test_a_shared_nic_is_clear_when_it_could_have_sent_the_message(tmp_path):
    """50,000 bytes at 0.4 Gbit/s take 1 ms; here they take 2 ms with other traffic."""
    batch = [(0, 2 * MS, 50_000, 0), (MS // 2, MS // 2, 48, 0), (3 * MS // 2, 3 * MS // 2, 48, 0)]
    model = effects(TCP, {"kind": "waiting", "line_bytes": 60_000})
    frame = collected(tmp_path, model, [batch], nic_gbps=0.4)
    assert sorted(frame[frame["payload"] == 48]["start_ns"]) == [MS, 3 * MS // 2]


def test_stalls_take_their_share_of_time(tmp_path):
    """2 ms in every 10 ms: a fifth of the packets waits, with a mean of 1 ms."""
    model = effects(
        TCP, {"kind": "waiting", "line_bytes": 0, "stall_every_ms": 8.0, "stall_ms": 2.0}
    )
    sent = np.arange(0, 20_000 * MS, MS)
    frame = collected(tmp_path, model, [[(at, at, 48, 0) for at in sent.tolist()]])
    late = np.sort(frame["start_ns"].to_numpy()) - sent
    waited = late[late > 0]
    assert len(waited) / len(sent) == pytest.approx(0.2, abs=0.02)
    assert waited.mean() == pytest.approx(MS, rel=0.05)
    assert waited.max() <= 2 * MS


def test_data_packets_never_wait(tmp_path):
    model = effects(
        TCP, {"kind": "waiting", "line_bytes": 0, "stall_every_ms": 1.0, "stall_ms": 50.0}
    )
    frame = collected(tmp_path, model, [[(0, MS, 50_000, 0), (3 * MS, 4 * MS, 50_000, 0)]])
    assert frame["start_ns"].tolist() == [0, 3 * MS]


REFILLS = {"kind": "waiting", "line_bytes": 60_000, "refills": True}
SLOW = {"nic_gbps": 0.4}  # 50,000 bytes in 1 ms


def words(folder, data, at, **cluster):
    """When words that come at the times ``at`` [ns] leave, beside ``data``."""
    batch = [*data, *((when, when, 48, 1) for when in at)]
    frame = collected(folder, effects(TCP, REFILLS), [batch], lines=2, **(SLOW | cluster))
    return sorted(frame[frame["payload"] == 48]["start_ns"])


def test_a_word_waits_for_a_message_that_the_queue_holds(tmp_path):
    """50,000 bytes are all in the queue: words leave at their end, together."""
    left = words(tmp_path, [(0, MS, 50_000, 0)], [MS // 4, MS // 2, 2 * MS])
    assert left == [MS, MS, 2 * MS]


def test_a_word_waits_for_the_queue_and_not_for_a_long_message(tmp_path):
    """300,000 bytes take 6 ms; 60,000 of them, 1.2 ms, are in the queue until the last ones."""
    at = [MS, 2 * MS, 5 * MS, 11 * MS // 2]
    left = words(tmp_path, [(0, 6 * MS, 300_000, 0)], at)
    assert left == [MS + 1_200_000, 2 * MS + 1_200_000, 6 * MS, 6 * MS]


def test_a_queue_that_stays_full_leaves_no_silence(tmp_path):
    """Messages one after the other: words that come evenly leave evenly."""
    data = [(i * 6 * MS, (i + 1) * 6 * MS, 300_000, 0) for i in range(4)]
    at = [MS + i * MS // 2 for i in range(40)]
    left = words(tmp_path, data, at)
    assert np.diff(left[:38]).max() <= 1_200_000 + MS // 2


def test_two_messages_that_share_a_nic_are_sent_one_after_the_other(tmp_path):
    """Each has half of the rate for 2 ms; together they keep the NIC busy for those 2 ms."""
    data = [(0, 2 * MS, 50_000, 0), (0, 2 * MS, 50_000, 1)]
    assert words(tmp_path, data, [MS // 2, MS]) == [2 * MS, 2 * MS]


def test_a_connection_has_its_limit_and_another_one_its_own(tmp_path):
    """Two long messages on two connections: 60,000 bytes of each are in the queue."""
    data = [(0, 12 * MS, 300_000, 0), (0, 12 * MS, 300_000, 1)]
    assert words(tmp_path, data, [MS]) == [MS + 2_400_000]


N = 20_000


def late(**fields):
    return {"kind": "lateness", "delay_ms": 0, "late": 0, "late_s": 0, **fields}


def test_waits_are_exponential(tmp_path):
    down = {"kind": "outages", "windows": [{"from_s": 1, "to_s": 2}]}  # all end by 0.2 s
    instant = [[(i, i, 4096, 0) for i in range(N)]]
    frame = collected(tmp_path, effects(late(delay_ms=1000), down), instant)
    lost = math.exp(-1) - math.exp(-2)
    assert abs(len(frame) / N - (1 - lost)) < 4 * (lost * (1 - lost) / N) ** 0.5


def test_only_a_share_is_late(tmp_path):
    down = {"kind": "outages", "windows": [{"from_s": 0.5, "to_s": 1e6}]}
    frame = collected(tmp_path, effects(late(late=0.25, late_s=1), down), many(N))
    lost = 0.25 * math.exp(-0.4)  # records end evenly within 0.2 s: 0.3 to 0.5 s are left
    assert len(frame) / N == pytest.approx(1 - lost, abs=0.015)


def test_nothing_is_lost_and_times_stay(tmp_path):
    plain = collected(tmp_path, {}, many(500))
    frame = collected(tmp_path, effects(late(late=0.3, late_s=0.001)), many(500))
    assert sorted(rows(frame)) == rows(plain)
    assert rows(frame) != rows(plain)


def test_late_records_come_after_younger_ones(tmp_path):
    frame = collected(tmp_path, effects(late(late=0.1, late_s=1)), many(2000))
    ends = frame["end_ns"].to_numpy()
    behind = ends < np.maximum.accumulate(ends)
    assert behind.mean() == pytest.approx(0.1, abs=0.03)  # those within the run's 20 ms are few
