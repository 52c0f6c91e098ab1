"""Blocks ``session`` of a tutorial: commands that the build runs, with what they print.

All blocks of a page run in one folder, which is new for each build. A command that fails ends the
build. ``:picture:`` names a file that the commands made and that is shown below them, ``:lines:``
is the number of lines of output that are shown.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
MADE = Path("docs") / "made"
PLAIN = {"COLUMNS": "96", "NO_COLOR": "1", "TERM": "dumb", "PYTHONWARNINGS": "ignore"}


def run_block(text: str, folder: Path) -> str:
    """What the commands of a block print.

    Raises
    ------
    RuntimeError : a command failed.
    """
    programs = str(Path(sys.executable).parent)
    variables = {**os.environ, **PLAIN, "PATH": os.pathsep.join((programs, os.environ["PATH"]))}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=variables, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode} of\n{text}\n{done.stdout}")
    return done.stdout


def new_folder(name: str, top: Path) -> Path:
    """An empty folder for the commands of a page; they find the fixtures of the tests in it."""
    folder = top / MADE / "sessions" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


def cut(text: str, lines: int) -> str:
    """The first lines of a text; the others are named."""
    shown = text.rstrip().splitlines()
    left = len(shown) - lines
    return "\n".join([*shown[:lines], f"... ({left} more lines)"] if left > 0 else shown)


class Session(SphinxDirective):
    """``{session}``: commands, what they print, and a picture that they made."""

    has_content = True
    option_spec: ClassVar = {
        "picture": directives.unchanged,
        "alt": directives.unchanged,
        "lines": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        try:
            printed = run_block(text, self._folder())
        except RuntimeError as error:
            raise self.error(str(error)) from error
        made: list[nodes.Node] = [nodes.literal_block(text, text, language="bash")]
        if output := cut(printed, self.options.get("lines", 40)):
            made.append(nodes.literal_block(output, output, language="text", classes=["output"]))
        if "picture" in self.options:
            path = self._folder() / self.options["picture"]
            uri = "/" + path.relative_to(self.env.srcdir).as_posix()
            made.append(nodes.image(uri=uri, alt=self.options.get("alt", "")))
        return made

    def _folder(self) -> Path:
        """The folder of this page."""
        name = self.env.docname.replace("/", "-")
        known = self.env.temp_data.setdefault("session folder", None)
        if known is None:
            known = new_folder(name, Path(self.env.srcdir))
            self.env.temp_data["session folder"] = known
        return Path(known)
