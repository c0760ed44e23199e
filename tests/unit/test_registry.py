import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.exceptions import DatasetError, ParameterError, PluginError
from holdfast.registry import Registry, installed_plugins

PLUGINS = Path(__file__).parents[1] / "plugins"


@pytest.fixture
def add_package(tmp_path, monkeypatch):
    """Return a function that puts a package with these entry points on sys.path."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(name, entry_points):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (folder / "entry_points.txt").write_text("[holdfast.tests]\n" + entry_points, encoding="utf-8")

    return add


def test_text_entries_are_imported_when_asked_for():
    """Until then a name is only a name, so a module that does not exist is no problem."""
    registry = Registry("thing", {"pi": "math:pi", "gone": "no_such_module:thing", "four": 4})
    assert list(registry) == ["pi", "gone", "four"]
    assert len(registry) == 3
    assert "gone" in registry
    assert (registry["pi"], registry["four"]) == (pytest.approx(3.14159, abs=1e-5), 4)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry["gone"]


def test_unknown_names():
    """The mapping raises KeyError as every mapping does; `find` says what to do, with the registry's own error."""
    registry = Registry("data set", {"toy": 1, "beer": 2}, error=DatasetError)
    with pytest.raises(KeyError, match="toi"):
        registry["toi"]
    assert registry.get("toi") is None
    with pytest.raises(DatasetError, match=r"^There is no data set 'toi'\. Did you mean 'toy'\?$"):
        registry.find("toi")
    with pytest.raises(DatasetError, match=r"^There is no data set 'mnist'\. Choose from 'toy', 'beer'\.$"):
        registry.find("mnist")
    assert registry.find("beer") == 2


def test_a_name_is_registered_once():
    """The same entry again changes nothing, another one is refused."""
    registry, first = Registry("network"), object()
    registry.register("mine", first)
    registry.register("mine", first)
    with pytest.raises(ParameterError, match="A network named 'mine' is registered already. Choose another name."):
        registry.register("mine", object())
    assert registry["mine"] is first


def test_entry_points_are_found(add_package):
    """Names of installed packages come after our own, and load when they are asked for."""
    add_package("one", "tau = math:tau\n")
    registry = Registry("number", {"pi": "math:pi"}, group="holdfast.tests")
    assert list(registry) == ["pi", "tau"]
    assert registry["tau"] == pytest.approx(6.28318, abs=1e-5)
    assert "tau" not in Registry("number", {"pi": "math:pi"})


def test_refresh_finds_new_packages(add_package):
    """Entry points are read once; after an installation they can be read again."""
    registry = Registry("number", group="holdfast.tests")
    assert "tau" not in registry
    add_package("one", "tau = math:tau\n")
    assert "tau" not in registry
    registry.refresh()
    assert "tau" in registry


def test_paths_are_known_without_an_import(add_package):
    """Where lazy entries are, ours before those of packages; entries that are values have no path."""
    add_package("one", "gone = no_such_module:Thing\npi = math:tau\n")
    registry = Registry("number", {"pi": "math:pi", "four": 4}, group="holdfast.tests")
    assert registry.paths == {"pi": "math:pi", "gone": "no_such_module:Thing"}


def test_our_own_entries_win(add_package):
    """A package cannot replace what holdfast calls by a name."""
    add_package("one", "pi = math:tau\n")
    registry = Registry("number", {"pi": "math:pi"}, group="holdfast.tests")
    assert (list(registry), len(registry)) == (["pi"], 1)
    assert registry["pi"] == pytest.approx(3.14159, abs=1e-5)


def test_a_name_of_two_packages_is_refused_when_asked_for(add_package):
    """Which of the two would be taken must not depend on the order of folders; the same value twice is no conflict."""
    add_package("one", "pi = math:pi\ne = math:e\n")
    add_package("two", "pi = math:tau\ne = math:e\n")
    registry = Registry("number", group="holdfast.tests")
    assert registry["e"] == pytest.approx(2.71828, abs=1e-5)
    message = r"'pi' is registered by one \(math:pi\) and two \(math:tau\)\. Uninstall all but one of them\."
    with pytest.raises(PluginError, match=message):
        registry["pi"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_module:thing", r"ModuleNotFoundError: No module named 'no_such_module'"),
        ("math:no_such_thing", r"AttributeError: module 'math' has no attribute 'no_such_thing'"),
    ],
)
def test_a_broken_entry_point_harms_only_its_users(add_package, value, problem):
    """Everything else works; asking for it names the package, what it registered and what went wrong."""
    add_package("broken-package", f"bad = {value}\ngood = math:pi\n")
    registry = Registry("method", group="holdfast.tests")
    assert sorted(registry) == ["bad", "good"]
    assert registry["good"] == pytest.approx(3.14159, abs=1e-5)
    message = (
        rf"^The method 'bad', which broken-package registers as {value}, cannot be imported \({problem}\)\. "
        r"Update or uninstall broken-package\.$"
    )
    with pytest.raises(PluginError, match=message):
        registry["bad"]


def test_loadable_leaves_broken_packages_out(add_package):
    """What is done with every entry is not spoiled by one that cannot be imported."""
    add_package("one", "bad = no_such_module:thing\ntau = math:tau\n")
    registry = Registry("number", {"pi": "math:pi"}, group="holdfast.tests")
    assert list(registry.loadable()) == ["pi", "tau"]


def test_an_entry_of_the_wrong_type_is_refused(add_package):
    """What was expected and what came are both named."""
    add_package("one", "pi = math:pi\n")
    registry = Registry("method", group="holdfast.tests", accepts=callable, expected="a class")
    with pytest.raises(PluginError, match=r"'pi', which one registers as math:pi, must be a class\. It is 3\.14"):
        registry["pi"]


def test_an_error_of_ours_passes_through(add_package, tmp_path):
    """A package that says itself what is missing is not spoken over."""
    (tmp_path / "needs_more.py").write_text(
        "from holdfast.exceptions import ParameterError\nraise ParameterError('Install needs-more[gpu].')\n",
        encoding="utf-8",
    )
    add_package("one", "thing = needs_more:thing\n")
    with pytest.raises(ParameterError, match="Install needs-more.gpu."):
        Registry("method", group="holdfast.tests")["thing"]


def test_installed_plugins_lists_other_packages(monkeypatch):
    """Each entry point has its package and, if it cannot be imported, why."""
    monkeypatch.syspath_prepend(PLUGINS)
    plugins = {(plugin.kind, plugin.name): plugin for plugin in installed_plugins()}
    good, bad = plugins["network", "example_network"], plugins["network", "broken_network"]
    assert (good.package, good.value, good.problem) == ("holdfast-example", "holdfast_example:example_network", None)
    assert bad.problem.startswith("The network 'broken_network', which holdfast-example registers as ")


def test_nothing_is_scanned_before_it_is_needed():
    """Importing the registries of data sets reads no package's metadata and imports no data set."""
    code = (
        "import sys, importlib.metadata as m; m.entry_points = None\n"
        "from holdfast.datasets import DATASETS\n"
        "sys.exit('holdfast.datasets.toy' in sys.modules or 'toy' not in DATASETS)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
