"""The tree only becomes smaller: a feature pays for itself with deletions in the same release.

A package may take over code of another: then its bound is raised by hand, and the bound of the
whole tree stays. ``python tests/helpers/sizes.py`` lowers the bounds after a deletion.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

import pytest

from sizes import bounds, is_private, module_name, sizes, sources

LARGEST_LINES = 8_000
"""Of a package such as ``llmprism.watch``, with all that is in it."""


@pytest.mark.parametrize("name", bounds())
def test_a_size_may_only_fall(name: str) -> None:
    assert sizes()[name] <= bounds()[name]


def test_no_package_is_too_large_to_know() -> None:
    """The method prism alone may have more lines: it is one algorithm in many stages."""
    lines = Counter[str]()
    for path, text in sources().items():
        inside = PurePath(path).parts[1:-1]
        if path.startswith(("sim/", "diagnose/")) and "methods" not in inside:
            lines[".".join(inside[:2])] += len(text.splitlines())
    assert {name: count for name, count in lines.items() if count > LARGEST_LINES} == {}


def test_every_size_has_a_bound() -> None:
    assert sizes().keys() == bounds().keys()


def test_what_is_counted() -> None:
    assert module_name("sim/prism_sim/faults/__init__.py") == "prism_sim.faults"
    assert module_name("evaluation/paths.py") == "evaluation.paths"
    assert is_private("llmprism.methods.prism.graph.nodes")
    assert is_private("prism_sim.collector.core")
    assert not is_private("llmprism.methods")
    assert not is_private("prism_sim")
    assert not is_private("numpy.linalg")
