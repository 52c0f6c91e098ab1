"""Work on the workers of a Dask cluster, which may be other machines.

Every task carries its arguments, and its result comes back over the network, so workers need no
common file system. If a worker ends, the scheduler gives its tasks to others. Only a few tasks for
each worker are handed out in advance. A worker refuses tasks of another version of this package.

A diagnosis is one thread of Python: start workers with one thread each
(``dask worker ADDRESS --nthreads 1``).
"""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import prism_common
from prism_common.errors import Problem, UserError
from prism_common.version import code_of

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")

_ANSWER_S = 10  # for the scheduler to answer, and for a worker to be there
_IN_ADVANCE = 2  # tasks handed to the scheduler, for each thread of a worker
_EXTRA = "pip install 'llmprism[dask]'"


class Map(Protocol):
    """Does ``work`` on every task; gives the results in the order of the tasks."""

    def __call__(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]: ...


def in_turn(work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """Do ``work`` on every task in this process, one after the other."""
    return map(work, tasks)


@dataclass(frozen=True)
class OnWorkers:
    """Does work on the workers of a Dask cluster, through its client."""

    client: Client

    def __call__(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Do ``work`` on every task; gives the results in the order of the tasks.

        Raises
        ------
        UserError : that of ``work``; or the scheduler has ended, or a task ended its workers.
        """
        ahead, waiting = iter(tasks), deque[Any]()
        try:
            while True:
                for task in islice(ahead, max(0, room(self.client) - len(waiting))):
                    waiting.append(self._submitted(work, task))
                if not waiting:
                    return
                yield _result_of(waiting.popleft())
        finally:
            self.client.cancel([*waiting])

    def _submitted(self, work: Callable[[T], R], task: T) -> Future:
        with warnings.catch_warnings(action="ignore"):  # a task may be large
            return self.client.submit(_checked, code(), work, task, pure=False)


@contextmanager
def workers_at(address: str | None) -> Iterator[Map]:
    """The workers of the cluster whose scheduler is at ``address``; this process without one.

    Raises
    ------
    UserError : Dask is not installed, no scheduler answers, or it has no worker.
    """
    if address is None:
        yield in_turn
        return
    with client_of(address) as client:
        try:
            client.wait_for_workers(1, timeout=_ANSWER_S)
        except TimeoutError as error:
            what, how = "the Dask cluster has no workers", f"start some: dask worker {address}"
            raise UserError(Problem(what, f"--cluster {address}", how)) from error
        yield OnWorkers(client)


@contextmanager
def client_of(address: str) -> Iterator[Client]:
    """A client of the scheduler at ``address``, such as tcp://host:8786.

    Raises
    ------
    UserError : Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        what = "the package distributed is not installed"
        raise UserError(Problem(what, f"--cluster {address}", _EXTRA)) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors come with the results
    try:
        client = Client(address, timeout=_ANSWER_S, set_as_default=False)
    except (OSError, ValueError) as error:
        what, how = "no Dask scheduler answers", "start one: dask scheduler"
        raise UserError(Problem(what, f"--cluster {address}", how)) from error
    try:
        with client.as_current():
            yield client
    finally:
        client.close(timeout=_ANSWER_S)


def room(client: Client) -> int:
    """Tasks that the scheduler may have at a time; some also while there is no worker."""
    threads = sum(client.nthreads().values())
    return _IN_ADVANCE * max(1, int(threads))


@cache
def code() -> str:
    """Version of this distribution, and a hash of the sources of a diagnosis."""
    return code_of([Path(__file__).parent, Path(str(prism_common.__file__)).parent])


def _checked(expected: str, work: Callable[[T], R], task: T) -> R:
    """Do ``work`` on a worker, if its code is that of the client."""
    if code() != expected:
        how = "install the same version there"
        what = f"a worker of the cluster has llmprism {code()}, and this machine {expected}"
        raise UserError(Problem(what, "--cluster", how))
    return work(task)


def _result_of(future: Future) -> Any:
    """The result of a task, when it is complete."""
    from distributed import CancelledError, KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        what, how = "a task ended every worker that took it", "give workers more memory"
        raise UserError(Problem(what, "--cluster", how)) from error
    except (CancelledError, OSError) as error:
        what, how = "the Dask scheduler has ended", "start it again"
        raise UserError(Problem(what, "--cluster", how)) from error
