"""A YAML file as a tree of plain values with the line of each.

Only the plain part of YAML is accepted, with the rules of YAML 1.2: ``no`` and ``on`` are
words, ``010`` is not octal, ``1:30`` is not ninety, ``1e6`` is a number. A duplicate key is
refused, since it is ambiguous. A key without a value counts as left out, so a list may be
emptied by commenting out its items.

A file from an unknown source cannot exhaust the machine: its size, its depth, and the number of
values that its aliases repeat are limited, and checked before the values are built.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from prism_common.errors import Problem, UserError
from prism_sim.scenario.base import Loc

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"

LARGEST_FILE_BYTES = 64 * 1024**2
"""Even scenarios with a whole imported trace are smaller than this."""
DEEPEST = 64
"""Maximum levels of nesting; scenarios need about a dozen."""
MOST_REPEATED = 100_000
"""Maximum number of values that aliases repeat, in total."""
_SHOWN_CHARACTERS = 80


class Yaml12(yaml.SafeLoader):
    """PyYAML's safe loader with the scalar rules of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self.nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node and count it; refuse nodes that are nested too deeply."""
        self._depth += 1
        self.nodes += 1
        if self._depth > DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # of PyYAML's stubs
            raise yaml.composer.ComposerError(None, None, _too_deep(), mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _too_deep() -> str:
    return f"more than {DEEPEST} levels of nesting"


for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?(0|[1-9][0-9_]*)", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?", [*"-+.0123456789"]),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", [*"-+."]),
    ("merge", _MERGE, ["<"]),
):
    Yaml12.add_implicit_resolver(_TAG + _kind, re.compile(f"(?:{_pattern})$"), _first)


