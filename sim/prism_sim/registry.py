"""Named kinds of one thing: those of this package, and those of installed packages.

A kind is a class in a file of its own. It is registered in the list of its package,
or, from outside, as an entry point of an installed package::

    [project.entry-points."prism_sim.schedules"]
    mine = "my_package.schedule:Mine"

It can then be named in scenarios, and editors list it, like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, reduce
from importlib.metadata import EntryPoint, entry_points
from operator import or_
from typing import Annotated, Any, TypeVar

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    WrapSerializer,
)
from pydantic_core.core_schema import (
    CoreSchema,
    SerializerFunctionWrapHandler,
    no_info_plain_validator_function,
    plain_serializer_function_ser_schema,
)

from prism_common.errors import Problem, UserError

K = TypeVar("K")


class Registry(Mapping[str, K]):
    """The kinds of one thing, in the order of their registration.

    Parameters
    ----------
    group : group of entry points in which other packages register theirs.
    own : the kinds of this package.
    name_of : gives the name of a kind in a scenario.
    """

    def __init__(self, group: str, *own: K, name_of: Callable[[K], str]) -> None:
        self._group = group
        self._own = {name_of(kind): kind for kind in own}
        self._name_of = name_of

    @cached_property
    def _kinds(self) -> dict[str, K]:
        """All kinds by name.

        They are collected on first use, because the modules of other packages import this package's
        base classes.
        """
        found = dict(self._own)
        for entry, kind in _installed(self._group):
            name = self._name_of(kind)
            if name in found:
                what = f"two kinds of {self._group} are called {name!r}"
                raise UserError(Problem(what, entry.value, "rename or uninstall one"))
            found[name] = kind
        return found

    def __getitem__(self, name: str) -> K:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def by_literal(kind: type[Any]) -> str:
    """The name of a kind that has a field ``kind`` with its name as the default."""
    return str(kind.model_fields["kind"].default)


def named(kinds: Mapping[str, type[Any]]) -> Any:
    """Type of a field that holds one of ``kinds``.

    It is written as a name, or as a mapping of ``kind`` and the kind's options.
    """
    members: Any = reduce(or_, kinds.values())
    union: Any = Annotated[members, Discriminator("kind")]
    names = Annotated[str, Field(json_schema_extra={"enum": [*kinds]})]
    return Annotated[
        union,
        BeforeValidator(_with_kind, json_schema_input_type=names | union),
        WrapSerializer(_short),
    ]


class NamedLater:
    """Marks a field that holds one of ``kinds``, as :func:`named` does, looked up on first use.

    It is for models that the base classes of kinds need: the module of a kind of another package
    can only be imported when these models are complete.
    """

    def __init__(self, kinds: Mapping[str, type[Any]]) -> None:
        self._kinds = kinds

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(named(self._kinds))

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> CoreSchema:
        written = plain_serializer_function_ser_schema(
            lambda value: self._adapter.dump_python(value, mode="json")
        )
        return no_info_plain_validator_function(
            lambda value: self._adapter.validate_python(value), serialization=written
        )

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(self._adapter.core_schema)


def _with_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


def _short(value: Any, serialize: SerializerFunctionWrapHandler) -> Any:
    """The name alone for a kind without options."""
    written = serialize(value)
    return written["kind"] if set(written) == {"kind"} else written


@cache
def _registered() -> Any:  # its type differs between versions of Python
    """What all installed packages register; one search takes longer than to load ten kinds."""
    return entry_points()


def _installed(group: str) -> list[tuple[EntryPoint, Any]]:
    """The kinds that installed packages register in ``group``, by name."""
    found = []
    for entry in sorted(_registered().select(group=group), key=lambda entry: entry.name):
        try:
            found.append((entry, entry.load()))
        except Exception as error:  # a foreign module may raise anything on import
            what = f"{entry.name} of {group} cannot be loaded: {error}"
            raise UserError(Problem(what, entry.value, "fix or uninstall its package")) from error
    return found
