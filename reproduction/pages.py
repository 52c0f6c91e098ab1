"""Text of the page, from the templates below ``templates/``: sentences there, figures here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prism_sim.toolkit import render_page

TEMPLATES = Path(__file__).parent / "templates"


def text(name: str, **values: Any) -> str:
    """What the template ``name`` makes of ``values``."""
    return render_page(TEMPLATES, name, **values)


def paragraphs(name: str, **values: Any) -> list[str]:
    """The same, a line for each paragraph; empty ones are left out."""
    parts = text(name, **values).split("\n\n")
    return [joined for part in parts if (joined := " ".join(part.split()))]


def sentence(name: str, **values: Any) -> str:
    """The same, as one line."""
    return " ".join(paragraphs(name, **values))
