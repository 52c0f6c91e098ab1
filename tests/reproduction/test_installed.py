"""Without a checkout the command names the place of the program."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from prism_sim.commands import reproducing


def test_an_installed_package_names_the_place_of_the_reproduction(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducing, "checkout", lambda: tmp_path)
    for arguments in ([], ["--help"], ["--only", "e1"]):
        result = call("reproduce", "paper", *arguments)
        assert result.exit_code == 1
        assert "not part of the installed package" in result.stderr
        assert "make paper" in result.stderr
        assert "Traceback" not in result.output
