"""Fields of a finding: what is absent or of another type is unknown."""

import json

import pytest

from llmprism.finding_fields import cost_share, evidence_of, number, step_of, text

S = 1_000_000_000
ROW = {"start_ns": 21 * S, "end_ns": 35 * S, "first_step": 17, "evidence": "{}"}


def test_the_share_of_step_time_follows_from_the_cost_if_the_method_gives_none():
    """14 s of which 4 s are lost: 10 s would have been enough."""
    assert cost_share(ROW | {"cost": 4.0 * S}) == pytest.approx(0.4)
    assert cost_share(ROW | {"cost": 20.0 * S}) is None
    assert cost_share(ROW | {"cost": None}) is None
    given = json.dumps({"step_share": 0.065})
    assert cost_share(ROW | {"cost": 4.0 * S, "evidence": given}) == 0.065


@pytest.mark.parametrize("evidence", ["not { json", None, "[1]", "3"])
def test_evidence_that_is_no_object_is_empty(evidence):
    assert evidence_of(ROW | {"evidence": evidence}) == {}


def test_wrong_values_are_unknown():
    assert [number(one) for one in (2, 0.5, True, "2", float("nan"), None)] == [
        2, 0.5, None, None, None, None,
    ]  # fmt: skip
    assert (step_of(ROW, "first_step"), step_of(ROW, "last_step")) == (17, None)
    assert step_of({"last_step": -1}, "last_step") is None
    assert (text("a"), text(None), text(3)) == ("a", "", "")
