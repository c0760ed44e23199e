"""Import optional packages where they are used, and delay slow imports of scikit-learn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from holdfast.exceptions import MissingExtraError

# What modules of scikit-learn take out of scipy.stats when they are imported; they only call it
TAKEN = ("chi2", "gmean", "rankdata", "spearmanr")


def require(module: str, *, extra: str | None, what: str) -> Any:
    """Import an optional package and return it; `what` needs it, in the plural, as the start of a sentence.

    `extra` is the one that installs it, None for a package that is installed by its own name.

    Examples
    --------
    >>> require("json", extra="neural", what="Networks").dumps([1])
    '[1]'
    >>> require("no_such_package", extra="neural", what="Networks")
    Traceback (most recent call last):
    holdfast.exceptions.MissingExtraError: Networks need no_such_package, which is not installed. ...
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        name = problem.name or module
        install = (
            f"pip install -c constraints.txt '.[{extra}]' in a clone of holdfast" if extra else f"pip install {name}"
        )
        raise MissingExtraError(f"{what} need {name}, which is not installed. Run {install}.", name=name) from problem


class _Later(ModuleType):
    """Stands for a module in others that import it, until something of it is used."""

    __path__: list[str] = []  # `from … import` asks for it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _Taken(self, name) if name in TAKEN else getattr(self.load(), name)

    def load(self) -> ModuleType:
        """Return the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)


class _Taken:
    """Stands for a function of a module that is imported when it is called."""

    def __init__(self, module: _Later, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self._module.load(), self._name)(*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._module.load(), self._name), name)


@contextmanager
def imported_later(*names: str) -> Iterator[None]:
    """Let what is imported in this block import these modules only when it uses something of them.

    Nothing stays in `sys.modules` afterwards: whoever imports them next gets the modules themselves.

    Examples
    --------
    >>> with imported_later("this"):
    ...     import this
    >>> "this" in sys.modules
    False
    """
    stand_ins = {name: _Later(name) for name in names if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


def import_sklearn(*modules: str) -> None:
    """Import modules of scikit-learn without scipy.stats and pandas, which take half of that time: 0.4 s."""
    with imported_later("pandas", "scipy.stats"):
        for module in modules or ("pipeline",):
            import_module(f"sklearn.{module}")
