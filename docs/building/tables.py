"""The reference of tables and of names, from the schemas and registries of the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.building.text import cell
from llmprism.io.tables import DIAGNOSIS
from prism_sim.commands.listing import everything, figures_data
from prism_sim.render.markdown import table
from prism_sim.run_folder import LOGS_TRUTH, TRUTH

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = {"diagnosis": DIAGNOSIS, "truth": TRUTH, "logs": LOGS_TRUTH}


def reference(group: str) -> str:
    """Every table of a group, with its columns and their types."""
    return "\n".join(_table(name, schema) for name, schema in TABLES[group].items())


def _table(name: str, schema: pa.Schema) -> str:
    rows = [(f"`{field.name}`", f"{field.type}") for field in schema]
    return f"### `{name}.parquet`\n\n{table(('column', 'type'), rows)}"


def names(topic: str) -> str:
    """The names that ``prism-sim list TOPIC`` prints, each with a sentence."""
    if topic == "figures":
        rows = [
            (f"`{each['figure']}`", cell(each["unit"]), cell(each["better"]), cell(each["about"]))
            for each in figures_data()["figures"]
        ]
        return table(("figure", "unit", "better", "meaning"), rows)
    rows_of_names = [(f"`{name}`", cell(about)) for name, about in everything()[topic].items()]
    return table(("name", "meaning"), rows_of_names)
