"""Writing a diagnosis: all of it or nothing, and never over anything else."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism import Diagnosis
from llmprism.io.parts import InParts
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.writing import write_table
from llmprism.pipeline import diagnose
from prism_common.errors import UserError
from small_jobs import make_world


@pytest.fixture
def diagnosis() -> Diagnosis:
    world = make_world()
    return diagnose(world.flows, world.topology)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_an_older_diagnosis_is_replaced(diagnosis: Diagnosis, tmp_path: Path) -> None:
    out = tmp_path / "out"
    diagnosis.write(out)
    mark = json.loads((out / "intake.json").read_text())
    (out / "intake.json").write_text(json.dumps(mark | {"version": "0.0.1"}))
    (out / "steps.parquet").write_bytes(b"old")
    diagnosis.write(out)
    assert json.loads((out / "intake.json").read_text()) == mark
    assert pq.read_table(out / "steps.parquet").num_rows == len(diagnosis.steps)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_and_a_new_one_are_filled(diagnosis: Diagnosis, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/deep"):
        diagnosis.write(tmp_path / name)
        assert (tmp_path / name / "jobs.parquet").exists()


def test_a_failure_midway_leaves_the_old_diagnosis_whole(
    diagnosis: Diagnosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    diagnosis.write(out)
    before = contents(out)

    def full(_frame: Any, path: Path, _schema: Any, **_: Any) -> None:
        if path.stem == "steps":
            raise OSError(28, "No space left on device")
        path.write_bytes(b"new")

    monkeypatch.setattr("llmprism.diagnosis.write_table", full)
    with pytest.raises(UserError, match="No space left on device"):
        diagnosis.write(out)
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "files",
    [
        {"thesis.tex": "mine"},
        {"jobs.parquet": "no intake beside it"},
        {"intake.json": "{}"},
        {"intake.json": "not json"},
        {"intake.json": '{"method": 1, "version": 1, "rows": 1, "kept": 1}', "notes": "mine"},
    ],
)
def test_files_of_users_are_never_replaced(
    diagnosis: Diagnosis, tmp_path: Path, files: dict[str, str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name, text in files.items():
        (out / name).write_text(text)
    before = contents(out)
    with pytest.raises(UserError, match="name another folder"):
        diagnosis.write(out)
    assert contents(out) == before


def test_a_file_in_place_of_a_folder_is_refused(diagnosis: Diagnosis, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for target in (file, file / "below", "", "a\0b"):
        with pytest.raises(UserError, match=r"must be a folder|names no folder"):
            diagnosis.write(target)
    assert file.read_text() == "mine"


def test_a_link_is_followed(diagnosis: Diagnosis, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    diagnosis.write(tmp_path / "link")
    diagnosis.write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "jobs.parquet").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_parent_is_one_message(diagnosis: Diagnosis, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="cannot write the diagnosis: Permission denied"):
        diagnosis.write(tmp_path / "out")


@pytest.mark.parametrize("rows", [0, 3, 1 << 20, (1 << 20) + 1])
def test_categories_are_read_as_the_text_they_stand_for(tmp_path: Path, rows: int) -> None:
    """Also from several row groups, the last of which is full or not."""
    schema = pa.schema([("kind", pa.string()), ("step", pa.int64())])
    kinds = pd.Categorical.from_codes(np.resize([2, -1, 0], rows), ["pp", "unused", "dp"])
    frame = pd.DataFrame({"kind": kinds, "step": np.arange(rows, dtype=np.int32)})
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    for given in (frame, table):
        write_table(given, tmp_path / "spans.parquet", schema)
        assert pq.read_table(tmp_path / "spans.parquet").equals(table)


@pytest.mark.parametrize("method", ["prism", "paper"])
def test_spans_made_in_parts_are_those_made_at_once(
    method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = make_world()
    whole = diagnose(world.flows, world.topology, method)
    (once,) = whole.spans_in_parts.make()
    for place in ("paper.timeline", "prism.tables.spans"):
        monkeypatch.setattr(f"llmprism.methods.{place}.PART_ROWS", 100)
    parts = list(whole.spans_in_parts.make())
    assert len(parts) > 3
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), once)
    pd.testing.assert_frame_equal(whole.spans, once)
    whole.write(tmp_path / "out")
    written = pd.read_parquet(tmp_path / "out" / "spans.parquet")
    pd.testing.assert_frame_equal(written, once.astype({"step": np.int64}), check_dtype=False,
                                  check_categorical=False)  # fmt: skip


def test_a_summary_makes_no_spans(diagnosis: Diagnosis) -> None:
    def make() -> Any:
        raise AssertionError("the table is larger than the records")

    assert replace(diagnosis, spans_in_parts=InParts(make)).summary() == diagnosis.summary()


def test_further_columns_of_spans_are_written(diagnosis: Diagnosis, tmp_path: Path) -> None:
    spans = InParts.of(diagnosis.spans.assign(mark=1))
    replace(diagnosis, spans_in_parts=spans).write(tmp_path / "out")
    written = pq.read_schema(tmp_path / "out" / "spans.parquet")
    assert written.names == [*DIAGNOSIS["spans"].names, "mark"]
