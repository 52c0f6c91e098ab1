"""The configuration of a monitor: the words of its options, from the command line and a file.

The file is YAML with the same words (``quiet-period: 2m``); what the command line says counts more.
It is read again at SIGHUP: topology, names and bounds change while the monitor runs; source, state
and addresses need a new start, so another value of them changes nothing, and is reported, as
whatever is wrong is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmprism.ingest.options import parse_duration, parse_pairs
from llmprism.io.asking import is_address
from llmprism.watch.alerts.alertmanager import Addresses, Alertmanager
from llmprism.watch.listening import Listener
from llmprism.watch.logging import LOGGER, reason_of
from llmprism.watch.monitor import Monitor
from llmprism.watch.names import Names
from llmprism.watch.network import Network
from llmprism.watch.running import Outputs
from llmprism.watch.settings import SECOND_NS, Settings
from prism_common.errors import Problem, UserError

_LIMIT_BYTES = 1 << 20
_WITH_FILES = ("topology", "state", "names", "hosts", "token_file", "collectives")
"""Options that name files: those of a configuration file are beside it."""


@dataclass(frozen=True)
class Configuration:
    """All settings of a monitor."""

    source: str | None
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
    durations = {
        name: _read(parse_duration, str(values[name]), name, problems) for name in _DURATIONS
    }
    labels, points = (
        _read(parse_pairs, values[name] or "", name, problems)
        for name in ("external_labels", "points")
    )
    if problems:
        raise UserError(problems)
    addresses = Addresses(values["page_url"] or "", values["runbook_url"] or "", labels)
    settings = Settings(
        window_ns=durations["window"], stride_ns=durations["every"],
        quiet_ns=durations["quiet_period"], lag_ns=durations["lag_bound"],
        silence_s=durations["silence_bound"] / SECOND_NS, retention_days=values["retention"],
        records_at_once=values["at_once"], has_flows=values["source"] is not None,
        **{name: values[name] for name in ("method", "cluster", "collectives")},
    )  # fmt: skip
    alertmanagers = tuple(values["alertmanager"] or ())
    return Configuration(
        **{name: values[name] for name in _FIXED}, settings=settings,
        names=Names(values["names"], values["hosts"], points),
        outputs=Outputs(values["serve"], values["token_file"], alertmanagers, addresses),
    )  # fmt: skip


_DURATIONS = ("window", "every", "quiet_period", "silence_bound", "lag_bound")


def _read(parse: Callable[[str, str], Any], text: str, name: str, problems: list[Problem]) -> Any:
    """An option by its name; None if it is wrong, which is one of the ``problems``."""
    try:
        return parse(text, f"--{name.replace('_', '-')}")
    except UserError as error:
        problems += error.problems
        return None


def read_config(path: Path, known: Collection[str]) -> dict[str, Any]:
    """The options in a file, by their names with underscores.

    Raises
    ------
    UserError : it is no YAML, or has words that no option has; all problems at once.
    """
    import yaml

    from llmprism.io.sources import read_text
    from llmprism.network.documents import refused

    how = "write options as on the command line, such as `quiet-period: 2m`"
    with refused(str(path), how):
        node = yaml.compose(read_text(path, _LIMIT_BYTES, how), Loader=yaml.SafeLoader)
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
    """Text of a scalar, a list of texts, or pairs of texts as on the command line; None of others.

    Aliases may repeat a node in itself, so nothing is looked for deeper.
    """
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    is_map = isinstance(node, yaml.MappingNode)
    rows = node.value if is_map else [(part,) for part in node.value]
    if not all(isinstance(part, yaml.ScalarNode) for row in rows for part in row):
        return None
    texts = ["=".join(str(part.value) for part in row) for row in rows]
    return ",".join(texts) if is_map else texts


def _beside(path: Path, name: str, value: Any) -> Any:
    is_of_server = isinstance(value, str) and is_address(value)
    return str(path.parent / value) if name in _WITH_FILES and not is_of_server else value


_FIXED = ("source", "topology", "state")


@dataclass
class Reloading:
    """Reads the configuration again; ``present`` is the one that holds."""

    present: Configuration
    network: Network
    again: Callable[[], Configuration]

    def read(self, monitor: Monitor, listeners: Sequence[Listener]) -> None:
        """Bring a monitor up to date with its configuration."""
        try:
            fresh = self.again()
            self.network.reload(fresh.names)
        except Exception as error:  # whatever others wrote, the monitor goes on
            self.network.problem = f"the configuration of before holds: {reason_of(error)}"
            LOGGER.error("%s", self.network.problem)
            return
        before, self.present = self.present, fresh
        fixed = [name for name in _FIXED if getattr(before, name) != getattr(fresh, name)]
        outputs = replace(fresh.outputs, addresses=before.outputs.addresses)
        fixed += ["outputs"] if outputs != before.outputs else []
        if fixed:
            LOGGER.warning("a new start is needed for what has changed in: %s", ", ".join(fixed))
        monitor.adopt(fresh.settings)
        for one in listeners:
            if isinstance(one, Alertmanager):
                given = fresh.outputs.addresses
                page_url = given.page_url or one.addresses.page_url
                one.addresses = replace(given, page_url=page_url)
        LOGGER.info("topology, names and configuration were read again")
