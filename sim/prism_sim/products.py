"""Output folders: one process at a time, and only files that prism-sim wrote.

Every folder has a record, ``.prism-sim.json``, of the files that prism-sim wrote and the stage
that wrote each. Other files are never replaced or removed. A stage writes to a temporary folder.
When it is complete, its files are moved into place together, and files that later stages made
from the replaced ones are removed, so a folder never contains a score of an older diagnosis. A
new score keeps the report; the command prints that the report shows an older score.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from llmprism.io.notes import json_object
from prism_common.errors import Problem, UserError
from prism_common.files import replacing

RECORD = ".prism-sim.json"
LOCK = ".prism-sim.lock"
_ABOUT = "Files that prism-sim wrote here. It replaces and removes these, and no others."
_TABLES = ("jobs", "layouts", "pairs", "groups", "steps", "spans", "findings")
_TRUTH = ("ranks", "pairs", "steps", "spans", "faults", "layouts")
_LOGS_TRUTH = ("logs_jobs", "logs_nodes", "logs_failures", "logs_lines")

PRODUCTS: dict[str, tuple[str, ...]] = {
    "simulate": (
        "flows.parquet",
        "topology.json",
        "manifest.json",
        *(f"truth/{name}.parquet" for name in (*_TRUTH, *_LOGS_TRUTH)),
        "logs/index.json",
    ),
    "diagnose": (*(f"diagnosis/{name}.parquet" for name in _TABLES), "diagnosis/intake.json"),
    "score": ("score.json",),
    "report": ("trace.json", "report.html", "figures/*.png"),
}
"""Files of each stage of a run, stages in their order."""

_held: set[tuple[Path, int]] = set()
"""Folders that this process has locked, and the thread that locked them."""


def own_products(folder: Path) -> dict[str, str]:
    """Files in ``folder`` that prism-sim wrote, and the stage that wrote each."""
    if (folder / RECORD).exists():
        products = json_object(folder / RECORD).get("products")
        return products if isinstance(products, dict) else {}
    return _products_without_record(folder)


def _products_without_record(folder: Path) -> dict[str, str]:
    """Products of a run from before records existed; its manifest names the stages."""
    manifest = json_object(folder / "manifest.json")
    versions, timings = manifest.get("versions"), manifest.get("timings_s")
    if not isinstance(versions, dict) or not isinstance(timings, dict):
        return {}
    return {
        path.relative_to(folder).as_posix(): stage
        for stage in (PRODUCTS if "prism-sim" in versions else ())
        if stage in timings
        for pattern in PRODUCTS[stage]
        for path in folder.glob(pattern)
    }


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Be the only process that writes into ``folder``, which is created if missing.

    The operating system releases the lock when the process ends.

    Raises
    ------
    UserError : another process is writing there.
    """
    key = (folder.resolve(), threading.get_ident())
    if key in _held:
        yield
        return
    was_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    _held.add(key)
    try:
        for left_over in folder.glob(".prism-sim.*.partial"):  # from a killed process
            shutil.rmtree(left_over, ignore_errors=True)
        yield
    finally:
        _held.discard(key)
        (folder / LOCK).unlink(missing_ok=True)
        os.close(lock)
        if not was_there and not any(folder.iterdir()):
            folder.rmdir()


def _locked(folder: Path) -> int:
    """Lock the lock file of ``folder``; returns its descriptor."""
    path = folder / LOCK
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                os.ftruncate(lock, 0)
                os.write(lock, f"{os.getpid()}\n".encode())
                return lock
        except BlockingIOError:
            holder = os.read(lock, 20).decode(errors="replace").strip()
            os.close(lock)
            what = f"process {holder or 'unknown'} is writing into this folder"
            how = "wait until it has ended, or name another folder with --out"
            raise UserError(Problem(what, str(folder), how)) from None
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
                os.close(lock)
                raise
            return lock  # a file system without locks
        os.close(lock)  # its last holder has just removed it


