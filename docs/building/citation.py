"""How to cite: entries of BibTeX, from ``CITATION.cff``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

CITATION = Path(__file__).resolve().parents[2] / "CITATION.cff"


def bibtex(_: str = "") -> str:
    """The entries of this release, and of the works that a user should cite too."""
    content = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    entries = [_entry("software", content), *(_entry("misc", it) for it in content["references"])]
    return "```bibtex\n" + "\n".join(entries) + "```\n"


def _entry(kind: str, work: Mapping[str, Any]) -> str:
    arxiv = [it["value"].removeprefix("arXiv:") for it in work.get("identifiers", ())]
    fields = {
        "title": f"{{{work['title']}}}",
        "author": " and ".join(f"{{{author['name']}}}" for author in work["authors"]),
        "year": work.get("year") or str(work["date-released"])[:4],
        "version": work.get("version"),
        "eprint": "".join(arxiv),
        "archiveprefix": "arXiv" if arxiv else None,
        "license": work.get("license"),
    }
    lines = [f"  {name} = {{{value}}},\n" for name, value in fields.items() if value]
    key = work["title"].partition(":")[0].lower()
    return f"@{kind}{{{key},\n{''.join(lines)}}}\n"
