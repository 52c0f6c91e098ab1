"""Small JSON files that say what a folder holds; a damaged one says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or contains something else."""
    if not path.is_file():  # a pipe would never end
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
