"""Frozen dataclasses whose fields are flags, sweep axes and columns at once: operators and networks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from profkit.errors import SpecError, check_names
from profkit.ops.axes import Kind

FieldsType = TypeVar("FieldsType", bound="Fields")


@dataclass(frozen=True)
class Fields:
    """Every field is made by `axes.axis`; values are normalised and checked when an object is made."""

    size_formula: ClassVar[str] = ""
    """A line below every error, that says how the fields go together."""

    def __new__(cls: type[FieldsType], *_: Any, **values: Any) -> FieldsType:
        check_names(cls.__name__, values, [item.name for item in dataclasses.fields(cls)], "field", SpecError)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        try:
            for item in dataclasses.fields(self):
                kind: Kind = item.metadata["kind"]
                object.__setattr__(self, item.name, kind.parse(item.name, getattr(self, item.name)))
            self.check()
        except SpecError as error:
            if self.size_formula in str(error):
                raise
            raise SpecError(f"{error}\n  {self.size_formula}") from None

    def check(self) -> None:
        """Raise SpecError, with the numbers, when the fields cannot go together."""

    def field_values(self) -> dict[str, Any]:
        """Fields as JSON values."""
        return {item.name: item.metadata["kind"].to_json(getattr(self, item.name)) for item in dataclasses.fields(self)}

    def words(self) -> dict[str, str]:
        """Fields as the words that the command line takes."""
        return {item.name: item.metadata["kind"].word(getattr(self, item.name)) for item in dataclasses.fields(self)}

    def replaced(self: FieldsType, **changes: Any) -> FieldsType:
        """The same with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)
