"""What a monitor is given: its window, the bounds beyond which it is blind, optional packages."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from llmprism.defaults import METHOD, RECORDS_AT_ONCE
from prism_common.errors import Problem, UserError

SECOND_NS = 1_000_000_000
_SHARE = 30  # of a window
_YOUNG = 10  # of a window: two steps, if a window has as many as it should


@dataclass(frozen=True)
class Settings:
    """Times and bounds of a monitor.

    Attributes
    ----------
    window_ns : time of the records that are diagnosed together [ns].
    stride_ns : time by which records advance from one window to the next, at least [ns].
    quiet_ns : a finding that returns within this time belongs to the same incident [ns].
    silence_s : without any record for so long, the monitor is blind [s].
    lag_ns : if the latest record is older than this, the monitor is blind [ns].
    ahead_ns : a record may end so much after the present time of this machine's clock [ns].
    retention_days : how long the history is kept.
    method : of diagnosis.
    records_at_once : a window of more records is diagnosed in parts, as a file is.
    cluster : the scheduler of the Dask cluster whose workers diagnose the parts.
    collectives : a folder that communication libraries write into.
    has_flows : whether there is a source of flows, which decide then what is diagnosed when.

    Raises
    ------
    UserError : the stride is longer than half of a window, so that records would be passed over.
    """

    window_ns: int = 300 * SECOND_NS
    stride_ns: int = 2 * SECOND_NS
    quiet_ns: int = 60 * SECOND_NS
    silence_s: float = 60.0
    lag_ns: int = 300 * SECOND_NS
    ahead_ns: int = 30 * SECOND_NS
    retention_days: int = 90
    method: str = METHOD
    records_at_once: int = RECORDS_AT_ONCE
    cluster: str | None = None
    collectives: Path | None = None
    has_flows: bool = True

    def __post_init__(self) -> None:
        if 2 * self.stride_ns > self.window_ns:
            what = "it is longer than half of --window, and each record has to be in two windows"
            raise UserError(Problem(what, "--every", "shorten it, or lengthen --window"))

    @property
    def pause_ns(self) -> int:
        """Time between two diagnoses of jobs that cannot be followed [ns]."""
        return max(self.stride_ns, self.window_ns // _SHARE)

    @property
    def young_ns(self) -> int:
        """Time for which a job has only just begun [ns]."""
        return self.window_ns // _YOUNG


def with_monitor(module: str, asked_by: str = "") -> ModuleType:
    """A module that needs the packages of the extra ``monitor``; ``asked_by`` is an option.

    Raises
    ------
    UserError : a package is missing.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        what, how = f"the package {error.name} is missing", "pip install 'llmprism[monitor]'"
        raise UserError(Problem(what, asked_by, how)) from error
