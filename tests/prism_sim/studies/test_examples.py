"""The examples in the docstrings of the studies are true."""

import doctest
import importlib
import pkgutil

import pytest

import prism_sim.studies

MODULES = [module.name for module in pkgutil.iter_modules(prism_sim.studies.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_correct(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"prism_sim.studies.{name}")).failed == 0