@contextmanager
def stage_files(folder: Path, stage: str) -> Iterator[Path]:
    """Yield a folder in which ``stage`` writes its files; they are moved into place at the end.

    All other files of ``folder`` can be read there under the same names. If the block fails,
    ``folder`` does not change.

    Raises
    ------
    UserError : a file that would be replaced was not written by prism-sim.
    """
    with exclusive(folder):
        refuse_to_replace(folder, _expected(stage))
        aside = folder / f".prism-sim.{os.getpid()}.partial"
        view = aside / folder.resolve().name
        try:
            _show_inputs(folder, view, stage)
            with _naming(view, folder):
                yield view
            made = sorted(_files_below(view))
            refuse_to_replace(folder, made)
            with _uninterrupted():
                _put_in_place(folder, view, stage, made)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _expected(stage: str) -> list[str]:
    return [name for name in PRODUCTS.get(stage, ()) if "*" not in name]


def _from(stage: str) -> list[str]:
    """``stage`` and all later ones."""
    names = [*PRODUCTS]
    return names[names.index(stage) :] if stage in names else [stage]


def _outdated(stage: str) -> list[str]:
    """Stages whose older products a new run of ``stage`` removes.

    A score replaces only the score: a report beside it says which score it shows.
    """
    return [stage] if stage == "score" else _from(stage)


def adopt(folder: Path, products: dict[str, str]) -> None:
    """Record files from before records existed, with the stage that wrote each."""
    _write_record(folder, products | own_products(folder))


def refuse_to_replace(folder: Path, products: Iterable[str]) -> None:
    """Raise a UserError if one of ``products`` exists and prism-sim did not write it."""
    own = own_products(folder)
    foreign = [path for path in products if path not in own and os.path.lexists(folder / path)]
    if foreign:
        how = "move it away, or name another folder with --out"
        what = "prism-sim did not write this file, and will not replace it"
        raise UserError(Problem(what, str(folder / path), how) for path in foreign)


def refuse_other_files(folder: Path) -> None:
    """Raise a UserError if ``folder`` exists and contains anything that prism-sim did not write."""
    if not folder.is_dir():
        return
    own = {path.split("/")[0] for path in own_products(folder)}
    names = sorted(entry.name for entry in folder.iterdir())
    foreign = [name for name in names if name not in own and not name.startswith(".prism-sim.")]
    if foreign:
        more = ", ..." if len(foreign) > 3 else ""
        what = f"this folder contains other files ({', '.join(foreign[:3])}{more})"
        raise UserError(Problem(what, str(folder), "name another folder with --out"))


def _show_inputs(folder: Path, view: Path, stage: str) -> None:
    """Link the content of ``folder`` into ``view``, except products of ``stage`` and later ones."""
    view.mkdir(parents=True)
    hidden = {product.split("/")[0] for name in _from(stage) for product in PRODUCTS.get(name, ())}
    for entry in folder.iterdir():
        if entry.name not in hidden and not entry.name.startswith(".prism-sim."):
            (view / entry.name).symlink_to(entry.absolute())


def _files_below(view: Path) -> Iterator[str]:
    for path in view.rglob("*"):  # does not follow links to folders
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(view).as_posix()


def _put_in_place(folder: Path, view: Path, stage: str, made: list[str]) -> None:
    """Write the record, remove outdated files, then move the new ones; the manifest last."""
    own = own_products(folder)
    old = {path for path, by in own.items() if by in _outdated(stage) and path not in made}
    kept = {path: by for path, by in own.items() if path not in old}
    kept |= {path: own.get(path, stage) for path in made}
    _write_record(folder, kept | {path: own[path] for path in old})
    for path in old:
        (folder / path).unlink(missing_ok=True)
    for path in sorted(made, key=lambda path: path == "manifest.json"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (view / path).replace(folder / path)
    _write_record(folder, kept)


def _write_record(folder: Path, products: dict[str, str]) -> None:
    with replacing(folder / RECORD) as partial:
        content = {"about": _ABOUT, "products": dict(sorted(products.items()))}
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@contextmanager
def _naming(view: Path, folder: Path) -> Iterator[None]:
    """Replace ``view`` by ``folder`` in error messages."""

    def named(text: str) -> str:
        return text.replace(str(view), str(folder))

    try:
        yield
    except UserError as error:
        raise UserError(
            Problem(named(one.what), named(one.where), named(one.how)) for one in error.problems
        ) from error
    except OSError as error:
        if isinstance(error.filename, str | Path):
            error.filename = named(str(error.filename))
        raise


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Deliver Ctrl-C and SIGTERM after the block instead of within it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda it, _: arrived.append(it)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        for one in arrived:
            signal.raise_signal(one)
