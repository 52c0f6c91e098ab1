"""Kinds of traffic mean the same everywhere."""

from __future__ import annotations

from llmprism import model
from prism_common import kinds
from prism_common.kinds import GroupKind
from prism_sim.render import paint
from prism_sim.run_folder import TRUTH
from prism_sim.score.parallelism import AXES


def test_every_kind_has_a_colour():
    assert set(kinds.INFERRED) <= set(paint.KINDS)


def test_a_diagnosis_knows_every_kind_of_the_truth_and_one_for_doubt():
    assert set(model.KINDS) == {*kinds.TRAFFIC, kinds.UNKNOWN}
    assert kinds.UNKNOWN not in kinds.TRAFFIC


def test_groups_and_layouts_use_kinds_of_traffic():
    assert set(GroupKind.__args__) < set(kinds.TRAFFIC)
    assert set(AXES) < set(kinds.TRAFFIC)
    assert set(AXES) <= set(TRUTH["ranks"].names)
