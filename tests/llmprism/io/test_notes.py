"""A file that says what a folder holds: damage is the same as its absence."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprism.io.notes import json_object


def test_an_object_is_read_and_a_missing_file_and_a_folder_are_empty(tmp_path: Path) -> None:
    assert json_object(tmp_path / "note.json") == json_object(tmp_path) == {}
    (tmp_path / "note.json").write_text('{"rows": 3}')
    assert json_object(tmp_path / "note.json") == {"rows": 3}


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"null", b"\xff{}", b"[" * 100_000])
def test_anything_else_is_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "note.json").write_bytes(content)
    assert json_object(tmp_path / "note.json") == {}
