"""Layouts that servers hide, and traffic that no kind explains."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.layout.layout import (
    _leaves_out,
    _may_hide_ranks,
    _period_ns,
    _schedule,
)
from llmprism.methods.prism.pipelines.last_stage import Answers

MS = 1_000_000


def job(stage, pairs, kind="other", volume=100):
    """Endpoints in these stages, and one class of connections between them beside the rest."""
    src, dst = np.array(pairs).T
    bytes_ = np.full(src.size, float(volume))
    own = SimpleNamespace(connections=np.arange(src.size), bytes=bytes_.sum())
    rest = SimpleNamespace(connections=np.arange(0), bytes=1000.0)
    phases = SimpleNamespace(
        endpoints=np.arange(len(stage)),
        classes=(SimpleNamespace(kind=kind, one=own), SimpleNamespace(kind="dp", one=rest)),
    )
    connections = SimpleNamespace(
        src=src, dst=dst, total_bytes=bytes_, carries=np.ones(src.size, np.bool_)
    )
    pipelines = SimpleNamespace(stage=np.array(stage), length=max(stage) + 1)
    return SimpleNamespace(servers=np.arange(len(stage))), connections, phases, pipelines


def test_ranks_that_send_and_are_in_no_stage_show_that_servers_hide_hops():
    assert _leaves_out(*job([0, 1, -1, -1], [(0, 1), (2, 3)])[1:])
    assert not _leaves_out(*job([0, 1, -1, -1], [(0, 1)])[1:])  # those send nothing
    assert not _leaves_out(*job([-1, -1], [(0, 1)])[1:])  # no pipeline


@pytest.mark.parametrize(
    ("servers", "pairs", "members", "hide"),
    [
        ([0, 0, 1, 1], [(0, 2), (2, 0)], [0, 2], True),  # another rank of a server sends nothing
        ([0, 0, 1, 1], [(0, 2), (2, 0), (1, 3), (3, 1)], [0, 2], False),  # used by another job
        ([0, 0, 1, 1], [(0, 2), (2, 0), (1, 3), (3, 1)], [0, 1, 2, 3], False),  # two rings
        ([0, 1], [(0, 1), (1, 0)], [0, 1], False),  # servers have one NIC each
    ],
)
def test_a_single_ring_may_pass_ranks_behind_idle_nics(servers, pairs, members, hide):
    topology, connections, phases, pipelines = job([0] * len(servers), pairs, kind="dp")
    topology.servers, phases.endpoints = np.array(servers), np.array(members)
    assert _may_hide_ranks(topology, connections, phases, pipelines) == hide
    pipelines.length = 2
    assert not _may_hide_ranks(topology, connections, phases, pipelines)


@pytest.mark.parametrize(
    ("later", "schedule"), [(1.0, "1f1b"), (1.5, "zb-h1"), (float("nan"), "unknown")]
)
def test_two_stages_of_which_the_last_one_shows_nothing_have_no_schedule(later, schedule):
    """Between two stages there is no middle one, whose passes may be split as well."""
    sent = SimpleNamespace(sent_ns=np.array([[0, 1_000_000_007]]))
    phases = SimpleNamespace(classes=(), moments={"pp": sent})
    pipelines = SimpleNamespace(
        length=2, chunks=1, deepest=2, micro_batches=8, answers=Answers(later),
        middle_ns=float("nan"), backward_ns=float("nan"),
    )  # fmt: skip
    assert _schedule(phases, pipelines) == schedule


@pytest.mark.parametrize(
    ("later", "schedule"), [(1.0, "1f1b"), (1.15, "unknown"), (float("nan"), "1f1b")]
)
def test_whole_passes_of_middle_stages_may_be_parts_that_are_computed_again(later, schedule):
    """Answers that become longer, by too little for split passes, are not those of 1F1B either."""
    sent = SimpleNamespace(sent_ns=np.array([[0, 1_000_000_007]]))
    phases = SimpleNamespace(classes=(), moments={"pp": sent})
    pipelines = SimpleNamespace(
        length=4, chunks=1, deepest=4, micro_batches=8, answers=Answers(later),
        middle_ns=1e6, backward_ns=2.5e6,
    )  # fmt: skip
    assert _schedule(phases, pipelines) == schedule


def test_the_period_is_finer_than_the_tick_of_the_clock():
    end = np.arange(1, 21) * 953 // 100 * 10 * MS
    moments = SimpleNamespace(end_ns=np.tile(end, (4, 1)))
    period = _period_ns(SimpleNamespace(moments={"dp": moments}))
    assert abs(period - 95.3 * MS) < 0.005 * 95.3 * MS
