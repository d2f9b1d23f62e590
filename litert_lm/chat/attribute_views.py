"""A dict whose entries are also there as objects, which may be changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["DictWithViews"]

_MAX_DEPTH = 64
_METHODS = (
    *("__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__"),
    *("__len__", "__ne__", "__or__", "__reversed__", "__ror__", "__setitem__"),
    *("clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault"),
    *("update", "values"),
)


class DictWithViews(dict[str, Any]):
    """Gives out objects for entries; what changes in them changes the entries.

    Whoever reads or writes the dict finds the changes in it.
    """

    def view(
        self, key: str, read: Callable[[Any], Any], to_json: Callable[[Any], Any]
    ) -> Any:
        """The object for an entry, the same one until somebody sets the entry.

        Args:
            key: of the entry.
            read: makes the object; gets None where there is no entry.
            to_json: makes an entry of the object; an empty one is none.
        """
        entry = self.get(key)
        view = self._views.get(key)
        if view is None or not view.is_of(entry):
            view = self._views[key] = _View(read(entry), to_json, entry)
        return view.value

    def set_view(self, key: str, value: Any, to_json: Callable[[Any], Any]) -> None:
        """Set an entry to what an object says, now and after changes of it."""
        entry = to_json(value) or None
        self._views[key] = _View(value, to_json, entry)
        self._put(key, entry)

    def _put(self, key: str, entry: Any) -> None:
        if entry is None:
            dict.pop(self, key, None)
        else:
            dict.__setitem__(self, key, entry)

    def _write_changes(self) -> None:
        for key, view in self._views.items():
            entry = view.changed_entry()
            if entry is not NotImplemented:
                self._put(key, entry)

    @property
    def _views(self) -> dict[str, _View]:
        views: dict[str, _View] = vars(self).setdefault("_given", {})
        return views

    def __getstate__(self) -> dict[str, Any]:
        """Copies have objects of their own."""
        return {name: value for name, value in vars(self).items() if name != "_given"}


class _View:
    """An object made of an entry, or an entry made of an object."""

    def __init__(self, value: Any, to_json: Callable[[Any], Any], entry: Any) -> None:
        self.value = value
        self._to_json = to_json
        self._said = _snapshot(to_json(value) or None)
        self._entry = _snapshot(entry)

    def is_of(self, entry: Any) -> bool:
        return _is_same(entry, self._entry)

    def changed_entry(self) -> Any:
        """The entry that the object has become; NotImplemented while it is the same."""
        entry = self._to_json(self.value) or None
        if _is_same(entry, self._said):
            return NotImplemented
        self._said = self._entry = _snapshot(entry)
        return entry


def _with_changes(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: DictWithViews, *arguments: Any, **named: Any) -> Any:
        self._write_changes()
        return method(self, *arguments, **named)

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


for _name in _METHODS:
    setattr(DictWithViews, _name, _with_changes(getattr(dict, _name)))


def _snapshot(value: Any, depth: int = 0) -> Any:
    """A copy of lists and dicts, with everything else as it is."""
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {key: _snapshot(entry, depth + 1) for key, entry in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, list):
        return [_snapshot(entry, depth + 1) for entry in value]
    return value


def _is_same(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether nothing differs; objects that are no JSON must be the same ones."""
    if one is other and not isinstance(one, dict | list):
        return True
    if depth >= _MAX_DEPTH:
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(
            _is_same(entry, other[key], depth + 1) for key, entry in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(
            _is_same(each, its, depth + 1) for each, its in pairs
        )
    is_plain = isinstance(one, str | int | float | bytes)
    return is_plain and type(one) is type(other) and bool(one == other)
