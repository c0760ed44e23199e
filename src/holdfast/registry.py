"""Registries: entries by name, ours and those that installed packages add by entry points.

A package adds an entry with an entry point in its ``pyproject.toml``::

    [project.entry-points."holdfast.methods"]
    my_method = "my_package.my_module:MyClassifier"

Nothing is imported until the entry is asked for by name, so a broken package harms only those who use it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.exceptions import HoldfastError, InputError, ParameterError, PluginError, SavedModelError, suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Entry = TypeVar("Entry")

# Group of entry points -> what its entries are.
GROUPS = {"holdfast.methods": "method", "holdfast.networks": "network", "holdfast.datasets": "data set"}


@dataclass(frozen=True)
class ImportPath:
    """Where a class or function of the user's is imported from, in place of the code itself.

    Examples
    --------
    >>> ImportPath.of(contextlib.suppress, "network"), ImportPath("math.pi").resolve() > 3
    (ImportPath(path='contextlib.suppress'), True)
    """

    path: str

    @classmethod
    def of(cls, value: Any, name: str) -> ImportPath:
        """Return the path of a class or function; `name` is the parameter that it is passed as."""
        module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        path = cls(f"{module}.{qualified}")
        found = None
        if isinstance(module, str) and module != "__main__" and isinstance(qualified, str) and "<" not in qualified:
            with contextlib.suppress(ImportError, AttributeError):
                found = path.resolve()
        if found is None or found is not value:
            raise SavedModelError(
                f"{name}={value!r:.200} cannot be saved: a file must not contain code, and this cannot be imported by "
                "name elsewhere. Pass a class or function of a module, such as my_package.nets.Net, or register a "
                "network by name with holdfast.neural.networks.register_network('my_network')."
            )
        return path

    def resolve(self) -> Any:
        """Import what the path names; the caller has made sure that it is trusted."""
        parts = self.path.split(".")
        for n_parts in range(len(parts) - 1, 0, -1):
            try:
                value: Any = import_module(".".join(parts[:n_parts]))
            except ModuleNotFoundError:
                continue
            for attribute in parts[n_parts:]:
                value = getattr(value, attribute)
            return value
        raise ImportError(f"No module of {self.path} is found here.")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A read-only mapping from names to entries, which also finds the entry points of installed packages.

    Our own entries, values or ``"module:attribute"`` texts that are imported when they are asked for, come first and
    win over an entry point of the same name. Packages use entry points of `group`; what they add must be `expected`,
    which `accepts` checks. `kind` is what messages call an entry, and `find` raises `error` for an unknown name.

    Examples
    --------
    >>> shapes = Registry("shape", {"square": 4, "pi": "math:pi"})
    >>> list(shapes), round(shapes["pi"], 2), "circle" in shapes
    (['square', 'pi'], 3.14, False)
    >>> shapes.find("sqare")
    Traceback (most recent call last):
        ...
    holdfast.exceptions.ParameterError: There is no shape 'sqare'. Did you mean 'square'?
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Entry | str] | None = None,
        *,
        group: str | None = None,
        accepts: Callable[[Any], bool] = lambda value: True,
        expected: str = "an entry",
        error: type[InputError] = ParameterError,
    ) -> None:
        self.kind, self.group, self._error = kind, group, error
        self._accepts, self._expected = accepts, expected
        self._entries: dict[str, Entry | str] = dict(entries or {})
        self._loaded: dict[str, Entry] = {}

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry for this process. A name can be taken once."""
        if self._entries.get(name, entry) is not entry:
            raise ParameterError(f"A {self.kind} named {name!r} is registered already. Choose another name.")
        self._entries[name] = entry
        self.__dict__.pop("paths", None)

    def refresh(self) -> None:
        """Look for entry points again: packages may have been installed since."""
        self.__dict__.pop("_plugins", None)
        self.__dict__.pop("paths", None)
        self._loaded.clear()

    def find(self, name: str) -> Entry:
        """Return an entry; an unknown name is refused with the names that exist."""
        if name not in self:
            raise self._error(f"There is no {self.kind} {name!r}. {suggest(name, list(self))}")
        return self[name]

    @cached_property
    def paths(self) -> dict[str, str]:
        """Where entries are that load when asked for: name -> "module:attribute"."""
        own = {name: entry for name, entry in self._entries.items() if isinstance(entry, str)}
        others = {name: points[0].value for name, points in self._plugins.items() if name not in self._entries}
        return own | others

    def loadable(self) -> dict[str, Entry]:
        """Import every entry, and return those that can be used; broken packages are left out."""
        found = {}
        for name in self:
            with contextlib.suppress(PluginError):
                found[name] = self[name]
        return found

    def __getitem__(self, name: str) -> Entry:
        if name in self._loaded:
            return self._loaded[name]
        if name in self._entries:
            own = self._entries[name]
            entry = _import(own) if isinstance(own, str) else own
        else:
            entry = self._load_plugin(self._plugins[name])
        self._loaded[name] = entry
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._plugins

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from (name for name in self._plugins if name not in self._entries)

    def __len__(self) -> int:
        return len({*self._entries, *self._plugins})

    @cached_property
    def _plugins(self) -> dict[str, list[EntryPoint]]:
        """Entry points by name; more than one where packages use the same name for different things."""
        return {} if self.group is None else _entry_points(self.group)

    def _load_plugin(self, points: list[EntryPoint]) -> Any:
        """Import what a package has registered."""
        if len(points) > 1:
            owners = " and ".join(f"{_package(point)} ({point.value})" for point in points)
            raise PluginError(
                f"The {self.kind} {points[0].name!r} is registered by {owners}. Uninstall all but one of them."
            )
        point = points[0]
        try:
            value = point.load()
        except HoldfastError:  # it already says what to do
            raise
        except Exception as problem:
            raise PluginError(_cannot_load(self.kind, point, problem)) from problem
        if not self._accepts(value):
            raise PluginError(
                f"The {self.kind} {point.name!r}, which {_package(point)} registers as {point.value}, must be "
                f"{self._expected}. It is {value!r:.80}. Update or uninstall {_package(point)}."
            )
        return value


