"""``python -m reproduction``, which is ``prism-sim reproduce paper`` from a checkout."""

from __future__ import annotations

from reproduction.command import app

app(prog_name="python -m reproduction")
