"""Simulate LLM training clusters, and score diagnoses that use flow records only.

>>> import prism_sim as ps
>>> run = ps.run("tiny/pair")  # doctest: +SKIP
>>> run.score, run.diagnosis.findings  # doctest: +SKIP
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from prism_sim.version import __version__

if TYPE_CHECKING:
    from prism_common.errors import UserError
    from prism_sim.api import (
        RunResult,
        Simulation,
        compare,
        diagnose,
        run,
        score,
        simulate,
        sweep,
        whatif,
    )

__all__ = [
    "RunResult", "Simulation", "UserError", "__version__", "compare", "diagnose", "run", "score",
    "simulate", "sweep", "whatif",
]  # fmt: skip

_HOME = {"UserError": "prism_common.errors"} | dict.fromkeys(
    (name for name in __all__ if name not in ("UserError", "__version__")), "prism_sim.api"
)


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that ``import prism_sim`` stays cheap."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


class _Package(ModuleType):
    """``prism_sim.score`` is the function, also after ``import prism_sim.score.load``.

    An import makes a submodule an attribute of its package. Two submodules have the name of a
    public function; ``from prism_sim.score import ...`` finds them without that attribute.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
