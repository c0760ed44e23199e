import importlib
import subprocess
import sys

import pytest

from holdfast.exceptions import MissingExtraError
from holdfast.extras import imported_later, require


def test_an_installed_package_is_returned():
    """The module itself comes back."""
    assert require("json", extra="neural", what="Networks") is sys.modules["json"]


def test_a_missing_package_names_the_extra(monkeypatch):
    """The error says what needs which package and what to type; whoever catches ImportError catches it too."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtraError,
        match=r"^Networks need torch, .* pip install -c constraints.txt '.\[neural\]' in a clone of holdfast\.$",
    ) as found:
        require("torch", extra="neural", what="Networks")
    assert found.value.name == "torch"
    assert isinstance(found.value, ImportError)


def test_a_package_that_is_there_but_broken_is_not_called_missing(tmp_path, monkeypatch):
    """Installing the extra again would not help, so the package's own error is shown."""
    (tmp_path / "a_broken_package.py").write_text("raise ImportError('libsomething.so: cannot open')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="cannot open") as found:
        require("a_broken_package", extra="neural", what="Networks")
    assert not isinstance(found.value, MissingExtraError)


def test_modules_that_are_imported_later_are_themselves_afterwards(tmp_path, monkeypatch):
    """In the block others get a stand-in that loads the module when it is used; nothing of it stays in sys.modules."""
    (tmp_path / "slow_module.py").write_text("LOADED = True\n\ndef gmean(x):\n    return x + 1\n")
    (tmp_path / "taker.py").write_text("import slow_module\nfrom slow_module import gmean\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with imported_later("slow_module"):
        taker = importlib.import_module("taker")
    assert "slow_module" not in sys.modules
    assert taker.gmean(1) == 2  # loads it
    assert taker.slow_module.LOADED
    assert "slow_module" in sys.modules
    with imported_later("slow_module"):  # is there already
        assert importlib.import_module("slow_module") is sys.modules["slow_module"]
    assert taker.gmean.__name__ == "gmean"
    with pytest.raises(AttributeError, match="__file__"):
        _ = taker.slow_module.__file__  # who looks at all modules does not load it


@pytest.mark.parametrize("first", ["from holdfast import PIClassifier", "import holdfast.extras"])
def test_scikit_learn_works_whoever_imported_it(first):
    """Imported by holdfast or by a command, pandas and scipy.stats are not loaded, and work when they are used."""
    code = (
        f"import sys; {first}\n"
        "assert not {'pandas', 'scipy.stats', 'sklearn.linear_model'} & set(sys.modules)\n"
        "from holdfast.extras import import_sklearn; import_sklearn('linear_model', 'impute')\n"
        "assert not {'pandas', 'scipy.stats'} & set(sys.modules)\n"
        "import holdfast.tables.classifier, holdfast.tables.diagnosis\n"
        "assert 'scipy.stats' not in sys.modules\n"  # 0.2 s of every command, for functions that scipy.special has
        "import numpy as np, pandas as pd, scipy.stats\n"
        "from sklearn.covariance import MinCovDet\n"
        "from sklearn.metrics import label_ranking_average_precision_score, roc_auc_score\n"
        "from sklearn.preprocessing import QuantileTransformer, SplineTransformer, StandardScaler\n"
        "X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)\n"
        "assert MinCovDet(random_state=0).fit(X).location_.shape == (2,)\n"
        "assert label_ranking_average_precision_score([[1, 0]], [[0.9, 0.1]]) == 1.0\n"
        "assert roc_auc_score(y, X[:, 0]) == 1.0\n"
        "assert SplineTransformer().fit_transform(X).shape == (60, 14)\n"
        "assert QuantileTransformer(n_quantiles=9, output_distribution='normal').fit_transform(X).shape == (60, 2)\n"
        "frame = pd.DataFrame(X, columns=['a', 'b'])\n"
        "assert list(StandardScaler().fit(frame).feature_names_in_) == ['a', 'b']\n"
        "assert abs(scipy.stats.norm.cdf(0) - 0.5) < 1e-12\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
