"""Every function of the method can be switched off alone, and is back afterwards."""

from __future__ import annotations

from importlib import import_module

from evaluation.gold import cases
from evaluation.switched import functions, own_lines, switched


def test_a_function_gives_back_what_says_nothing_while_it_is_off() -> None:
    (one,) = [one for one in functions() if one.name == "hops_in_order"] or [functions()[0]]
    function = getattr(import_module(one.module), one.name)
    code = function.__code__
    with switched(one):
        assert function.__code__ is not code
    assert function.__code__ is code


def test_lines_of_a_function_hold_those_that_only_it_needs() -> None:
    lines = own_lines()
    assert all(lines[one.module, one.name] > 0 for one in functions())


def test_gold_has_captures_bundled_scenarios_and_drawn_worlds() -> None:
    kinds = [one.of for one in cases(drawn=10)]
    assert kinds.count("captures") >= 25
    assert kinds.count("bundled") >= 80
    assert len(kinds) - kinds.count("captures") - kinds.count("bundled") >= 200
