"""The configuration of a monitor: the words of its options, from the command line and a file.

The file is YAML with the same words (``quiet-period: 2m``); what the command line says counts more.
It is read again at SIGHUP: topology, names and bounds change while the monitor runs; source, state
and addresses need a new start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmprism.ingest.options import parse_duration, parse_pairs
from llmprism.watch.alerts.alertmanager import Addresses
from llmprism.watch.names import Names
from llmprism.watch.settings import SECOND_NS, Settings
from prism_common.errors import Problem, UserError

_LIMIT_BYTES = 1 << 20
_WITH_FILES = ("topology", "state", "names", "hosts", "token_file")
"""Options that name files: those of a configuration file are beside it."""


@dataclass(frozen=True)
class Outputs:
    """Where to tell what a monitor finds.

    Attributes
    ----------
    serve : address of the live page and of metrics; None for none.
    token_file : with the token that requests need.
    alertmanagers : their URLs.
    addresses : what alerts say about where to find more; the page is that of ``serve`` by default.
    """

    serve: str | None = None
    token_file: Path | None = None
    alertmanagers: tuple[str, ...] = ()
    addresses: Addresses = field(default_factory=Addresses)


@dataclass(frozen=True)
class Configuration:
    """All settings of a monitor."""

    source: str
    topology: Path
    state: Path
    settings: Settings
    names: Names
    outputs: Outputs


def configured(values: Mapping[str, Any]) -> Configuration:
    """The configuration that options describe, by their names.

    Raises
    ------
    UserError : options are wrong; all problems at once.
    """
    problems: list[Problem] = []
    durations = {name: _duration(values, name, problems) for name in _DURATIONS}
    labels = _pairs(values, "external_labels", problems)
    points = _pairs(values, "points", problems)
    if problems:
        raise UserError(problems)
    addresses = Addresses(values["page_url"] or "", values["runbook_url"] or "", labels)
    return Configuration(
        source=values["source"],
        topology=values["topology"],
        state=values["state"],
        settings=Settings(
            window_ns=durations["window"],
            stride_ns=durations["every"],
            quiet_ns=durations["quiet_period"],
            silence_s=durations["silence_bound"] / SECOND_NS,
            lag_ns=durations["lag_bound"],
            retention_days=values["retention"],
            method=values["method"],
            records_at_once=values["at_once"],
            cluster=values["cluster"],
        ),
        names=Names(values["names"], values["hosts"], points),
        outputs=Outputs(
            values["serve"], values["token_file"], tuple(values["alertmanager"] or ()), addresses
        ),
    )


_DURATIONS = ("window", "every", "quiet_period", "silence_bound", "lag_bound")


def _duration(values: Mapping[str, Any], name: str, problems: list[Problem]) -> int:
    try:
        return parse_duration(str(values[name]), f"--{name.replace('_', '-')}")
    except UserError as error:
        problems += error.problems
        return 0


def _pairs(values: Mapping[str, Any], name: str, problems: list[Problem]) -> dict[str, str]:
    try:
        return parse_pairs(values[name] or "", f"--{name.replace('_', '-')}")
    except UserError as error:
        problems += error.problems
        return {}


def read_config(path: Path, known: Collection[str]) -> dict[str, Any]:
    """The options in a file, by their names with underscores.

    Raises
    ------
    UserError : it is no YAML, or has words that no option has; all problems at once.
    """
    import yaml

    from llmprism.io.sources import read_text

    how = "write options as on the command line, such as `quiet-period: 2m`"
    text = read_text(path, _LIMIT_BYTES, how)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        at = getattr(error, "problem_mark", None)
        where = f"{path}:{at.line + 1}" if at else str(path)
        reason = getattr(error, "problem", None) or f"{error}".partition("\n")[0]
        raise UserError(Problem(f"this is no YAML: {reason}", where, how)) from error
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise UserError(Problem("this is no list of options", f"{path}:1", how))
    found: dict[str, Any] = {}
    problems = []
    for key, value in node.value:
        name, where = str(key.value).replace("-", "_"), f"{path}:{key.start_mark.line + 1}"
        content = _value(value)
        if name not in known:
            words = ", ".join(sorted(one.replace("_", "-") for one in known))
            problems.append(Problem(f"no option is called {key.value!r}", where, f"use: {words}"))
        elif content is None:
            problems.append(Problem(f"{key.value!r} has no plain value", where, how))
        elif name in found:
            problems.append(Problem(f"{key.value!r} is there twice", where, "keep one of them"))
        else:
            found[name] = content
    if problems:
        raise UserError(problems)
    return {name: _beside(path, name, one) for name, one in found.items()}


def _value(node: Any) -> Any:
    """Text of a scalar, or a list of texts; None for anything else."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        texts = [_value(one) for one in node.value]
        return texts if all(isinstance(one, str) for one in texts) else None
    if isinstance(node, yaml.MappingNode):
        pairs = [(_value(key), _value(one)) for key, one in node.value]
        return ",".join(f"{key}={one}" for key, one in pairs)
    return None


def _beside(path: Path, name: str, value: Any) -> Any:
    is_address = isinstance(value, str) and value.startswith(("http://", "https://"))
    return str(path.parent / value) if name in _WITH_FILES and not is_address else value
