"""Kinds of culprits. A new kind is a file here and a line in :data:`KINDS`."""

from __future__ import annotations

from llmprism.methods.prism.groups.base import GroupsOf
from llmprism.methods.prism.groups.imbalance import imbalance
from llmprism.methods.prism.groups.network import network
from llmprism.methods.prism.groups.ranks import ranks, servers, stages, whole_job

KINDS: dict[str, GroupsOf] = {
    "rank": ranks,
    "server": servers,
    "stage": stages,
    "job": whole_job,
    "imbalance": imbalance,
    "network": network,
}
"""Makes the groups of each kind."""
