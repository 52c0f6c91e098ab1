"""Whole corpora: the same seed gives the same bytes, and shares are the published ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from log_corpus import Corpus, corpus
from prism_sim.cli import app
from prism_sim.draws import Draws
from prism_sim.logs.config import Logs
from prism_sim.logs.failures import FAILURES
from prism_sim.logs.population import Fate, fates
from prism_sim.logs.shares import STAGES


def digests(made: Corpus) -> dict[str, str]:
    """A digest of each file of a run, except the manifest, which has times."""
    paths = [path for path in made.folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(made.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.name != "manifest.json" and not path.name.startswith(".prism-sim")
    }


def failed(failures: int, seed: int, **options: object) -> list[Fate]:
    """The failed jobs of a population."""
    found = fates(Logs.model_validate({"failures": failures, **options}), Draws(seed))
    return [fate for fate in found if fate.kind is not None]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        runs.append(digests(corpus(tmp_path / name, 5, "rotate_mbytes: 1")))
    assert runs[0] == runs[1]
    assert len(runs[0]) > 20


def test_stages_and_causes_have_the_published_shares() -> None:
    made = failed(4000, 5, repeats=0)
    count = Counter(fate.kind.stage for fate in made if fate.kind)
    for stage, share in STAGES.items():
        assert count[stage] / len(made) == pytest.approx(share, abs=0.025)
    kinds = Counter(fate.kind.name for fate in made if fate.kind)
    hardware, user = kinds["illegal_access_hardware"], kinds["illegal_access_user"]
    assert hardware / (hardware + user) == pytest.approx(21 / 62, abs=0.12)


def test_there_are_kinds_of_every_category_and_stage() -> None:
    assert len(FAILURES) >= 25
    assert {kind.stage for kind in FAILURES.values()} == {*STAGES}
    assert {kind.category for kind in FAILURES.values()} == {
        "hardware", "user", "framework", "platform",
    }  # fmt: skip


def test_the_open_set_has_nothing_that_is_held_out(drawn: Corpus) -> None:
    assert not drawn.truth("jobs")["held_out"].any()
    assert not drawn.truth("failures")["held_out"].any()


def test_every_failed_job_of_the_exam_has_something_held_out() -> None:
    for fate in failed(300, 3, population="exam"):
        assert fate.kind is not None
        assert fate.kind.held_out or fate.choice == "held out"


def test_a_part_that_fails_again_is_the_same_gpu(tmp_path: Path) -> None:
    made = corpus(tmp_path, 12, "kinds: [hbm_error, false_out_of_memory], repeats: 1, successes: 0")
    failures = made.truth("failures").set_index("failure")
    jobs = made.truth("jobs").set_index("job")
    again = failures[failures["follows"].notna()]
    assert len(again)
    for row in again.to_dict("records"):
        before = failures.loc[int(row["follows"])]
        gpus = jobs.loc[row["job"], "gpus_per_node"]
        assert (row["node"], row["rank"] % gpus) == (before["node"], before["rank"] % gpus)
        assert row["symptom"] != before["symptom"]


def test_parts_of_a_rotated_file_join_to_the_whole(tmp_path: Path) -> None:
    settings = "layout: job, nccl_debug: coll, calls: 60, successes: 0, kinds: [gpu_lost]"
    texts = []
    for name, extra in (("whole", ""), ("parts", ", rotate_mbytes: 1")):
        (tmp_path / name).mkdir()
        made = corpus(tmp_path / name, 1, settings + extra)
        files = [file for file in made.files("job00000") if "slurm" in file]

        def age(file: str) -> int:
            number = file.removesuffix(".gz").rpartition(".out")[2].removeprefix(".")
            return int(number or 0)

        ordered = sorted(files, key=age, reverse=True)
        texts.append("".join(made.text(file) for file in ordered))
        assert all(len(made.text(file)) <= 10**6 or name == "whole" for file in files)
        assert len(files) > 1 or name == "whole"
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (["logs.failures=0"], "no failures"),
        (["logs.max_nodes=99"], "99 nodes"),
        (["logs.min_nodes=4", "logs.max_nodes=3"], "min_nodes (4)"),
        (["logs.kinds=[gpu_los]"], "gpu_lost"),
    ],
)
def test_a_wrong_section_is_refused(settings: list[str], place: str, tmp_path: Path) -> None:
    options = [part for value in settings for part in ("--set", value)]
    result = CliRunner().invoke(app, ["logs", "logs/demo", "--out", str(tmp_path / "a"), *options])
    assert result.exit_code == 1
    assert place in result.stderr
