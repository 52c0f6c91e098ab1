"""The examples in the docstrings of the scenario language and of the commands are true."""

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import prism_sim.commands
import prism_sim.loading
import prism_sim.scenario


def _modules(package: ModuleType) -> list[str]:
    found = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    return [module.name for module in found]


_PACKAGES = (prism_sim.scenario, prism_sim.loading, prism_sim.commands)


@pytest.mark.parametrize("name", [name for package in _PACKAGES for name in _modules(package)])
def test_examples_are_correct(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
