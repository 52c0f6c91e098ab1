"""Output folders: one process at a time, and only files that prism-sim wrote.

Every folder has a record, ``.prism-sim.json``, of the files that prism-sim wrote and the stage
that wrote each. Other files are never replaced or removed: since a folder may come from someone
else, a record counts only for names that stages give their files (:data:`NAMES`). A stage writes
to a temporary folder. When it is complete, its files are moved into place together, and files that
later stages made from the replaced ones are removed, so a folder never contains a score of an older
diagnosis. A new score keeps the report; the command prints that the report shows an older score.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prism_common.errors import Problem, UserError
from prism_common.files import json_object, resolved, write_json
from prism_common.folders import BusyError, Names, OwnFolder, is_regular, lock_file

RECORD = ".prism-sim.json"
LOCK = ".prism-sim.lock"
_HOW = "name another folder with --out"
_ABOUT = "Files that prism-sim wrote here. It replaces and removes these, and no others."
_TABLES = ("jobs", "layouts", "pairs", "groups", "steps", "spans", "findings")
_TRUTH = ("ranks", "pairs", "steps", "spans", "faults", "layouts", "hiccups")
_LOGS_TRUTH = ("logs_jobs", "logs_nodes", "logs_failures", "logs_lines")

PRODUCTS: dict[str, tuple[str, ...]] = {
    "simulate": (
        "flows.parquet",
        "counters.parquet",
        "topology.json",
        "manifest.json",
        *(f"truth/{name}.parquet" for name in (*_TRUTH, *_LOGS_TRUTH)),
        "logs/index.json",
        "collectives/*.jsonl",
    ),
    "diagnose": (*(f"diagnosis/{name}.parquet" for name in _TABLES), "diagnosis/intake.json"),
    "score": ("score.json",),
    "report": ("trace.json", "report.html", "figures/*.png"),
}
"""Files of each stage of a run, stages in their order."""

NAMES = Names(
    r"(?:flows|counters|sweep|comparison|operations)\.parquet",
    r"(?:topology|manifest|score|trace|study|whatif|comparison|corpus|operations)\.json",
    r"(?:report|comparison|operations)\.html",
    r"(?:sweep|whatif|operations|worth)\.png",
    r"(?:comparison|DATA_CARD)\.md",
    r"comparison\.(?:tex|pdf)",
    rf"truth/(?:{'|'.join((*_TRUTH, *_LOGS_TRUTH))})\.parquet",
    rf"diagnosis/(?:{'|'.join(_TABLES)})\.parquet",
    r"diagnosis/intake\.json",
    rf"(?:{'|'.join(_TABLES)})\.parquet",  # of a diagnosis in a folder of its own
    r"intake\.json",
    r"figures/[\w-]+\.png",
    r"logs/index\.json",
    r"logs/[^/]+/.+",
    r"collectives/[^/]+\.jsonl",
    r"observations/[\w-]+/[0-9]+/(?:flows\.parquet|topology\.json)",
    r"truth/[\w-]+/[0-9]+/(?:\w+\.parquet|scenario\.json)",
)
"""All files that stages write."""

_held: set[tuple[Path, int]] = set()
"""Folders that this process has locked, and the thread that locked them."""
_LEFT_OVER = re.compile(r"\.prism-sim\.[0-9]+\.partial")


def _own(folder: Path) -> OwnFolder:
    return OwnFolder(folder, NAMES, _HOW)


def own_products(folder: Path) -> dict[str, str]:
    """Files in ``folder`` that prism-sim wrote, and the stage that wrote each."""
    if (folder / RECORD).exists():
        listed = json_object(folder / RECORD).get("products")
        products = listed if isinstance(listed, dict) else {}
    else:
        products = _products_without_record(folder)
    own = _own(folder)
    return {
        name: stage for name, stage in products.items() if isinstance(stage, str) if own.holds(name)
    }


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
    key = (resolved(folder), threading.get_ident())
    if key in _held:
        yield
        return
    was_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    _held.add(key)
    try:
        _refuse_foreign_record(folder)
        for left_over in folder.iterdir():  # from a killed process
            if _LEFT_OVER.fullmatch(left_over.name) and not left_over.is_symlink():
                shutil.rmtree(left_over, ignore_errors=True)
        yield
    finally:
        _held.discard(key)
        (folder / LOCK).unlink(missing_ok=True)
        os.close(lock)
        if not was_there and not any(folder.iterdir()):
            folder.rmdir()


def _refuse_foreign_record(folder: Path) -> None:
    path = folder / RECORD
    if os.path.lexists(path) and not (is_regular(path) and "products" in json_object(path)):
        raise UserError(Problem("this is no record of prism-sim", str(path), _HOW))


def _locked(folder: Path) -> int:
    """Lock the lock file of ``folder``; returns its descriptor."""
    path = folder / LOCK
    while True:
        try:
            lock = lock_file(path, lambda words: not words.strip(b"0123456789\n"))
        except BusyError as error:
            what = f"process {error or 'unknown'} is writing into this folder"
            how = "wait until it has ended, or name another folder with --out"
            raise UserError(Problem(what, str(folder), how)) from None
        if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
            os.ftruncate(lock, 0)
            os.write(lock, f"{os.getpid()}\n".encode())
            return lock
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
        view = aside / resolved(folder).name
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
    own, names = _own(folder), [*products]
    known = own_products(folder)
    foreign = [path for path in names if path not in known and os.path.lexists(folder / path)]
    if foreign:
        how = "move it away, or name another folder with --out"
        what = "prism-sim did not write this file, and will not replace it"
        raise UserError(Problem(what, str(folder / path), how) for path in foreign)
    for name in names:
        own.path_of(name)  # no link leads elsewhere


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
    """Link the content of ``folder`` into ``view``, except products of ``stage`` and later ones.

    A stage that is none of a run reads nothing there; a link would lead what it writes to a file
    of someone else.
    """
    view.mkdir(parents=True)
    if stage not in PRODUCTS:
        return
    hidden = {product.split("/")[0] for name in _from(stage) for product in PRODUCTS.get(name, ())}
    for entry in folder.iterdir():
        if entry.name not in hidden and not entry.name.startswith(".prism-sim."):
            (view / entry.name).symlink_to(entry.absolute())


def _files_below(view: Path) -> Iterator[str]:
    for path in view.rglob("*"):  # does not follow links to folders
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(view).as_posix()


def _put_in_place(folder: Path, view: Path, stage: str, made: list[str]) -> None:
    """Write the record, remove all older files, then move the new ones; the manifest last.

    Files of two runs are never beside each other, even if the process is killed here.
    """
    own = own_products(folder)
    old = {path for path, by in own.items() if by in _outdated(stage)}
    kept = {path: by for path, by in own.items() if path not in old}
    kept |= {path: own.get(path, stage) for path in made}
    _write_record(folder, kept | {path: own[path] for path in old})
    for path in old:
        _own(folder).remove(path)
    for path in sorted(made, key=lambda path: path == "manifest.json"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (view / path).replace(folder / path)
    _write_record(folder, kept)


def _write_record(folder: Path, products: dict[str, str]) -> None:
    write_json(folder / RECORD, {"about": _ABOUT, "products": dict(sorted(products.items()))})


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
