"""Which of several parts of the network that explain as much comes first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.likelihood import preferred
from llmprism.methods.prism.faults.measures.tomography import Part


def context_of(protocol: int, point: str = "ingress") -> Any:
    flows = SimpleNamespace(
        optional={"protocol": np.array([protocol])}, meta={"observation_point": point}
    )
    codes = {"10.0.0.1": 0, "10.0.0.2": 1}
    return SimpleNamespace(flows=flows, topology=SimpleNamespace(codes=codes))


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        (["a|spine", "b|spine", "spine"], "spine"),  # all that is slow crosses both of its links
        (["a|spine", "spine"], "a|spine"),  # the only link of it that is seen
        (["a|spine", "b|spine", "spine", "10.0.0.1"], "10.0.0.1"),
    ],
)
def test_a_switch_of_which_two_links_look_slow_is_likelier_than_either(parts, first):
    best = [Part(name, 1.0, 0.9, 5) for name in parts]
    assert preferred(context_of(17), best)[0].name == first


@pytest.mark.parametrize(
    ("protocol", "point", "first"),
    [(17, "ingress", "10.0.0.2>in"), (6, "ingress", "10.0.0.1>out"), (6, "egress", "10.0.0.2>in")],
)
def test_of_a_slow_transfer_over_tcp_the_sender_comes_first_where_it_sends(protocol, point, first):
    """A host that waits for its receiver sends in bursts, which are no slow transfer there."""
    best = [Part(name, 1.0, 1.0, 1) for name in ("10.0.0.1>out", "10.0.0.2>in")]
    assert preferred(context_of(protocol, point), best)[0].name == first


@pytest.mark.parametrize(("protocol", "first"), [(17, "a|spine"), (6, "10.0.0.1>out")])
def test_all_that_a_nic_sends_over_tcp_is_likelier_than_a_link_of_it(protocol, first):
    best = [Part(name, 1.0, 1.0, 1) for name in ("a|spine", "10.0.0.1>out")]
    assert preferred(context_of(protocol), best)[0].name == first
