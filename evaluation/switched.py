"""What each function of ``prism`` is worth: it is switched off alone, and all worlds are graded.

A function is *switched off* by giving back what says nothing: None, an empty list, False, True, or
the argument that it would have changed. It *acts* in a world if it gives back anything else there.
It *mends* a world whose grade falls without it, and *breaks* one whose grade rises. A function that
acts and mends nothing is a candidate for deletion: acting is not mattering.

What is rare in the families counts for little here: recordings that begin within a step, and
evaluations after few steps. Tests have worlds with these. ``python -m evaluation ablation`` writes
``results/reference/ablation.md``.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import pickle
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from evaluation.exam import log
from evaluation.exam.measuring import Row
from evaluation.exam.worlds import RESULTS
from evaluation.gold import DRAWN, Case, cases, graded_case
from evaluation.paths import REFERENCE
from llmprism.methods import prism
from prism_sim.toolkit import Piece, default_processes, fingerprint, kept_results, table

PAGE = REFERENCE / "ablation.md"
SAMPLE = 24
"""Worlds in which a function is switched off, of those in which it acts."""
LEAST_LINES = 20
"""Lines that go with a function: smaller ones are not worth a run."""
MATTERS = 0.01
"""Change of a grade, in shares of one figure, from which a world is mended or broken."""
ERRORS = {"DP-end error": 20.0, "step error": 5.0}
"""Weight of an error of the timeline beside shares of what is right."""
ALARM = 0.25
"""Weight of a wrong finding."""

_SWITCHES: dict[str, Callable[..., Any]] = {}
"""What is called in place of a function, by its name, while it is switched."""


class Function(NamedTuple):
    """A function of the method by module and name, and what it gives back if it is off."""

    module: str
    name: str
    off: str

    @property
    def label(self) -> str:
        """Its name for the page."""
        inside = self.module.removeprefix(f"{prism.__name__}.")
        return f"{inside}:{self.name} = {self.off}"


def functions() -> list[Function]:
    """All functions of which a value says nothing, in order of modules."""
    found = []
    for info in pkgutil.walk_packages(prism.__path__, f"{prism.__name__}."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            made = inspect.unwrap(value) if isinstance(value, FunctionType) else None
            if isinstance(made, FunctionType) and made.__module__ == info.name:
                found += [Function(info.name, name, off) for off in _offs(made)]
    return found


def _offs(function: FunctionType) -> list[str]:
    """Values that say nothing, by the type that a function gives back."""
    given = function.__annotations__.get("return")
    names = [*inspect.signature(function).parameters]
    if given is None or function.__closure__ or inspect.isgeneratorfunction(function):
        return []
    if given == "bool":
        return ["False", "True"]
    same = [name for name in names if function.__annotations__.get(name) == given]
    if same:
        return [f"argument {same[-1]}"]
    if "| None" in given:
        return ["None"]
    if given == "Bools":
        return ["all False", "all True"]
    return ["empty"] if given.startswith(("list", "dict", "set", "Mapping", "Sequence")) else []


def _value(off: str, result: Any, bound: Mapping[str, Any]) -> Any:
    """What the function gives back when it is off; ``result`` is what it would have given back."""
    kind, _, name = off.partition(" ")
    if kind == "argument":
        return bound[name]
    if kind == "all":
        return np.full_like(result, name == "True")
    if kind == "empty":
        return type(result)()
    return {"None": None, "False": False, "True": True}[kind]


@contextmanager
def switched(function: Function, *, acted: set[Function] | None = None) -> Iterator[None]:
    """Switch a function off; or, with ``acted``, only add it there if it gives back anything."""
    live = inspect.unwrap(getattr(importlib.import_module(function.module), function.name))
    code, defaults, named = live.__code__, live.__defaults__, live.__kwdefaults__
    original = FunctionType(code, live.__globals__, live.__name__, defaults)
    original.__kwdefaults__ = named
    signature = inspect.signature(live)

    def instead(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        simple = function.off in ("None", "False", "True") or function.off.startswith("argument")
        result = None if simple and acted is None else original(*args, **kwargs)
        value = _value(function.off, result, bound.arguments)
        if acted is None:
            return value
        if function not in acted and not _same(result, value):
            acted.add(function)
        return result

    key = f"{function.module}:{function.name}"
    _SWITCHES[key] = instead
    trampoline: dict[str, Any] = {}
    source = (
        f"def f(*args, **kwargs):\n    import sys\n"
        f"    return sys.modules[{__name__!r}]._SWITCHES[{key!r}](*args, **kwargs)\n"
    )
    exec(source, trampoline)
    live.__code__, live.__defaults__, live.__kwdefaults__ = trampoline["f"].__code__, None, None
    try:
        yield
    finally:
        live.__code__, live.__defaults__, live.__kwdefaults__ = code, defaults, named


def _same(result: Any, value: Any) -> bool:
    if result is value:
        return True
    try:
        return pickle.dumps(result) == pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError, RuntimeError):
        return False  # it cannot be compared, or another thread changes it


def traced(task: tuple[Case, Path]) -> Row:
    """The grade of one world, and the functions that act in it."""
    acted: set[Function] = set()
    wholes = [one for one in functions() if one.off not in ("True", "all True")]
    with ExitStack() as stack:
        for one in wholes:
            stack.enter_context(switched(one, acted=acted))
        row = graded_case(task)["result"]
    labels = sorted(one.label for one in acted)
    return {"result": {"row": row, "acts": labels}}


def without(task: tuple[Case, Path, Function]) -> Row:
    """The grade of one world with a function switched off."""
    case, kept, function = task
    with switched(function):
        return graded_case((case, kept))


def worth(row: Row) -> float:
    """The grade of a world as one number: shares of what is right, less errors and alarms."""
    (grade,) = row["methods"].values()
    structure = grade["structure"]
    total = 0.0
    for name, value in structure.items():
        if name in ERRORS:
            total -= min(ERRORS[name] * (1.0 if value is None else value), 1.0)
        elif value is not None:
            total += value
    due = [own for fault, own in zip(row["faults"], grade["faults"], strict=False) if fault["due"]]
    for fault in due:
        total += (0.5 * fault["detected"] + 0.5 * (fault["near"] or fault["in_set"])) / len(due)
    wrong = sum(one["counts"] and not one["near"] for one in grade["findings"])
    return float(total - ALARM * wrong)


class Effect(NamedTuple):
    """What a function does: worlds in which it acts, was tried, mends and breaks; mean change."""

    function: Function
    lines: int
    acts: int
    tried: int
    mends: int
    breaks: int
    change: float


def effects(
    asked: Sequence[Case], kept: Path, processes: int, sample: int, least: int
) -> tuple[int, list[Effect]]:
    """The number of worlds, and the effects of all functions with at least so many lines.

    Those that act in the fewest worlds go first.
    """
    traces = _done(traced, [(case, kept) for case in asked], kept, processes, "trace")
    known = {_case_of(one["row"]): one for one in traces if one is not None}
    acts: dict[str, list[Case]] = {}
    for case, one in known.items():
        for label in one["acts"]:
            acts.setdefault(label, []).append(case)
    lines = own_lines()
    chosen = [
        one
        for one in functions()
        if one.label in acts and lines.get((one.module, one.name), 0) >= least
    ]
    chosen.sort(key=lambda one: len(acts[one.label]))
    tasks = [(case, kept, one) for one in chosen for case in _spread(acts[one.label], sample)]
    rows = _done(without, tasks, kept, processes, "without")
    changes: dict[Function, list[float]] = {}
    for (case, _, one), row in zip(tasks, rows, strict=True):
        # A world that cannot be diagnosed without the function has no grade at all.
        after = worth(row) if row is not None else 0.0
        changes.setdefault(one, []).append(worth(known[case]["row"]) - after)
    return len(known), [
        Effect(
            one,
            lines.get((one.module, one.name), 0),
            len(acts[one.label]),
            len(own),
            sum(change >= MATTERS for change in own),
            sum(change <= -MATTERS for change in own),
            float(np.mean(own)),
        )
        for one, own in changes.items()
    ]


def _case_of(row: Row) -> Case:
    return Case(row["family"], row["seed"] if isinstance(row["seed"], str) else str(row["seed"]))


def _spread(every: Sequence[Case], number: int) -> list[Case]:
    """At most ``number`` of the cases, evenly from all of them."""
    if len(every) <= number:
        return list(every)
    return [every[i] for i in np.linspace(0, len(every) - 1, number).astype(int)]


def _done(
    work: Callable[[Any], Row], tasks: Sequence[Any], kept: Path, processes: int, what: str
) -> list[Any]:
    pieces = [Piece(_key(what, task), f"{what} {i}", task) for i, task in enumerate(tasks)]
    found = kept_results(
        work, pieces, kept / "switched", processes, lambda _, text: print(text, file=sys.stderr)
    )
    return [one.get("result") for one in found]


def _key(what: str, task: Sequence[Any]) -> str:
    names = [list(part) if isinstance(part, tuple) else str(part) for part in task]
    text = json.dumps([fingerprint(), what, names])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def own_lines() -> dict[tuple[str, str], int]:
    """Lines of each function with those that only it needs, by module and name."""
    length: dict[tuple[str, str], int] = {}
    needs: dict[tuple[str, str], set[tuple[str, str]]] = {}
    outside: set[tuple[str, str]] = set()
    for info in pkgutil.walk_packages(prism.__path__, f"{prism.__name__}."):
        path = Path(str(importlib.import_module(info.name).__file__))
        body = ast.parse(path.read_text(encoding="utf-8")).body
        home = {
            alias.asname or alias.name: (str(node.module), alias.name)
            for node in body if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }  # fmt: skip
        for node in body:
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            used = {home.get(name, (info.name, name)) for name in names}
            if isinstance(node, ast.FunctionDef):
                length[info.name, node.name] = (node.end_lineno or 0) - node.lineno + 1
                needs[info.name, node.name] = used - {(info.name, node.name)}
            else:
                outside |= used
    return {one: _with_needed(one, length, needs, outside) for one in length}


def _with_needed(
    one: tuple[str, str],
    length: Mapping[tuple[str, str], int],
    needs: Mapping[tuple[str, str], set[tuple[str, str]]],
    outside: set[tuple[str, str]],
) -> int:
    gone = {one}
    while True:
        kept = outside.union(*(needs[other] for other in length if other not in gone))
        wanted = set().union(*(needs[own] for own in gone)) & length.keys()
        more = wanted - gone - kept
        if not more:
            return sum(length[own] for own in gone)
        gone |= more


def ablation(
    drawn: Annotated[int, typer.Option("--worlds", min=0, help="Of each family.")] = DRAWN,
    sample: Annotated[int, typer.Option(min=1, help="Worlds for each function.")] = SAMPLE,
    least: Annotated[
        int, typer.Option(min=1, help="Lines that go with a function; leave out smaller ones.")
    ] = LEAST_LINES,
    kept: Annotated[Path, typer.Option(help="Where results are kept.")] = RESULTS,
    processes: Annotated[int | None, typer.Option(min=1, help="Parallel processes.")] = None,
    out: Annotated[Path, typer.Option(help="The page.")] = PAGE,
) -> None:
    """Switch off each function of prism alone: results/reference/ablation.md; resumes."""
    number, found = effects(
        one_file_each(cases(drawn)), kept, processes or default_processes(), sample, least
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page_of(number, found), encoding="utf-8")
    typer.echo(str(out))


def one_file_each(every: Sequence[Case]) -> list[Case]:
    """The cases without further files of the same captures."""
    return [one for one in every if one.of != "captures" or one.name.endswith("/flows")]


def page_of(worlds: int, found: Sequence[Effect]) -> str:
    """The page: the table of effects, the least worth first."""
    order = sorted(found, key=lambda one: (one.mends - one.breaks, one.change, -one.lines))
    rows = [
        [
            f"`{one.function.label}`",
            str(one.lines),
            str(one.acts),
            str(one.tried),
            str(one.mends),
            str(one.breaks),
            f"{one.change:+.3f}",
        ]
        for one in order
    ]
    head = ["function = value when off", "lines", "acts in", "tried in", "mends", "breaks", "worth"]
    _, described, rare = (" ".join(one.split()) for one in (__doc__ or "").split("\n\n"))
    return (
        "# What each function of `prism` is worth\n\n"
        f"{described}\n\n{rare.replace('``', '`')}\n\n"
        f"Made on {log.today()} from commit {log.commit()}, of {worlds} worlds; *worth* is by how "
        f"much a grade changes on average, in shares of one figure.\n\n{table(head, rows)}\n"
    )
