"""``llmlog LOGS...``: answers, tables, exit codes, and inputs that are no logs."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from llmlog.cli import app
from log_corpus import Corpus

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
KeyError: 'lr'
"""


def call(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_most_failures_are_found_with_stage_node_iteration_and_cause(
    failed_jobs: Corpus, tmp_path: Path
) -> None:
    code, _, messages = call(failed_jobs.folder / "logs", "--out", tmp_path)
    assert code == 0, messages
    found = pd.read_parquet(tmp_path / "failures.parquet").set_index("job")
    true = failed_jobs.truth("failures").set_index("job")
    assert set(found.index) == set(true.index)
    both = true.join(found.add_suffix("_found"))
    located = both[both.node.notna()]
    assert (both.stage == both.stage_found).mean() > 0.9
    assert (located.node == located.node_found).mean() > 0.9
    numbered = both[both.iteration.notna()]
    assert (numbered.iteration == numbered.iteration_found).mean() > 0.9
    assert (both.kind == both.cause_found).mean() > 0.8


def test_shares_of_causes_sum_to_one(failed_jobs: Corpus) -> None:
    _, text, _ = call(failed_jobs.folder / "logs", "--json")
    for row in json.loads(text)["failures"]:
        shares = json.loads(row["or_causes"])
        assert not shares or sum(shares.values()) == pytest.approx(1, abs=1e-3)
        assert 0 <= row["confidence"] <= 1


def test_events_name_their_lines(failed_jobs: Corpus, tmp_path: Path) -> None:
    """The line of each exception that is called a cause begins a stack trace in its file."""
    call(failed_jobs.folder / "logs", "--out", tmp_path)
    events = pd.read_parquet(tmp_path / "events.parquet")
    raised = events[(events.kind == "exception") & (events.role == "cause")]
    assert len(raised)
    for row in raised.itertuples():
        lines = failed_jobs.text(str(row.file)).split("\n")
        assert "Traceback" in lines[int(str(row.line)) - 1]


def test_one_file_of_one_job_is_enough(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(f"starting\n{TRACEBACK}", encoding="utf-8")
    code, text, _ = call(tmp_path / "out.txt", "--json")
    (failure,) = json.loads(text)["failures"]
    assert (code, failure["stage"], failure["cause"]) == (0, "launch", "key_error")


def test_parts_of_a_rotated_file_are_read_in_order(tmp_path: Path) -> None:
    """The stack trace begins in the older part."""
    head, tail = TRACEBACK[:80], TRACEBACK[80:]
    cut = head.rfind("\n") + 1
    (tmp_path / "s1.log.2.gz").write_bytes(gzip.compress(head[:cut].encode()))
    (tmp_path / "s1.log.1.gz").write_bytes(gzip.compress((head[cut:] + tail).encode()))
    (tmp_path / "s1.log.gz").write_bytes(gzip.compress(b"bye\n"))
    _, text, _ = call(tmp_path, "--json")
    assert json.loads(text)["failures"][0]["cause"] == "key_error"


def test_healthy_logs_are_no_failure(tmp_path: Path) -> None:
    lines = "".join(f"step: {number}  loss: 3.1\n" for number in range(1, 9))
    (tmp_path / "out.txt").write_text(lines, encoding="utf-8")
    code, _, messages = call(tmp_path / "out.txt")
    assert code == 4
    assert "no job failed" in messages


def test_logs_of_unknown_kinds_are_no_healthy_job(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("tick 1\nboom: unit 7 failed\n", encoding="utf-8")
    code, text, messages = call(tmp_path / "out.txt", "--json")
    assert code == 4
    assert "not understood: 2 lines, such as\n  tick 1" in messages
    assert "not read: out.txt:2: boom: unit 7 failed" in messages
    assert "no job failed" not in messages
    assert json.loads(text)["jobs"][0]["failed"] is None


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("absent", None, "does not exist"),
        ("empty.txt", b"", "no line could be read"),
        ("broken.log.gz", b"\x1f\x8bno gzip", "no line could be read"),
        ("index.json", b"{}", "is not an accounting"),
        ("index.json", b'{"jobs": [{"job": "../x"}]}', "is not an accounting"),
    ],
)
def test_what_is_no_log_is_one_error(
    tmp_path: Path, name: str, content: bytes | None, found: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    code, text, messages = call(tmp_path if name == "index.json" else path)
    assert (code, text) == (1, "")
    assert found in messages
    assert messages.count("error: ") == 1


def test_the_page_shows_markup_of_logs_as_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    text = f"Traceback (most recent call last):\nValueError: {evil}\n"
    (tmp_path / "s1.log").write_text(text, encoding="utf-8")
    call(tmp_path / "s1.log", "--page", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(" in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_page_names_each_failure_and_where_it_is_stated(
    failed_jobs: Corpus, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    _, text, _ = call(failed_jobs.folder / "logs", "--page", page, "--json")
    content = page.read_text(encoding="utf-8")
    for row in json.loads(text)["failures"]:
        assert f"{row['job']}: {row['stage']}" in content
        assert row["cause"] is None or row["cause"] in content


def test_the_page_shows_events_of_many_ranks_as_one_line(tmp_path: Path) -> None:
    for rank, node in enumerate("abcdef"):
        text = "".join(f"[default0]:[rank{rank}]: {line}\n" for line in TRACEBACK.splitlines())
        (tmp_path / f"{node}.log").write_text(text, encoding="utf-8")
    page = tmp_path / "page.html"
    call(tmp_path, "--page", page)
    (row,) = re.findall(r'<tr class="cause">.*', page.read_text(encoding="utf-8"))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row)
    assert cells[2:4] == ["a, b, c, d and 2 more", "0-5"]
    assert cells[-1] == "a.log:1 and 5 more"


def test_a_page_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "s1.log").write_text(TRACEBACK, encoding="utf-8")
    code, _, messages = call(tmp_path, "--page", tmp_path / "s1.log" / "page.html")
    assert code == 1
    assert messages.count("error: ") == 1


def test_a_page_replaces_its_older_version_and_no_other_file(tmp_path: Path) -> None:
    log, page = tmp_path / "out.txt", tmp_path / "page.html"
    log.write_text(TRACEBACK, encoding="utf-8")
    assert call(log, "--page", page)[0] == 0
    assert call(log, "--page", page)[0] == 0
    page.write_text("mine", encoding="utf-8")
    code, text, messages = call(log, "--page", page)
    assert (code, text, page.read_text(encoding="utf-8")) == (1, "", "mine")
    assert "llmlog did not write this file" in messages


def test_text_of_logs_cannot_control_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "s\x1b[31m.log").write_text(TRACEBACK, encoding="utf-8")
    _, text, _ = call(tmp_path)
    assert "\x1b" not in text


def test_iterations_without_a_length_have_that_between_their_lines(tmp_path: Path) -> None:
    """A bar and a line of the trainer show the same iteration once."""
    text = "".join(
        f" {number}%|#  | {number}/500 [10:00<1:00:00, 30.00s/it]{{'loss': 1.1, 'epoch': 0.2}}\n"
        f"[2026-02-11 08:{number // 2:02d}:{number % 2 * 30:02d},250] [INFO] [hf.py:5:on_log] "
        f"loss: 1.1, epoch: 0.2, iter: {number}/500,  10:00 < 1:00:00,  30.00s/it\n"
        for number in range(1, 41)
    )
    (tmp_path / "out.txt").write_text(text, encoding="utf-8")
    _, answer, messages = call(tmp_path / "out.txt", "--json")
    (job,) = json.loads(answer)["jobs"]
    assert (job["iterations"], job["iteration_s"], job["failed"]) == (40, 30.0, False)
    assert "100 % of the lines are of known kinds" in messages
