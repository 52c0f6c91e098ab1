"""The command line: ``python -m lab CASE --out FOLDER``."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from lab import isolation, needs
from lab.case import CASES, LabCase, find, read_case
from prism_common.errors import UserError

SHOWN_LINES = 60


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab", description="Make a real capture.")
    parser.add_argument("case", nargs="?", help="a name in lab/cases, or a YAML file")
    parser.add_argument("--out", help="the run folder; default: results/lab/CASE")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--profile", action="store_true", help="record with torch.profiler as well")
    options = parser.parse_args(words)
    if options.list or not options.case:
        for path in sorted(CASES.glob("*.yaml")):
            print(f"{path.stem:24} {' '.join(read_case(path).scenario.description.split())}")
        return 0
    try:
        return _run(options.case, options.out, options.profile)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(name: str, out: str | None, profile: bool) -> int:
    path = find(name)
    case = _case(path, profile)
    folder = Path(out or f"results/lab/{case.name}").resolve()
    if isolation.is_inside():
        return _inside(case, folder)
    needs.check("mpi" in case.lab.trainers.values())
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        code = isolation.run_inside(
            [str(path.resolve()), "--out", str(partial), *["--profile"] * profile]
        )
        if code:
            return _failed(partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except KeyboardInterrupt:
        print("interrupted; everything was ended, nothing is left", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(folder)
    return 0


def _case(path: Path, profile: bool) -> LabCase:
    case = read_case(path)
    return replace(case, lab=case.lab.model_copy(update={"profile": True})) if profile else case


def _inside(case: LabCase, folder: Path) -> int:
    from lab.jobs import JobFailedError
    from lab.running import run_case

    room = isolation.prepare()
    try:
        manifest = run_case(case, folder, room)
    except JobFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{manifest['duration_s']} s, records: {manifest['records']}", file=sys.stderr)
    return 0


def _failed(partial: Path) -> int:
    """Show how the logs of the jobs begin: the first error made the others."""
    for log in sorted((partial / "logs").glob("job-*.log")):
        lines = log.read_text(errors="replace").splitlines()[:SHOWN_LINES]
        print(f"{log.name}:", *lines, sep="\n  ", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
