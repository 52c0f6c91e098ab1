"""One invocation of a command: its output and its exit code.

Results go to stdout, everything about the work to stderr: progress bars if that is a
terminal, one line per stage otherwise, nothing with ``--quiet``. Errors of the user end with
exit code 1 and a list of all problems, Ctrl-C with 130. Any other exception is a bug and keeps
its traceback.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, NoReturn

from prism_common.command import PLAIN_WIDTH
from prism_common.errors import Problem, UserError
from prism_common.escapes import printable
from prism_common.program import is_memory_error
from prism_common.quantities import counted
from prism_sim.commands.options import Debug, Json, Quiet

FINE, WRONG, USAGE, BELOW, CANNOT_TELL, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes: success; scenario or data is wrong; wrong usage; a bound of the score is missed;
the records do not suffice; Ctrl-C."""

OF_SESSION = {"as_json": Json, "quiet": Quiet, "debug": Debug}
"""Options of every command that has a session."""

Progress = Callable[[float, str], None]
"""Receives the fraction done in [0, 1] and a description of the present work."""


@dataclass(frozen=True)
class Session:
    """Output of one invocation.

    Attributes
    ----------
    as_json : results as one JSON document.
    quiet : no progress and no notes on stderr.
    debug : tracebacks of user errors, and log messages.
    """

    as_json: bool = False
    quiet: bool = False
    debug: bool = False

    def note(self, text: str) -> None:
        """Print a line about the work on stderr."""
        if not self.quiet:
            print(printable(text, keep="\n"), file=sys.stderr, flush=True)

    def result(self, data: dict[str, Any], *shown: Any) -> None:
        """Print the result: ``data`` as JSON, or ``shown``: text or rich renderables."""
        if self.as_json:
            print(json.dumps(data, indent=1, allow_nan=False))
        elif all(isinstance(part, str) for part in shown):
            print(printable("\n".join(shown), keep="\n"))
        else:
            _print_rich(shown)

    def facts(self, facts: dict[str, Any]) -> None:
        """Print ``facts`` as the result, one per line."""
        self.result(facts, *(f"{key}: {value}" for key, value in facts.items()))

    def warn(self, warnings: Iterable[Problem]) -> None:
        """Print warnings on stderr."""
        for warning in warnings:
            self.note(f"warning: {warning}")

    def complain(self, problems: Iterable[Problem | str]) -> None:
        """Print problems on stderr, even if quiet."""
        for problem in problems:
            print(printable(str(problem), keep="\n"), file=sys.stderr)

    @contextmanager
    def stage(self, name: str, line_every_s: float | None = None) -> Iterator[Progress | None]:
        """A part of the work: yields a progress callback, and prints its duration.

        If stderr is not a terminal, ``line_every_s`` is the time between lines of progress [s];
        without it, there are none.
        """
        began = time.perf_counter()
        if self.quiet or not sys.stderr.isatty():
            lines = line_every_s is not None and not self.quiet
            yield self._lines(line_every_s or 0.0) if lines else None
        else:
            with _progress_bar(name) as progress:
                yield progress
        self.note(f"{name}: {time.perf_counter() - began:.1f} s")

    def _lines(self, every_s: float) -> Progress:
        """A progress callback that prints a line from time to time."""
        next_s = time.monotonic() + every_s

        def line(_: float, doing: str) -> None:
            nonlocal next_s
            if time.monotonic() >= next_s:
                self.note(doing)
                next_s = time.monotonic() + every_s

        return line


@contextmanager
def open_session(as_json: bool, quiet: bool, debug: bool) -> Iterator[Session]:
    """Run a command: user errors and Ctrl-C become messages and exit codes;
    so do files that cannot be read or written."""
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, stream=sys.stderr)
    session = Session(as_json, quiet, debug)
    try:
        with _signals_of_compiled_code():
            yield session
    except UserError as error:
        _refuse(session, error.problems)
    except BrokenPipeError:
        raise
    except OSError as error:
        if is_memory_error(error):
            raise
        _refuse(session, [_problem_of(error)])
    except KeyboardInterrupt:
        print("interrupted; nothing half-written was left behind", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def in_session(work: Callable[..., None]) -> Callable[..., None]:
    """``work`` as a command: its first parameter becomes ``--json``, ``--quiet`` and ``--debug``.

    The three options come last, and ``work`` gets the session that they open.
    """

    @wraps(work)
    def command(**given: Any) -> None:
        with open_session(*(given.pop(name) for name in OF_SESSION)) as session:
            work(session, **given)

    _, *params = signature(work, eval_str=True).parameters.values()
    further = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in OF_SESSION.items()
    ]
    vars(command)["__signature__"] = Signature([*params, *further])
    return command


@contextmanager
def _signals_of_compiled_code() -> Iterator[None]:
    """Raise what the handler of a signal raised while compiled code was running.

    The interpreter wraps it in a SystemError there, and that in another for every level of calls.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt | SystemExit):
            raise cause from None
        raise


def _refuse(session: Session, problems: list[Problem]) -> NoReturn:
    """Print the problems and exit; call it while the exception is handled."""
    if session.debug:
        traceback.print_exc()
    if session.as_json:
        print(json.dumps({"problems": [as_data(problem) for problem in problems]}, indent=1))
    session.complain(problems)
    if len(problems) > 1:
        session.complain([counted(len(problems), "problem")])
    raise SystemExit(WRONG) from None


def _problem_of(error: OSError) -> Problem:
    """The reason the operating system gave, and the file: full disk, read-only folder, ..."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = "" if error.filename is None else str(error.filename)
    return Problem(reason, where, _REMEDIES.get(error.errno or 0, ""))


_REMEDIES = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EEXIST: "it is not a folder; name another one with --out",
    errno.ENOTDIR: "it is not a folder; name another one with --out",
    errno.EROFS: "name a folder that can be written with --out",
    errno.EACCES: "name a folder that can be written with --out",
}


def as_data(problem: Problem) -> dict[str, str]:
    """``problem`` for a JSON document."""
    return {"where": problem.where, "what": problem.what, "how": problem.how}


def _print_rich(shown: Iterable[Any]) -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    console = Console(soft_wrap=False, width=width, markup=False, emoji=False)
    for part in shown:
        is_text = isinstance(part, str)
        shown_part = printable(part, keep="\n") if is_text else part
        console.print(shown_part, highlight=False, soft_wrap=is_text)


@contextmanager
def _progress_bar(name: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        yield lambda done, doing: bar.update(task, completed=done, description=printable(doing))
        bar.update(task, completed=1.0)
