"""Keys of results cover the code of a method, wherever that is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from llmprism import methods
from prism_sim.studies import fingerprints
from prism_sim.studies.cases import RunCase
from prism_sim.toolkit import Scenario

FUNCTION = "def diagnose(flows, topology, progress):\n    return {}\n"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Write files of a method outside the project, import one of them, and return it."""
    methods.get("prism")  # own methods register when they are imported, once
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(methods, "_methods", dict(methods._methods))

    def write(files: dict[str, str], module: str, name: str = "diagnose") -> Any:
        for file, text in files.items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(text)
        _forget()
        invalidate_caches()
        sys.dont_write_bytecode = True
        return getattr(import_module(module), name)

    was = sys.dont_write_bytecode
    yield write
    sys.dont_write_bytecode = was
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0].startswith("outside")]:
        del sys.modules[name]
    fingerprints._sources.cache_clear()


def key_of(method: Any) -> str:
    methods.register("outside")(method)
    scenario = Scenario.model_validate({"cluster": {"servers": 1}, "jobs": []})
    return RunCase("x", scenario, "outside").key


def test_a_changed_function_changes_the_key(written: Callable[..., Any]) -> None:
    first = key_of(written({"outside.py": FUNCTION}, "outside"))
    assert key_of(written({"outside.py": FUNCTION}, "outside")) == first
    assert key_of(written({"outside.py": FUNCTION + "\nK = 4\n"}, "outside")) != first


def test_any_changed_file_of_its_package_changes_the_key(written: Callable[..., Any]) -> None:
    files = {
        "outsider/__init__.py": "",
        "outsider/api.py": FUNCTION,
        "outsider/deep.py": "LIMIT = 1\n",
    }
    first = key_of(written(files, "outsider.api"))
    assert key_of(written({**files, "outsider/deep.py": "LIMIT = 2\n"}, "outsider.api")) != first


def test_a_changed_module_in_the_same_folder_changes_the_key(written: Callable[..., Any]) -> None:
    files = {
        "outside_helper.py": "def limit():\n    return 1\n",
        "outside.py": "from outside_helper import limit\n" + FUNCTION,
    }
    first = key_of(written(files, "outside"))
    files["outside_helper.py"] = "def limit():\n    return 2\n"
    assert key_of(written(files, "outside")) != first


@dataclass(frozen=True)
class Staged:
    """A method of parts, as the project's own are."""

    stage: Any
    threshold: float = 0.5

    def __call__(self, *_: Any) -> dict[str, Any]:
        return {}


def test_a_changed_part_or_setting_of_a_method_changes_the_key(written: Callable[..., Any]) -> None:
    stage = written({"outside.py": FUNCTION}, "outside")
    first = key_of(Staged(stage))
    assert key_of(Staged(stage)) == first
    assert key_of(Staged(stage, 0.6)) != first
    assert key_of(partial(stage, progress=3)) != key_of(partial(stage, progress=4))
    assert key_of(Staged(written({"outside.py": FUNCTION + "K = 1\n"}, "outside"))) != first
