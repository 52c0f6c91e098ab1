"""README, installation and how-to guides: their text, and the blocks of code in it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_GUIDES = [ROOT / "docs/install.md", *sorted((ROOT / "docs/how-to").glob("*.md"))]
TEXT = "\n".join([README, *(path.read_text(encoding="utf-8") for path in _GUIDES)])


def blocks(language: str) -> list[str]:
    """Their code blocks in ``language`` ("": plain ones), those of the README first."""
    found = re.findall(r"^```(\S*)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


THREE_COMMANDS = next(one for one in blocks("") if one.startswith("llmprism ingest")).splitlines()
"""Those that lead from an export to a diagnosis, in the README."""
