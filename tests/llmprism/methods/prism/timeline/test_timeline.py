"""When steps begin and end, where what comes before them is hard to tell from them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.timeline.timeline import _first_traffic


def test_what_is_sent_to_all_before_the_first_step_is_no_part_of_it() -> None:
    """Parameters leave 1,000 ns before the first gradients, in the part that is the first step."""
    start = np.array([0, 1000, 1050, 2000, 2050, 3000, 3050])
    size = np.array([90, 50, 50, 50, 50, 50, 50])
    traffic = SimpleNamespace(start_ns=start, size=size)
    step = np.array([0, 0, 0, 1, 1, 2, 2])
    one = SimpleNamespace(kind="dp", one=SimpleNamespace(traffic=traffic), step=step)
    phases: Any = SimpleNamespace(classes=[one], first_of_epoch=np.array([0]), count=3)
    assert _first_traffic(phases, 0, ("dp",)) == pytest.approx([1000])
    assert np.isnan(_first_traffic(phases, 0, ("tp",))).all()
