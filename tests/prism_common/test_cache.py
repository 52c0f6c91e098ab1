"""A damaged or missing cache of compiled code costs time, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUNCTION = """
from prism_common.compiled import compiled

@compiled
def double(x):
    return 2 * x
"""
PROGRAM = """
from prism_common.compiled import compiled
import function_of_user
print(function_of_user.double(21))
"""


def run(folder: Path, cache: Path, **modules: str) -> subprocess.CompletedProcess[str]:
    """Write modules of a user into a folder, and run the last one, with a cache of its own."""
    for name, text in modules.items():
        path = folder / f"{name}.py"
        if not path.exists() or path.read_text() != text:  # its time is a part of the stamp
            path.write_text(text)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, str(folder / f"{[*modules][-1]}.py")]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def doubled(folder: Path, cache: Path) -> str:
    """What the program prints; it says nothing else."""
    done = run(folder, cache, function_of_user=FUNCTION, main=PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.suffix in (".nbi", ".nbc")]


@pytest.mark.parametrize("damage", [b"", pytest.param(b"not a cache", marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", [".nbi", pytest.param(".nbc", marks=pytest.mark.slow)])
def test_a_damaged_cache_is_made_again(tmp_path, suffix, damage):
    cache = tmp_path / "cache"
    assert doubled(tmp_path, cache) == "42"
    damaged = [path for path in files(cache) if path.suffix == suffix]
    assert damaged
    for path in damaged:
        path.write_bytes(damage)
    assert doubled(tmp_path, cache) == "42"
    assert doubled(tmp_path, cache) == "42"
    assert all(path.read_bytes() != damage for path in files(cache) if path in damaged)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert doubled(tmp_path, tmp_path / "file" / "cache") == "42"


PART = """
from prism_common.compiled import compiled, compiled_part

@compiled_part
def double(x):
    return 2 * x

@compiled
def quadruple(x):
    return double(double(x))

def call_part():
    try:
        double(1)
    except TypeError as error:
        print(error)

call_part()
print(quadruple(10))
call_part()
"""


def test_a_part_works_inside_and_refuses_calls_from_python(tmp_path):
    """Without the check, the second call would crash the process."""
    done = run(tmp_path, tmp_path / "cache", part=PART)
    refusal = "double can only be called by compiled code"
    assert (done.returncode, done.stdout.splitlines()) == (0, [refusal, "40", refusal])


MODULES = {
    "bottom": """
from prism_common.compiled import compiled_part

FACTOR = 2

@compiled_part
def shifted(x):
    return x + 1
""",
    "middle": """
from prism_common.compiled import compiled_part
from bottom import FACTOR, shifted

@compiled_part
def through(x):
    return FACTOR * shifted(x)
""",
    "entry": """
from prism_common.compiled import compiled
import middle

@compiled
def answer(x):
    return middle.through(x)

print(answer(10))
""",
}


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        ("x + 1", "x + 2", "24"),
        pytest.param("FACTOR = 2", "FACTOR = 3", "33", marks=pytest.mark.slow),
    ],
)
def test_a_change_of_called_code_or_constants_compiles_again(tmp_path, before, after, answer):
    """In a file that the entry function's own file does not even import."""
    cache = tmp_path / "cache"
    assert run(tmp_path, cache, **MODULES).stdout == "22\n"
    kept = {path: path.stat().st_mtime_ns for path in files(cache)}
    assert run(tmp_path, cache, **MODULES).stdout == "22\n"
    assert {path: path.stat().st_mtime_ns for path in files(cache)} == kept, "nothing is repeated"
    changed = MODULES | {"bottom": MODULES["bottom"].replace(before, after)}
    assert run(tmp_path, cache, **changed).stdout == f"{answer}\n"


ARRAYS = """
import numpy as np
from prism_common.compiled import compiled, compiled_part

@compiled_part
def part(x):
    return {returned}

@compiled
def whole(x):
    return part(x)

print(whole(np.zeros(3)))
"""


@pytest.mark.parametrize("returned", ["x", "(1, x)", "x[1:]", "np.zeros(3)", "(x + x).sum()"])
def test_a_part_can_neither_make_nor_return_arrays(tmp_path, returned):
    """It does not count references: an array that it returned might be freed while in use."""
    done = run(tmp_path, tmp_path / "cache", part=ARRAYS.format(returned=returned))
    assert done.returncode == 1, done.stdout  # refused; a crash has another code
