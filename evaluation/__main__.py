"""``python -m evaluation NAME`` makes one thing of the evaluation again."""

from __future__ import annotations

import typer

from evaluation.exam.command import exam

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command()(exam)


@app.callback()
def main() -> None:
    """Make figures and pages of the evaluation again, by name."""


if __name__ == "__main__":
    app(prog_name="python -m evaluation")
