"""Files that are whole after a crash: the old content or the new one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from prism_common.files import replacing


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file so that after a crash either the old or the new content is there."""
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    force_names(path.parent)


def force_names(folder: Path) -> None:
    """Force what was renamed or made in ``folder`` to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def compact(content: Any) -> str:
    """JSON on one line."""
    return json.dumps(content, separators=(", ", ": "), allow_nan=False)
