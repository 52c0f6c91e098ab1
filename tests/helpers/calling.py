"""The command ``prism-sim``, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from prism_sim.cli import app


def call(*arguments: str) -> Result:
    """Call ``prism-sim`` with arguments."""
    return CliRunner().invoke(app, list(arguments), env={"NO_COLOR": "1"})
