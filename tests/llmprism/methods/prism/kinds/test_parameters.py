"""Volumes show shards whose messages nobody sees one by one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.kinds.parameters import _moves_shards

GROUP = frozenset({0, 1})
PARAMETERS, RANKS, NICS = 1.6e9, 16, 8


def moving(bytes_of_hop, lost):
    """A class of four connections in nine steps, of which one record is ``lost``."""
    volumes = np.full((4, 9), bytes_of_hop)
    volumes[0, 4] *= not lost
    return SimpleNamespace(volumes=lambda *_: volumes), np.empty(0)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("inside_bytes", "shown"), [(8.0, True), (24.0, True), (9.1, False)])
def test_shards_of_sixteen_ranks_in_two_servers_show_by_their_volume(inside_bytes, shown, lost):
    """Each of eight rings passes on 15/16 of an eighth of all that is gathered and reduced.

    Two copies of the shards reduce four bytes for each parameter of a shard.
    """
    inside = inside_bytes * PARAMETERS * (RANKS - 1) / RANKS / NICS
    across = 4.0 * PARAMETERS / RANKS * 2 * (2 - 1) / 2
    own = [moving(inside, lost), moving(across, lost=False)]
    characters = [SimpleNamespace(groups=(GROUP,))] * 2
    assert _moves_shards(None, own, characters, 0, 1, 9) is shown
