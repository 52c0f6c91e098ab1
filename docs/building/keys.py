"""The reference of YAML files, from the models that check them (``prism-sim schema``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from docs.building.text import cell
from prism_sim.commands.schemas import Language, schema_of
from prism_sim.render.markdown import table

Schema = Mapping[str, Any]
BOUNDS = {
    "minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<",
}  # fmt: skip
TYPES = {
    "integer": "whole number", "number": "number", "string": "text",
    "boolean": "true or false", "object": "mapping",
}  # fmt: skip
HEAD = ("key", "value", "meaning")
_LONG = 40
"""Characters of a default that a table still shows."""


def reference(language: str) -> str:
    """Every key of a language: first those of the file, then those of its parts."""
    schema = schema_of(Language(language))
    keys = Keys(language, schema["$defs"])
    parts = {"The file": schema}
    parts.update((name, part) for name, part in schema["$defs"].items() if _has_keys(part))
    return "\n".join(keys.section(name, part) for name, part in parts.items())


def _has_keys(part: Schema) -> bool:
    return bool(part.get("properties"))


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]


@dataclass(frozen=True)
class Keys:
    """The parts of one language.

    Attributes
    ----------
    language : its name, which begins the names of all anchors.
    parts : the definitions of its JSON Schema.
    """

    language: str
    parts: Mapping[str, Schema]

    def section(self, name: str, part: Schema) -> str:
        """The keys of one part."""
        kind = part["properties"].get("kind", {}).get("const")
        title = f"`{kind}`" if kind else name
        about = "\n\n".join(cell(text) for text in part.get("description", "").split("\n\n"))
        needed = part.get("required", ())
        rows = [
            (f"`{key}`", self.kind(value) + _default(value, key in needed),
             cell(value.get("description", "")))
            for key, value in part["properties"].items()
            if key != "kind"
        ]  # fmt: skip
        keys = table(HEAD, rows) if rows else "It has no further keys.\n"
        return f"({self._anchor(name)})=\n\n## {title}\n\n{about}\n\n{keys}"

    def kind(self, value: Schema) -> str:
        """What a value is, with its bounds; a part is a link to its section."""
        return " or ".join(dict.fromkeys(filter(None, self._kinds(value)))) or "any"

    def _kinds(self, value: Schema) -> Iterator[str]:
        choices = value.get("anyOf") or value.get("oneOf") or value.get("allOf") or ()
        if "$ref" in value:
            name = _last(value["$ref"])
            if _has_keys(self.parts[name]):
                yield f"[{name}](#{self._anchor(name)})"
            else:
                yield from self._kinds(self.parts[name])
        elif "const" in value or "enum" in value:
            yield from (f"`{each}`" for each in value.get("enum", [value.get("const")]))
        elif choices:
            for choice in choices:
                yield from self._kinds(choice)
        elif value.get("type") == "array":
            yield f"list of {self._items(value)}"
        else:
            bounds = [f"{sign} {value[name]:g}" for name, sign in BOUNDS.items() if name in value]
            yield f"{TYPES.get(value.get('type', ''), '')} {cell(', '.join(bounds))}".strip()

    def _items(self, value: Schema) -> str:
        items = [*value.get("prefixItems", ()), *filter(None, [value.get("items")])]
        return self.kind({"anyOf": items})

    def _anchor(self, name: str) -> str:
        return f"{self.language}-{name.lower().replace(' ', '-')}"


def _default(value: Schema, is_needed: bool) -> str:
    default = value.get("default")
    if is_needed:
        return ", *required*"
    text = json.dumps(default).replace("|", "\\|")
    is_plain = default not in (None, "", [], {}) and len(text) <= _LONG
    return f", default `{text}`" if is_plain else ""
