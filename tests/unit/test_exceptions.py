import inspect
import re
import warnings

import numpy as np
import pytest

from holdfast import PIClassifier, exceptions

CLASSES = {
    name: value
    for name, value in vars(exceptions).items()
    if inspect.isclass(value) and value.__module__ == exceptions.__name__
}


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """Return name -> (parent, builtin in brackets) as the tree in the module's docstring draws it."""
    tree, path = {}, []
    for line in exceptions.__doc__.splitlines():
        match = re.match(
            r"(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+(?:Error|Warning))(?: \((?P<builtin>\w+)\))?(?:\s{2,}|$)", line
        )
        if match is None:
            continue
        depth = len(match["indent"]) // 4
        path[depth:] = [match["name"]]
        tree[match["name"]] = (path[depth - 1] if depth else None, match["builtin"])
    return tree


def test_the_drawing_is_the_tree():
    """Every class stands in the drawing, under its parent, with its builtin relative in brackets."""
    tree = {}
    for name, value in CLASSES.items():
        ours = [base.__name__ for base in value.__bases__ if base.__name__ in CLASSES]
        builtin = [base.__name__ for base in value.__bases__ if base.__name__ not in CLASSES and base is not Exception]
        tree[name] = (ours[0] if ours else None, builtin[0] if builtin else None)
    assert drawn_tree() == tree


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_class_has_one_of_the_two_roots_and_says_what_it_means(name):
    """One except clause catches all errors, one filter all warnings, and each has a docstring of its own."""
    root = exceptions.HoldfastWarning if name.endswith("Warning") else exceptions.HoldfastError
    assert issubclass(CLASSES[name], root)
    assert CLASSES[name].__doc__ != root.__doc__ or CLASSES[name] is root


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        ("EnvironmentsError", ValueError),
        ("LabelsError", ValueError),
        ("FeaturesError", ValueError),
        ("ParameterError", ValueError),
        ("InputTypeError", TypeError),
        ("MissingExtraError", ImportError),
        ("DivergedError", ValueError),
        ("SavedModelError", ValueError),
        ("StorageError", OSError),
    ],
)
def test_errors_are_also_the_builtin_ones(error, builtin):
    """Whoever catches ValueError, TypeError, ImportError or OSError, as scikit-learn does, catches ours."""
    with pytest.raises(builtin, match="what was asked"):
        raise CLASSES[error]("what was asked")


def test_input_errors_are_neither_file_nor_training_errors():
    """The command line tells bad input from the rest by its class."""
    assert not issubclass(exceptions.StorageError, exceptions.InputError)
    assert not issubclass(exceptions.DivergedError, exceptions.InputError)
    assert issubclass(exceptions.CorruptFileError, exceptions.SavedModelError)


def test_suggest_shortens_long_lists():
    """Ten names are enough to see what is meant."""
    names = [f"column{i:02d}" for i in range(12)]
    assert exceptions.suggest("zzz", names).endswith("'column08', 'column09' … (12 in all).")
    assert exceptions.suggest("COLUMN01", names) == "Did you mean 'column01'?"


def test_warnings_name_the_line_of_the_user():
    """However deep in the package a warning comes up, it is attributed to the file that called the package."""
    X = np.array([[0.0], [1.0]] * 21)
    sites = ["Boston"] * 20 + ["Chicago"] * 20 + ["Denver", "Essen"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PIClassifier().fit(X, X[:, 0] > 0, environments=sites)
    found = {entry.category: entry.filename for entry in caught}
    assert found[exceptions.EmptyPartitionWarning] == found[exceptions.SmallGroupWarning] == __file__
