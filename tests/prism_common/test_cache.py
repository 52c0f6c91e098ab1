"""A damaged or missing cache of compiled code costs time, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from prism_common.compiled import compiled
import function_of_user
print(function_of_user.double(21))
"""
FUNCTION = """
from prism_common.compiled import compiled

@compiled
def double(x):
    return 2 * x
"""


@pytest.fixture
def run(tmp_path):
    """Result of a compiled function in a process of its own, with a cache in ``tmp_path``."""
    (tmp_path / "function_of_user.py").write_text(FUNCTION)

    def once(cache: Path) -> str:
        paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": paths}
        env.pop("NUMBA_DISABLE_JIT", None)
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout.strip()

    return once


def files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.suffix in (".nbi", ".nbc")]


@pytest.mark.parametrize("damage", [b"", pytest.param(b"not a cache", marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", [".nbi", pytest.param(".nbc", marks=pytest.mark.slow)])
def test_a_damaged_cache_is_made_again(run, tmp_path, suffix, damage):
    cache = tmp_path / "cache"
    assert run(cache) == "42"
    damaged = [path for path in files(cache) if path.suffix == suffix]
    assert damaged
    for path in damaged:
        path.write_bytes(damage)
    assert run(cache) == "42"
    assert run(cache) == "42"
    assert all(path.read_bytes() != damage for path in files(cache) if path in damaged)


def test_a_cache_that_cannot_be_written_is_done_without(run, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert run(tmp_path / "file" / "cache") == "42"


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
    (tmp_path / "part.py").write_text(PART)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    env.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run([sys.executable, str(tmp_path / "part.py")], env=env,
                          capture_output=True, text=True, check=False)  # fmt: skip
    refusal = "double can only be called by compiled code"
    assert (done.returncode, done.stdout.splitlines()) == (0, [refusal, "40", refusal])


MODULES = {
    "entry": """
from prism_common.compiled import compiled
import middle

@compiled
def answer(x):
    return middle.through(x)

print(answer(10))
""",
    "middle": """
from prism_common.compiled import compiled_part
from bottom import FACTOR, shifted

@compiled_part
def through(x):
    return FACTOR * shifted(x)
""",
    "bottom": """
from prism_common.compiled import compiled_part

FACTOR = 2

@compiled_part
def shifted(x):
    return x + 1
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
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    cache = tmp_path / "cache"
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_DISABLE_JIT", None)

    def run() -> str:
        command = [sys.executable, str(tmp_path / "entry.py")]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert run() == "22\n"
    kept = {path: path.stat().st_mtime_ns for path in files(cache)}
    assert run() == "22\n"
    assert {path: path.stat().st_mtime_ns for path in files(cache)} == kept, "nothing is repeated"
    changed = MODULES["bottom"].replace(before, after)
    (tmp_path / "bottom.py").write_text(changed)
    assert run() == f"{answer}\n"


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
    (tmp_path / "part.py").write_text(ARRAYS.format(returned=returned))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    env.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run([sys.executable, str(tmp_path / "part.py")], env=env,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1, done.stdout  # refused; a crash has another code
