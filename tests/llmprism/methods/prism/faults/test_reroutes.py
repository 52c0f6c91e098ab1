"""A leaf that uses fewer uplinks for a while."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

REROUTES = importlib.import_module("llmprism.methods.prism.faults.reroutes")
STEPS, FIRST, LAST = 26, 10, 17


@pytest.mark.parametrize(
    ("restarts", "named"), [((), ["leaf0"]), ((3,), ["leaf0"]), ((FIRST,), []), ((LAST + 1,), [])]
)
def test_other_paths_after_a_restart_are_no_fault(monkeypatch, restarts, named):
    """A job that begins again opens new connections, which are hashed again."""
    always = np.ones(STEPS, np.bool_)
    sometimes = always.copy()
    sometimes[FIRST : LAST + 1] = False
    used = {("leaf0", "spine0"): always, ("leaf0", "spine1"): sometimes}
    used |= {(spine, leaf): always for leaf, spine in used}
    monkeypatch.setattr(REROUTES, "_used", lambda *_: used)
    monkeypatch.setattr(REROUTES, "_is_lower", lambda *_: True)
    job = SimpleNamespace(phases=SimpleNamespace(first_of_epoch=np.array([0, *restarts])))
    job.name = "job-0"
    suspects = REROUTES.reroutes(SimpleNamespace(jobs=[job]))
    assert [one.culprit for one in suspects if one.first == FIRST] == named
