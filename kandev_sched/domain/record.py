"""Record: the base of every frozen value of the domain.

Rule kept here: `sched fire` must cost at most 30 ms more than `python -c pass`, and importing
msgspec, dataclasses or typing alone costs more than that. So records are plain slotted classes,
built from their annotations; msgspec checks payloads where they enter from outside.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


class _Missing:
    __slots__ = ()


_MISSING = _Missing()


class _RecordType(type):
    """Turns annotations into slots; class-level values become defaults."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> _RecordType:
        defaults: dict[str, Any] = {}
        for base in bases:
            defaults.update(getattr(base, "_defaults", {}))
        own = [f for f in namespace.get("__annotations__", {}) if not f.startswith("_")]
        for field in own:
            defaults[field] = namespace.pop(field, _MISSING)
        namespace["_defaults"] = defaults
        namespace["_required"] = {name for name, value in defaults.items() if value is _MISSING}
        namespace["__slots__"] = tuple(own)
        return super().__new__(mcs, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record(metaclass=_RecordType):
    """A frozen value with keyword-only fields; equal when type and fields are equal."""

    __slots__ = ()
    if TYPE_CHECKING:
        _defaults: ClassVar[dict[str, Any]]
        _required: ClassVar[set[str]]
    else:
        # Not for the type checker: it would hide the typed constructor made from the annotations.
        def __init__(self, **values):
            # One merge and one check, not one a field: a dozen records are made for each enqueue.
            whole = {**self._defaults, **values}
            if len(whole) != len(self._defaults) or not self._required <= values.keys():
                raise _misfit(type(self), values)
            put = object.__setattr__
            for name, value in whole.items():
                put(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and as_dict(self) == as_dict(other)

    def __hash__(self) -> int:
        return hash((type(self), *as_dict(self).values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v!r}" for k, v in as_dict(self).items())
        return f"{type(self).__name__}({fields})"

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{**as_dict(self), **changes})


def _misfit(cls: type[Record], values: dict[str, Any]) -> TypeError:
    missing, unknown = cls._required - values.keys(), values.keys() - cls._defaults.keys()
    problem = f"needs {min(missing)}" if missing else f"has no {', '.join(sorted(unknown))}"
    return TypeError(f"{cls.__name__} {problem}")


def field_names(cls: type[Record]) -> tuple[str, ...]:
    """The fields in the order of their definition."""
    return tuple(cls._defaults)


def as_dict(record: Record) -> dict[str, Any]:
    """Field → value, not recursive."""
    return {name: getattr(record, name) for name in record._defaults}


# Most annotations are one of these; evaluating them all takes 2 ms of the 30 that `sched fire` has.
_COMMON = {"str": str, "int": int, "bool": bool, "str | None": str | None, "int | None": int | None}


def field_types(cls: type[Record]) -> dict[str, Any]:
    """Field → its type as a runtime object; inherited fields are read where they were written."""
    types: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        scope = vars(sys.modules[base.__module__])
        for name, text in vars(base).get("__annotations__", {}).items():
            if name in cls._defaults:
                is_text = isinstance(text, str)
                types[name] = (_COMMON.get(text) or eval(text, scope)) if is_text else text  # noqa: S307
    return types
