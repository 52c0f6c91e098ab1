"""A helper process compiles early; whatever happens to it, answers stay the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from processes import completed, started, wait_until

KERNELS = """
import numpy as np
from prism_common.compiled import compiled, compiled_part
from prism_common.early import FLOATS, compile_early

@compiled_part
def double(x):
    return 2 * x

compile_early(double, lambda: (1.0,))

@compiled
def total(values):
    result = 0.0
    for value in values:
        result += double(value)
    return result

compile_early(total, lambda: (FLOATS,))
"""
PROGRAM = """
import numpy as np
from prism_common import early
from prism_common.compiled import must_be_compiled
import kernels
assert must_be_compiled(kernels.total) == {empty}
early.start_helper({modules})
{between}
print(kernels.total(np.arange(3.0)), sum(kernels.total.stats.cache_hits.values()))
"""


@pytest.fixture
def run(tmp_path):
    """Output of a program that calls ``kernels.total``, with a cache in ``tmp_path``."""
    (tmp_path / "kernels.py").write_text(KERNELS)

    def once(
        modules: list[str], between: str = "", cache: str = "cache", empty: bool = True
    ) -> list[str]:
        program = PROGRAM.format(modules=modules, between=between, empty=empty)
        done = completed(
            [sys.executable, "-c", program], tmp_path, env=environment(tmp_path, cache)
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return once


def environment(folder: Path, cache: str) -> dict[str, str]:
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    kept = {key: value for key, value in os.environ.items() if key != "NUMBA_DISABLE_JIT"}
    return kept | {"NUMBA_CACHE_DIR": str(folder / cache), "PYTHONPATH": paths}


UNTIL_BEGUN = """
import time
while "kernels.total" not in early._helper._state and not early._helper._ended:
    time.sleep(0.01)
"""


def test_functions_compiled_by_the_helper_are_loaded(run):
    assert run(["kernels"], UNTIL_BEGUN) == ["6.0", "1"]
    assert run(["kernels"], empty=False) == ["6.0", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("modules", [["missing"], []], ids=["fails", "compiles nothing"])
def test_a_helper_that_does_not_help_changes_nothing(run, modules):
    assert run(modules) == ["6.0", "0"]


@pytest.mark.slow
def test_a_helper_that_dies_at_work_changes_nothing(run):
    assert run(["kernels"], UNTIL_BEGUN + "early._helper.process.kill()")[0] == "6.0"


def test_without_another_process_everything_is_compiled_here(run):
    cannot = "early.sys.executable = '/nowhere/python'\n"
    again = "early._helper.end(); early._helper = None; early.start_helper(['kernels'])"
    assert run([], cannot + again) == ["6.0", "0"]


def test_the_helper_ends_with_the_main_process(tmp_path):
    (tmp_path / "slow.py").write_text("import time; time.sleep(600)")
    program = (
        "import time; from prism_common import early; early.start_helper(['slow'])\n"
        "print(early._helper.process.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program]
    with started(command, tmp_path, env=environment(tmp_path, "cache")) as main:
        assert main.stdout is not None
        helper = int(main.stdout.readline())
        main.kill()
        main.wait()
        wait_until(lambda: not Path(f"/proc/{helper}").exists(), 60)


FIRST_RUN = """
import sys
from numba.core.dispatcher import Dispatcher
import prism_sim as ps
from prism_common.compiled import name_of
from prism_common.early import registered

ps.run("tiny/pair", out="run")
known = dict(registered())
for function, types in known.items():
    if function.targetoptions.get("no_cpython_wrapper"):
        continue  # only called inside others
    if function.signatures != [types]:
        print("other types:", name_of(function.py_func), function.signatures)
inside, ahead = set(), list(known)
while ahead:  # what registered functions call is compiled with them
    function = ahead.pop().py_func
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Dispatcher) and value not in inside:
            inside.add(value)
            ahead.append(value)
for module in list(sys.modules.values()):
    if module.__name__.split(".")[0] in ("prism_sim", "llmprism"):
        for value in vars(module).values():
            called = isinstance(value, Dispatcher) and value.signatures and value not in inside
            if called and value not in known and "no_cpython_wrapper" not in value.targetoptions:
                print("not registered:", name_of(value.py_func))
"""


def test_all_that_a_first_run_calls_is_compiled_early_for_the_types_it_is_called_with(tmp_path):
    """Except what follows the jobs through the fabric, with which the main process begins."""
    done = completed([sys.executable, "-c", FIRST_RUN], tmp_path)
    assert done.returncode == 0, done.stderr
    ahead = ("run_ahead", "send", "play")
    assert set(done.stdout.splitlines()) == {
        f"not registered: prism_sim.cluster.ahead.{name}" for name in ahead
    }
