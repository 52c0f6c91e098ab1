"""Saved results: a file counts as done or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism_sim.toolkit import Content, Piece, do_missing, kept_content

DONE: list[int] = []


def _double(number: int) -> Content:
    DONE.append(number)
    return {"twice": {"value": 2 * number}}


def _all_done(folder: Path, retry: bool = False) -> tuple[int, int]:
    DONE.clear()
    pieces = [Piece("ab12", "one", 1), Piece("cd34", "two", 2)]
    return do_missing(_double, pieces, folder, 1, None, retry, total=2, result="twice")


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"case": "one"}', '{"case": "one", "twice": {}}', '{"case": "on',
     '{"case": "one", "error": ""}', "\x00\x00"],
)  # fmt: skip
def test_a_file_without_a_result_counts_as_missing(tmp_path: Path, text: str) -> None:
    assert _all_done(tmp_path) == (2, 0)
    (tmp_path / "ab12.json").write_text(text)
    assert _all_done(tmp_path) == (1, 1)
    assert DONE == [1]
    assert kept_content(tmp_path, "ab12")["twice"] == {"value": 2}


def test_a_file_that_is_not_text_counts_as_missing(tmp_path: Path) -> None:
    _all_done(tmp_path)
    (tmp_path / "ab12.json").write_bytes(b"\xff\xfe{")
    assert _all_done(tmp_path) == (1, 1)


def test_an_error_counts_as_done_without_retry(tmp_path: Path) -> None:
    _all_done(tmp_path)
    (tmp_path / "ab12.json").write_text('{"case": "one", "error": "too large"}')
    assert _all_done(tmp_path) == (0, 2)
    assert _all_done(tmp_path, retry=True) == (1, 1)
