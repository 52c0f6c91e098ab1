"""The version of the diagnoser, and of the sources of packages."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

__version__ = "0.4.0"


def code_of(folders: Iterable[Path], without: Collection[str] = ()) -> str:
    """The version, and a hash of the Python files and tables in the folders of packages.

    ``without`` names files and folders at the top of a package that are excluded.
    """
    digest = hashlib.blake2b(digest_size=8)
    for folder in folders:
        for path in sorted(one for kind in ("*.py", "*.toml") for one in folder.rglob(kind)):
            within = path.relative_to(folder)
            if within.parts[0] not in without:
                digest.update(within.as_posix().encode())
                digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()}"
