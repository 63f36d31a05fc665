"""A database as a mapping."""

from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView


class View(MutableMapping):
    """Mapping from the keys of a database to their values, in key order.

    A loop sees the state of its begin. `len` counts all entries, and `clear` deletes them.
    """

    __slots__ = ("_db",)

    def __init__(self, db):
        self._db = db

    def __getitem__(self, key):
        value = self._db.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value):
        self._db.put(key, value)

    def __delitem__(self, key):
        if key not in self:
            raise KeyError(key)
        self._db.delete(key)

    def __contains__(self, key):
        return isinstance(key, bytes) and self._db.get(key) is not None

    def __iter__(self):
        return self._db.iterator(include_value=False)

    def __reversed__(self):
        return self._db.iterator(include_value=False, reverse=True)

    def __len__(self):
        return sum(1 for _ in self._db.iterator(include_key=False, include_value=False))

    def clear(self):
        self._db.delete_range()

    def keys(self, start=None, stop=None, prefix=None):
        return _Keys(self, start, stop, prefix)

    def values(self, start=None, stop=None, prefix=None):
        return _Values(self, start, stop, prefix)

    def items(self, start=None, stop=None, prefix=None):
        return _Items(self, start, stop, prefix)


class _Range:
    """Part of a view: keys from `start` to `stop`, or with `prefix`."""

    def __init__(self, view, start, stop, prefix):
        super().__init__(view)
        self._range = {"start": start, "stop": stop, "prefix": prefix}

    def _iterator(self, **shown):
        return self._mapping._db.iterator(**self._range, **shown)

    def __len__(self):
        return sum(1 for _ in self._iterator(include_key=False, include_value=False))

    def _has_key(self, key):
        if not isinstance(key, bytes):
            return False
        start, stop, prefix = self._range.values()
        is_after_start = start is None or start <= key
        is_before_stop = stop is None or key < stop
        return is_after_start and is_before_stop and key.startswith(prefix or b"")


class _Keys(_Range, KeysView):
    def __iter__(self):
        return self._iterator(include_value=False)

    def __reversed__(self):
        return self._iterator(include_value=False, reverse=True)

    def __contains__(self, key):
        return self._has_key(key) and key in self._mapping


class _Values(_Range, ValuesView):
    def __iter__(self):
        return self._iterator(include_key=False)

    def __reversed__(self):
        return self._iterator(include_key=False, reverse=True)

    def __contains__(self, value):
        return any(found == value for found in self)


class _Items(_Range, ItemsView):
    def __iter__(self):
        return self._iterator()

    def __reversed__(self):
        return self._iterator(reverse=True)

    def __contains__(self, item):
        key, value = item
        return self._has_key(key) and self._mapping.get(key) == value
