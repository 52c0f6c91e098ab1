"""Every cause that flows can show has a next step, and it is shown with the finding."""

from __future__ import annotations

import pytest

from llmprism.next_steps import NEXT, next_step
from llmprism.sentences import PHRASES


def test_every_cause_that_has_a_phrase_has_a_next_step():
    assert PHRASES.keys() <= NEXT.keys()


@pytest.mark.parametrize("step", NEXT.values())
def test_a_step_is_one_sentence(step):
    assert step[0].isupper()
    assert step.endswith(".")
    assert step.count(". ") == 0


def test_a_cause_of_another_method_gets_that_of_its_culprit():
    assert "port of the switch" in next_step("strange", "address")
    assert "llmlog" in next_step("strange", "job")
