"""``prism-sim corpus``: worlds of families as files, with an index and a data card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prism_common.quantities import counted
from prism_sim.commands.comparing import Families, Worlds
from prism_sim.commands.options import Debug, Json, Quiet, folder_name, out_folder
from prism_sim.commands.session import WRONG, open_session


def corpus(
    family: Families,
    worlds: Worlds = 10,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="FOLDER",
            parser=folder_name,
            help="Make every world of a corpus again instead, and compare it bit for bit.",
        ),
    ] = None,
    out: Annotated[Path | None, out_folder("Folder to write. Default: results/corpus.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write worlds of families as files, flows and topology apart from the truth.

    The worlds of a family follow from their seeds, 0, 1, 2, ..., bit for bit. The index has a hash
    that names what a score was measured on. Exits 1 if --check finds a difference.
    """
    with open_session(as_json, quiet, debug) as session:
        from prism_sim.studies import corpus as corpora
        from prism_sim.studies.comparison import families_called

        if check is not None:
            with session.stage("check", 30.0) as progress:
                problems = corpora.check_corpus(check, progress)
            session.facts({"corpus": str(check), "differences": len(problems)})
            session.complain(problems)
            if problems:
                raise SystemExit(WRONG)
            return
        folder = out or Path("results") / "corpus"
        found = families_called(family)
        with session.stage(counted(len(found) * worlds, "world"), 30.0) as progress:
            index = corpora.write_corpus(found, worlds, folder, progress)
        facts = {"corpus": str(folder), "hash": index["hash"], "bytes": index["bytes"]}
        session.facts({**facts, "files": len(index["files"])})
