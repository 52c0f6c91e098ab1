"""A corpus: worlds of families as files, with the truth apart from what a diagnoser may see.

``observations/FAMILY/SEED`` has the flow records and the topology of a world, ``truth/FAMILY/SEED``
its scenario and the tables of the truth. All follow from the family and the seed, bit for bit. The
index ``corpus.json`` has the size and the SHA-256 of every file, and one hash of them all: it names
what a score was measured on. ``DATA_CARD.md`` describes the content.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from prism_common.errors import Problem
from prism_common.scratch import working_folder
from prism_sim.families import draw
from prism_sim.families.family import Family
from prism_sim.loading.scenario import Scenario
from prism_sim.products import exclusive, stage_files
from prism_sim.render.markdown import table
from prism_sim.render.pages import render_page
from prism_sim.run_folder import Run
from prism_sim.version import __version__

INDEX, CARD, OBSERVATIONS, TRUTH = "corpus.json", "DATA_CARD.md", "observations", "truth"
STAGE = "corpus"
LICENCE = "Apache-2.0"
SCHEMA = 1
_TEMPLATES = Path(__file__).parent

Progress = Callable[[float, str], None]


def write_corpus(
    families: Sequence[Family], worlds: int, folder: Path, progress: Progress | None = None
) -> dict[str, Any]:
    """Write the first ``worlds`` worlds of each family below ``folder``; returns the index.

    Raises
    ------
    UserError : ``folder`` has files under these names that prism-sim did not write.
    """
    with exclusive(folder), stage_files(folder, STAGE) as aside:
        total = len(families) * worlds
        for done, (family, seed) in enumerate((f, s) for f in families for s in range(worlds)):
            if progress:
                progress(done / total, f"{done} of {total}: {family.name}, seed {seed}")
            _write_world(family, seed, aside)
        index = _index(families, worlds, aside)
        Run(aside).write_json(aside / INDEX, index)
        (aside / CARD).write_text(_card(index), encoding="utf-8")
    return index


def check_corpus(folder: Path, progress: Progress | None = None) -> list[Problem]:
    """Make every world of the corpus in ``folder`` again; returns what differs from its index."""
    index = Run(folder).read_json(folder / INDEX)
    stored = dict(_files(folder))
    problems = [*_differences(index["files"], stored, folder, "the file is not that of the index")]
    with working_folder() as aside:
        families = [Family.model_validate(one["ranges"]) for one in index["families"].values()]
        total = max(1, sum(one["worlds"] for one in index["families"].values()))
        done = 0
        for family in families:
            for seed in range(index["families"][family.name]["worlds"]):
                if progress:
                    progress(done / total, f"{done} of {total}: {family.name}, seed {seed}")
                _write_world(family, seed, aside)
                done += 1
        made = dict(_files(aside))
    what = f"prism-sim {__version__} makes another file from the same family and seed"
    return [*problems, *_differences(index["files"], made, folder, what)]


def _write_world(family: Family, seed: int, corpus: Path) -> None:
    from prism_sim.simulate import simulated

    scenario = Scenario.model_validate(draw(family, seed))
    seen, hidden = (corpus / side / family.name / str(seed) for side in (OBSERVATIONS, TRUTH))
    with simulated(scenario) as run:
        for place in (seen, hidden):
            place.mkdir(parents=True)
        for path in (run.flows, run.topology):
            shutil.move(path, seen / path.name)
        for path in sorted((run.folder / "truth").iterdir()):
            shutil.move(path, hidden / path.name)
    text = json.dumps(scenario.model_dump(mode="json"), indent=1, sort_keys=True)
    (hidden / "scenario.json").write_text(text + "\n", encoding="utf-8")


def _index(families: Sequence[Family], worlds: int, folder: Path) -> dict[str, Any]:
    files = dict(_files(folder))
    return {
        "schema": SCHEMA,
        "licence": LICENCE,
        "made_by": {"prism-sim": __version__, "pyarrow": pa.__version__},
        "hash": corpus_hash(files),
        "bytes": sum(one["bytes"] for one in files.values()),
        "families": {
            family.name: {
                "version": family.version,
                "purpose": family.purpose,
                "worlds": worlds,
                "ranges": family.model_dump(mode="json"),
            }
            for family in families
        },
        "files": files,
    }


def corpus_hash(files: dict[str, dict[str, Any]]) -> str:
    """One SHA-256 for the names and contents of all files of a corpus."""
    lines = "".join(f"{one['sha256']}  {name}\n" for name, one in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Size and hash of every file of the worlds below ``folder``."""
    for side in (OBSERVATIONS, TRUTH):
        for path in sorted((folder / side).rglob("*")):
            if path.is_file():
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                size_bytes = path.stat().st_size
                yield path.relative_to(folder).as_posix(), {"bytes": size_bytes, "sha256": digest}


def _differences(
    expected: dict[str, Any], found: dict[str, Any], folder: Path, what: str
) -> Iterator[Problem]:
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield Problem(what, str(folder / name))


def _card(index: dict[str, Any]) -> str:
    """The data card of a corpus."""
    rows = [
        [
            name,
            str(one["version"]),
            str(one["worlds"]),
            one["purpose"],
            f"{_bytes_of(index, OBSERVATIONS, name) / 2**20:.1f}",
            f"{_bytes_of(index, TRUTH, name) / 2**20:.1f}",
        ]
        for name, one in index["families"].items()
    ]
    head = ["family", "version", "worlds", "what they have in common", "flows [MiB]", "truth [MiB]"]
    return render_page(
        _TEMPLATES, "data_card", hash=index["hash"], made_by=index["made_by"], licence=LICENCE,
        table=table(head, rows), mebibytes=f"{index['bytes'] / 2**20:.1f}",
    )  # fmt: skip


def _bytes_of(index: dict[str, Any], side: str, family: str) -> int:
    begin = f"{side}/{family}/"
    return sum(one["bytes"] for name, one in index["files"].items() if name.startswith(begin))
