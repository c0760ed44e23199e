import subprocess
import sys

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils import all_estimators

from holdfast.exceptions import UntrustedFileError
from holdfast.saving.sklearn_parts import _LISTED, _listed_class, listed_class


def test_the_list_holds_public_estimators_only():
    """Every name on the list is one of scikit-learn's; clusterings, embeddings and detectors of outliers are not."""
    paths = {cls.__name__: f"{cls.__module__}.{cls.__name__}" for _, cls in all_estimators()}
    listed = {name for names in _LISTED.values() for name in names}
    assert listed - set(paths) <= {"HalvingGridSearchCV", "HalvingRandomSearchCV", "IterativeImputer"}  # experimental
    assert {name for name, path in paths.items() if _listed_class(path)} == listed & set(paths)
    assert {"IsolationForest", "DBSCAN", "Isomap", "KernelDensity", "SplineTransformer"} <= set(paths) - listed


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_nearly_all_predictors_are_on_the_list(kind):
    """What is missing is known by name."""
    names = {name for name, _ in all_estimators(type_filter=kind)}
    listed = {name for names in _LISTED.values() for name in names}
    assert names - listed == {"classifier": {"LabelPropagation", "LabelSpreading"}, "regressor": set()}[kind]


def test_a_class_is_found_by_its_path():
    """The path is that of the module that defines the class."""
    assert listed_class("sklearn.linear_model._logistic.LogisticRegression") is LogisticRegression


@pytest.mark.parametrize(
    "path",
    [
        "os.system",
        "sklearn.base.BaseEstimator",
        "sklearn.ensemble._forest.ForestClassifier",  # abstract
        "sklearn.linear_model.LogisticRegression",  # an alias: nothing of ours writes it
        "sklearn.linear_model._logistic.os",
        "sklearn.utils._testing.SkipTest",
        "sklearn",
        "",
        None,
    ],
)
def test_all_else_is_refused(path):
    """Functions, abstract classes, aliases and modules are not estimators."""
    with pytest.raises(UntrustedFileError, match="which is not on the list of estimators that may be loaded"):
        listed_class(path)


def test_a_name_in_a_file_imports_nothing_but_scikit_learns_public_modules():
    """Names outside of the list are refused by looking at them; torch is not loaded to know that."""
    script = (
        "import sys\nfrom holdfast.saving.sklearn_parts import _listed_class\n"
        "names = ['antigravity.fly', 'sklearn.experimental.enable_iterative_imputer.x', 'sklearn.datasets.x.y',\n"
        "         'sklearn.linear_model._logistic.LogisticRegression']\n"
        "print([_listed_class(name) is not None for name in names])\n"
        "loaded = {'antigravity', 'sklearn.experimental.enable_iterative_imputer', 'sklearn.datasets', 'torch'}\n"
        "print(sorted(loaded & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[False, False, False, True]", "[]"]
