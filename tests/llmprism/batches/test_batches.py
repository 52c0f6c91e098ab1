"""A file diagnosed in batches has the answers of the same file diagnosed at once."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llmprism import Diagnosis
from llmprism.cli import app
from llmprism.io.tables import DIAGNOSIS
from llmprism.pipeline import diagnose
from prism_common.errors import UserError


def tables(diagnosis: Diagnosis) -> dict[str, pd.DataFrame]:
    """All tables, with jobs named by their first address, and rows in an order of their own."""
    names = diagnosis.jobs.groupby("job")["address"].min().to_dict()
    found = {}
    for name in DIAGNOSIS:
        table = getattr(diagnosis, name).drop(columns="finding", errors="ignore")
        text = [column for column in table if not pd.api.types.is_numeric_dtype(table[column])]
        table = table.astype(dict.fromkeys(text, object))
        table["job"] = table["job"].map(lambda job: names.get(job, job))
        found[name] = table.sort_values(list(table.columns), ignore_index=True)
    return found


@pytest.mark.parametrize("records", [1, 3000])
def test_batches_have_the_same_answers(records: int, tenants: Any, tmp_path: Path) -> None:
    files = tenants.save(tmp_path)
    whole = diagnose(*files)
    parts = diagnose(*files, records_at_once=records)
    expected, found = tables(whole), tables(parts)
    assert len(expected["findings"]) > 0
    assert whole.jobs["job"].nunique() == 3
    for name in DIAGNOSIS:
        pd.testing.assert_frame_equal(found[name], expected[name], check_dtype=False)
    assert parts.intake == whole.intake
    assert parts.verdict.can_tell == whole.verdict.can_tell
    assert parts.findings["finding"].tolist() == list(range(len(parts.findings)))


def test_a_method_that_joins_every_pair_has_one_batch(tenants: Any, tmp_path: Path) -> None:
    """To the published method, the service joins all jobs."""
    files = tenants.save(tmp_path)
    work: list[str] = []
    diagnose(
        *files, "paper", lambda _, doing: work.append(doing), records_at_once=len(tenants.flows) - 1
    )
    assert any(doing.startswith("window 1 of 2") for doing in work)
    assert not any(doing.startswith("1 of") for doing in work)


def test_batches_are_written_as_contracted_and_leave_nothing_behind(
    tenants: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    flows, topology = tenants.save(tmp_path / "in")
    reported: list[float] = []
    diagnosis = diagnose(
        flows, topology, progress=lambda done, _: reported.append(done), records_at_once=1
    )
    assert reported == sorted(reported)
    assert (reported[0], reported[-1]) == (0.0, 1.0)
    diagnosis.write(tmp_path / "out")
    for name, schema in DIAGNOSIS.items():
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert table.select(schema.names).schema.equals(schema)
        assert table.num_rows == len(getattr(diagnosis, name)) > 0
    del diagnosis
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_records_of_unknown_addresses_are_counted_once(tenants: Any, tmp_path: Path) -> None:
    strange = tenants.flows.iloc[:30].assign(src=[f"x{i % 12}" for i in range(30)])
    flows = pd.concat([tenants.flows, strange, strange.assign(dst=None)]).assign(src_port=1)
    world = type(tenants)(flows, tenants.topology, tenants.ranks, tenants.steps, tenants.kinds)
    topology = world.save(tmp_path)[1]
    path = tmp_path / "strange.parquet"
    pq.write_table(pa.Table.from_pandas(flows, preserve_index=False), path)
    with pytest.raises(UserError, match="'src_port' is int64, and must be int32"):
        diagnose(path, topology, records_at_once=1)
    flows = flows.drop(columns="src_port")
    pq.write_table(pa.Table.from_pandas(flows, preserve_index=False), path)
    whole = diagnose(path, topology)
    assert whole.intake.unknown_address_count == 12
    assert diagnose(path, topology, records_at_once=1).intake == whole.intake


def test_a_damaged_file_is_an_error_of_the_user(tenants: Any, tmp_path: Path) -> None:
    flows, topology = tenants.save(tmp_path)
    content = bytearray(flows.read_bytes())
    content[200:1200] = bytes(1000)  # within the first column; what describes the file stays
    flows.write_bytes(content)
    with pytest.raises(UserError, match="not a readable Parquet file"):
        diagnose(flows, topology, records_at_once=1)


def test_the_command_has_the_same_option(tenants: Any, tmp_path: Path) -> None:
    flows, topology = map(str, tenants.save(tmp_path))
    options = [flows, "--topology", topology, "--json", "--quiet", "--at-once", "1"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0
    assert {job["addresses"] for job in json.loads(result.stdout)["jobs"]} == {12, 8, 5}