@dataclass(frozen=True)
class Plugin:
    """An entry point of an installed package."""

    kind: str  # "method", "network" or "data set"
    name: str
    value: str  # "module:attribute"
    package: str
    problem: str | None  # why it cannot be imported


def installed_plugins() -> list[Plugin]:
    """Import what other packages register, and return what there is and what is broken."""
    return [
        Plugin(kind, point.name, point.value, _package(point), _problem(kind, point))
        for group, kind in GROUPS.items()
        for points in _entry_points(group).values()
        for point in points
    ]


def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of other packages by name, every different one."""
    from importlib.metadata import entry_points  # slow to import, and most commands ask for no name of a package

    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, _package(point))):
        if _package(point) == "holdfast":  # an editable installation of an older version still lists some
            continue
        same_name = found.setdefault(point.name, [])
        if all(point.value != other.value for other in same_name):
            same_name.append(point)
    return found


def _problem(kind: str, point: EntryPoint) -> str | None:
    """Return why an entry point cannot be imported, or None."""
    try:
        point.load()
    except Exception as problem:  # whatever a foreign module raises while it is imported
        return _cannot_load(kind, point, problem)
    return None


def _cannot_load(kind: str, point: EntryPoint, problem: Exception) -> str:
    return (
        f"The {kind} {point.name!r}, which {_package(point)} registers as {point.value}, cannot be imported "
        f"({type(problem).__name__}: {' '.join(str(problem).split())[:200]}). Update or uninstall {_package(point)}."
    )


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else point.dist.name


def _import(path: str) -> Any:
    """Import "module:attribute"."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
