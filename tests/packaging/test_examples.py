"""The examples in the docstrings of all modules are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

from sizes import module_name, sources

MODULES = [
    module_name(path)
    for path, text in sources().items()
    if ">>> " in text and not path.startswith("tests/")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
