"""Results of hostile worlds: each world is measured once, and a failure is reported by name."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from evaluation.study import hostile
from evaluation.study.hostile import World

WORLDS = [World("clean", 1), World("clean", 2)]


def measure(world, log):
    with log.open("a") as measured:
        measured.write(f"{world.seed}\n")
    if world.seed > 2:
        raise ValueError("too many")
    return {"result": world.seed}


def test_a_world_is_measured_again_only_after_a_script_has_changed(tmp_path):
    log, script = tmp_path / "log", tmp_path / "script.py"
    script.write_text("1")
    work = functools.partial(measure, log=log)
    for _ in range(2):
        found = hostile.results_of(WORLDS, work, tmp_path / "saved", [script])
        assert found == {WORLDS[0]: 1, WORLDS[1]: 2}
        assert sorted(log.read_text().split()) == ["1", "2"]
    script.write_text("2")
    hostile.results_of(WORLDS, work, tmp_path / "saved", [script])
    assert sorted(log.read_text().split()) == ["1", "1", "2", "2"]


def test_a_failure_names_its_world(tmp_path):
    work = functools.partial(measure, log=tmp_path / "log")
    with pytest.raises(SystemExit, match=re.escape("clean 3: ValueError: too many")):
        hostile.results_of([*WORLDS, World("clean", 3)], work, tmp_path / "saved", [])


def test_a_world_of_no_drawn_family_has_a_key_of_its_own():
    keys = {hostile.key_of(World(family, 1), []) for family in ("captures", "clean", "other")}
    assert len(keys) == 3
    assert hostile.key_of(World("clean", 1), [Path(__file__)]) not in keys
