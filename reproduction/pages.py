"""Text of the page: the sentences are in ``templates/``, and Python computes the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prism_sim.toolkit import render_page

TEMPLATES = Path(__file__).parent / "templates"


def text(name: str, **values: Any) -> str:
    """The text of the template ``name`` with ``values``."""
    return render_page(TEMPLATES, name, **values)


def paragraphs(name: str, **values: Any) -> list[str]:
    """The paragraphs of the template, each as one line, without empty ones."""
    parts = text(name, **values).split("\n\n")
    return [joined for part in parts if (joined := " ".join(part.split()))]


def sentence(name: str, **values: Any) -> str:
    """The text of the template as one line."""
    return " ".join(paragraphs(name, **values))
