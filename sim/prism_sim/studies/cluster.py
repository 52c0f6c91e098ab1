"""The same tasks on the workers of a Dask cluster, which may be other machines.

Every task carries its arguments, and its result comes back over the network, so workers need no
common file system. If a worker ends, the scheduler gives its tasks to others. A task that ends
several workers is reported as failed. Only a few tasks for each worker are handed out in advance.

A saved result counts as that of the present code. So each worker compares its code with that of
the client first, and refuses tasks of another version.

A simulation is one thread of Python: start workers with one thread each
(``dask worker ADDRESS --nthreads 1``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from llmprism.cluster import client_of, room
from prism_common.errors import Problem, UserError
from prism_sim.studies.fingerprints import fingerprint
from prism_sim.studies.pool import DIED, Outcome, attempt

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class DaskWorkers:
    """The workers of a Dask cluster, through its client."""

    client: Client

    def outcomes(
        self, work: Callable[[T], R], tasks: Iterable[T]
    ) -> Iterator[tuple[T, Outcome[R]]]:
        """Do ``work`` on every task; yields each task with its outcome when it is complete."""
        ahead, code = iter(tasks), fingerprint()
        waiting: dict[Future, T] = {}
        try:
            while True:
                for task in islice(ahead, max(0, room(self.client) - len(waiting))):
                    future = self.client.submit(attempt_with, code, work, task, pure=False)
                    waiting[future] = task
                if not waiting:
                    return
                for future in _ended(waiting):
                    yield waiting.pop(future), _outcome_of(future)
        finally:
            self.client.cancel([*waiting])


@contextmanager
def dask_workers(address: str) -> Iterator[DaskWorkers]:
    """The workers of the cluster whose scheduler is at ``address``, such as tcp://host:8786.

    Raises
    ------
    UserError : Dask is not installed, or no scheduler answers.
    """
    with client_of(address) as client:
        yield DaskWorkers(client)


def attempt_with(code: str, work: Callable[[T], R], task: T) -> Outcome[R]:
    """Do ``work`` on a worker, if its code is that of the client."""
    own = fingerprint()
    if own != code:
        how = "install the same version there"
        problem = Problem(f"this worker has prism-sim {own}, and the client {code}", "", how)
        return Outcome(error=str(problem))
    return attempt(work, task)


def _ended(waiting: Iterable[Future]) -> list[Future]:
    """Wait until at least one task is no longer running; returns all such tasks.

    Raises
    ------
    UserError : the scheduler has ended.
    """
    from distributed import CancelledError, wait

    try:
        ended = wait([*waiting], return_when="FIRST_COMPLETED").done
    except CancelledError as error:
        what, how = "the Dask scheduler has ended", "start it again, and repeat the command"
        raise UserError(Problem(f"{what}; finished runs are saved", "--cluster", how)) from error
    return [future for future in waiting if future in ended]


def _outcome_of(future: Future) -> Outcome[Any]:
    """The outcome of a task that is no longer running."""
    from distributed import KilledWorker

    error = future.exception() if future.status == "error" else None
    if isinstance(error, KilledWorker):
        return Outcome(error=DIED)
    if error is not None:
        return Outcome(error=f"{type(error).__name__}: {error}")
    outcome: Outcome[Any] = future.result()
    return outcome
