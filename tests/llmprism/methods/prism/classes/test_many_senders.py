"""Traffic that several endpoints send to one, beside a ring that leads through all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import _meets


@pytest.mark.parametrize(
    ("hops", "meets"),
    [
        ([(0, 4), (1, 4), (2, 4)], True),
        ([(0, 4), (1, 4)], False),  # the root of a tree has two children
        ([(0, 1), (1, 2), (2, 3), (3, 0)], False),
        ([(0, 4), (1, 4), (2, 4), (3, 5)], False),
        ([(0, 4), (0, 4), (0, 4)], False),  # several connections of one couple
    ],
)
def test_several_senders_to_one_endpoint_are_no_class(hops, meets):
    src, dst = np.array(hops, np.int32).T
    connections: Any = SimpleNamespace(src=src, dst=dst, to_unseen=None)
    assert _meets(connections, np.arange(src.size)) is meets


def test_who_is_not_heard_may_answer():
    connections: Any = SimpleNamespace(
        src=np.arange(3), dst=np.full(3, 4), to_unseen=np.array([True, True, True])
    )
    assert not _meets(connections, np.arange(3))