@dataclass
class Source:
    """The values of a file, and the location of each.

    Attributes
    ----------
    file : name of the file in messages.
    values : the tree, of dict, list and scalars.
    places : ``file:line`` of every key and list item, by its path from the top.
    """

    file: str
    values: dict[str, Any]
    places: dict[Loc, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder that relative file names start from; the current one for a pipe."""
        path = Path(self.file)
        return path.parent if path.is_file() else Path()

    def place(self, loc: Loc) -> str:
        """The location of the value at ``loc``, or of the nearest value around it."""
        while loc and loc not in self.places:
            loc = loc[:-1]
        return self.places.get(loc, self.file)

    def part(self, key: str) -> Source:
        """The mapping at ``key`` of the top, as a source of its own.

        Raises
        ------
        UserError : there is none.
        """
        values = self.values.get(key)
        if not isinstance(values, dict):
            raise UserError(Problem(f"there is no {key} here", self.file))
        places = {loc[1:]: place for loc, place in self.places.items() if loc[:1] == (key,)}
        return Source(self.file, values, places)

    def override_all(self, values: Mapping[str, Any]) -> None:
        """Set each value at its dotted path, such as ``jobs.0.dp``.

        Raises
        ------
        UserError : some paths lead to values that do not exist.
        """
        problems: list[Problem] = []
        for path, value in values.items():
            try:
                self._override(path, value)
            except UserError as error:
                problems += error.problems
        if problems:
            raise UserError(problems)

    def _override(self, path: str, value: Any) -> None:
        loc, holder = _holder(self.values, path)
        if value is None and isinstance(holder, dict):
            holder.pop(loc[-1], None)
        else:
            holder[loc[-1]] = value
        for below in [known for known in self.places if known[: len(loc)] == loc]:
            del self.places[below]
        self.places[loc] = f"--set {path}"


def read_source(path: Path) -> Source:
    """Parse the YAML file at ``path``; all its syntax problems are one UserError."""
    try:
        content = _bytes_of(path) if path.is_file() else _piped(path)
        if len(content) > LARGEST_FILE_BYTES:
            what = f"the file is larger than {LARGEST_FILE_BYTES // 1024**2} MiB"
            raise UserError(Problem(what, str(path), "name a scenario file"))
        return parse_source(content.decode("utf-8-sig"), str(path))
    except FileNotFoundError as error:
        raise UserError(Problem("there is no such file", str(path))) from error
    except UnicodeDecodeError as error:
        how = "name a YAML file; the diagnosis of flow records is: prism-sim diagnose FLOWS"
        raise UserError(Problem("this is not text", str(path), how)) from error
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error}", str(path))) from error


def _bytes_of(path: Path) -> bytes:
    """The content of ``path``, up to one byte more than the limit."""
    with path.open("rb") as file:
        return file.read(LARGEST_FILE_BYTES + 1)


@functools.cache
def _piped(path: Path) -> bytes:
    """The content of a pipe, which can be read only once."""
    return _bytes_of(path)


def parse_source(text: str, file: str) -> Source:
    """Parse YAML ``text``; ``file`` names it in messages."""
    node, nodes = _composed(text, file)
    if not isinstance(node, yaml.MappingNode):
        empty = node is None or not node.value
        what = "the file is empty" if empty else "the file is not a mapping of keys"
        raise UserError(Problem(what, f"{file}:1", "a scenario starts with keys like cluster:"))
    builder = _Builder(file, _Budget(nodes + MOST_REPEATED))
    values = builder.build(node, ())
    if builder.problems:
        raise UserError(builder.problems)
    builder.places[()] = f"{file}:{node.start_mark.line + 1}"
    return Source(file, values, builder.places)


def parse_value(text: str, where: str) -> Any:
    """The value of YAML ``text``, which was given at ``where``."""
    try:
        node, nodes = _composed(text, where)
        builder = _Builder(where, _Budget(nodes + MOST_REPEATED))
        value = None if node is None else builder.build(node, ())
        if builder.problems:
            raise UserError(builder.problems)
    except UserError as error:
        how = "quote it for the shell"
        raise UserError(Problem(p.what, where, p.how or how) for p in error.problems) from error
    return value


def _composed(text: str, file: str) -> tuple[yaml.Node | None, int]:
    """The top node of YAML ``text``, and the total number of nodes."""
    try:
        loader = Yaml12(text)
        return loader.get_single_node(), loader.nodes
    except yaml.MarkedYAMLError as error:
        raise UserError(_syntax_problem(error, text, file)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"character {error.character!r} is not allowed in YAML"
        raise UserError(Problem(what, f"{file}:{line}")) from error


class _Budget:
    """The number of values that may still be built."""

    def __init__(self, values: int) -> None:
        self.values = values


class _Builder:
    """Builds values from YAML nodes; records the location of each value, and problems."""

    def __init__(self, file: str, budget: _Budget) -> None:
        self.file = file
        self.budget = budget
        self.places: dict[Loc, str] = {}
        self.problems: list[Problem] = []
        self._open: list[yaml.Node] = []
        self._scalars = Yaml12("")

    def build(self, node: yaml.Node, loc: Loc) -> Any:
        if any(node is outer for outer in self._open):
            return self._refuse(node, "an anchor refers to itself", "write the values out")
        self._spend(node)
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, loc)
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, loc)
            return self._scalar(node)
        finally:
            self._open.pop()

    def _spend(self, node: yaml.Node) -> None:
        """Count a value; stop at once if aliases of a file make too many, or too deep a tree."""
        self.budget.values -= 1
        if self.budget.values < 0:
            what, how = f"aliases repeat more than {MOST_REPEATED} values", "write the values out"
            raise UserError(Problem(what, self._place(node), how))
        if len(self._open) >= DEEPEST:
            raise UserError(Problem(f"aliases make {_too_deep()}", self._place(node)))

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        values: dict[str, Any] = {}
        seen: set[str] = set()
        for key, item in _own_entries(node):
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key, "a key must be a plain word", "")
            elif key.value in seen:
                first = self.places[(*loc, key.value)]
                self._refuse(key, f"key {key.value!r} is given twice", f"first at {first}")
            else:
                self.places[(*loc, key.value)] = self._place(key)
                value = self.build(item, (*loc, key.value))
                seen.add(key.value)
                if value is not None:
                    values[key.value] = value
        for merged in _merged(node):
            self._merge(merged, loc, values, seen)
        return values

    def _merge(self, merged: yaml.Node, loc: Loc, values: dict[str, Any], own: set[str]) -> None:
        """Add the values that ``<<`` merges in, except for keys that are also in ``own``."""
        apart = _Builder(self.file, self.budget)
        apart._open = self._open
        inherited = apart.build(merged, loc)
        self.problems += apart.problems
        if not isinstance(inherited, dict):
            self._refuse(merged, "<< must be followed by a mapping", "name an anchored mapping")
            return
        depth = len(loc)
        values.update({key: value for key, value in inherited.items() if key not in own})
        self.places.update({at: line for at, line in apart.places.items() if at[depth] not in own})
        own |= set(inherited)

    def _sequence(self, node: yaml.SequenceNode, loc: Loc) -> list[Any]:
        for index, item in enumerate(node.value):
            self.places[(*loc, index)] = self._place(item)
        return [self.build(item, (*loc, index)) for index, item in enumerate(node.value)]

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            return self._scalars.construct_object(node)
        except (yaml.constructor.ConstructorError, ValueError):
            return self._refuse(
                node, f"{_shortened(repr(node.value))} with tag {node.tag} is not plain YAML", ""
            )

    def _refuse(self, node: yaml.Node, what: str, how: str) -> None:
        self.problems.append(Problem(what, self._place(node), how))

    def _place(self, node: yaml.Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}"


def _is_merge(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.tag == _TAG + "merge"


def _own_entries(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    return ((key, item) for key, item in node.value if not _is_merge(key))


def _merged(node: yaml.MappingNode) -> Iterator[yaml.Node]:
    for key, item in node.value:
        if _is_merge(key):
            yield from item.value if isinstance(item, yaml.SequenceNode) else [item]


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    rows = text.splitlines()
    row = rows[line] if line < len(rows) else ""
    if "\t" in row[: len(row) - len(row.lstrip())]:
        how = "YAML is indented with spaces; replace the tab"
        return Problem("a tab is used for indentation", f"{file}:{line + 1}", how)
    what = " ".join(part for part in (error.context, error.problem) if part)
    how = f"the line reads: {_shortened(row.strip())}" if row.strip() else "the file ends too early"
    return Problem(f"not valid YAML: {what}", f"{file}:{line + 1}", how)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _holder(values: Any, path: str) -> tuple[Loc, Any]:
    """The location for ``path``, with list positions as numbers, and the container of its end."""
    *ways, last = path.split(".")
    if len(ways) >= DEEPEST:
        raise UserError(Problem(f"the path has {_too_deep()}", f"--set {_shortened(path)}"))
    loc: list[str | int] = []
    for part in ways:
        key = _key(values, part, loc, path)
        if isinstance(values, dict) and values.get(part) is None:
            values[part] = {}
        values = values[key]
        loc.append(key)
    return (*loc, _key(values, last, loc, path)), values


def _key(values: Any, part: str, loc: list[str | int], path: str) -> str | int:
    """``part`` as a key of ``values``, which is at ``loc``."""
    here = ".".join(str(way) for way in loc)
    if isinstance(values, dict) and part:
        return part
    if isinstance(values, list):
        if part.isdecimal() and int(part) < len(values):
            return int(part)
        what = f"{here} has {len(values)} items, counted from 0, and no item {part!r}"
        raise UserError(Problem(what, f"--set {path}"))
    what = f"{here or 'the scenario'} has nothing called {part!r} inside"
    raise UserError(Problem(what, f"--set {path}", "write a path such as jobs.0.dp"))
