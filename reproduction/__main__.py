"""``python -m reproduction``, the same as ``prism-sim reproduce paper`` in a checkout."""

from __future__ import annotations

from reproduction.command import app

app(prog_name="python -m reproduction")
