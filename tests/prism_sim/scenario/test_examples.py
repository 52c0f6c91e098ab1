"""The examples in the docstrings of the scenario language and the commands are true."""

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import prism_sim.commands
import prism_sim.scenario


def _modules(package: ModuleType) -> list[str]:
    found = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    return [module.name for module in found]


@pytest.mark.parametrize("name", [*_modules(prism_sim.scenario), *_modules(prism_sim.commands)])
def test_examples_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
