"""Sections of the README as parts of pages, so that no text is written twice."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
INTRODUCTION = "introduction"
"""What stands before the first section."""

_RELATIVE = re.compile(r"\]\((?![a-z]+:|#|/)")


def sections() -> dict[str, str]:
    """Every section of the README by its title; links lead from the top of the repository."""
    body = README.read_text(encoding="utf-8").partition("\n")[2]  # without the title
    introduction, *rest = re.split(r"^## (.*)\n", body, flags=re.MULTILINE)
    named = {INTRODUCTION: introduction, **dict(zip(rest[::2], rest[1::2], strict=True))}
    return {title: _RELATIVE.sub("](/", text).strip() for title, text in named.items()}


def section(title: str) -> str:
    """The text of one section of the README, without its heading."""
    return sections()[title]
