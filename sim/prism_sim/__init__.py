"""Simulate LLM training clusters, and score diagnoses that use flow records only.

>>> import prism_sim as ps
>>> run = ps.run("tiny/pair")  # doctest: +SKIP
>>> run.score, run.diagnosis.findings  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prism_sim.version import __version__

if TYPE_CHECKING:
    from llmprism.errors import UserError
    from prism_sim.api import RunResult, run

__all__ = ["RunResult", "UserError", "__version__", "run"]

_HOME = {"run": "prism_sim.api", "RunResult": "prism_sim.api", "UserError": "llmprism.errors"}


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that ``import prism_sim`` stays cheap."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
