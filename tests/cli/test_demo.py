import pytest

from holdfast import PIClassifier, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return where the demo saves."""
    return tmp_path_factory.mktemp("demo") / "model"


def test_demo_tells_the_story(holdfast, folder):
    """ERM fails where the color misleads, PI comes close to the oracle; the mistaken halves say why."""
    outcome = holdfast("demo", "--seeds", 1, "--out", folder, "--json")
    assert outcome.code == 0
    result = outcome.json
    assert list(result["methods"]) == ["erm", "group_dro", "pi", "oracle"]
    accuracy = {name: scores["test_accuracy"] for name, scores in result["methods"].items()}
    at_new = result["hospitals"]["accuracy"]
    assert at_new["ordinary"] < 0.2
    assert at_new["stable"] == pytest.approx(0.75, abs=0.04)
    assert at_new["adapted"] > 0.86
    assert result["hospitals"]["unstable"] == ["scanner"]
    assert accuracy["erm"] < 0.3
    assert accuracy["pi"] > accuracy["erm"] + 0.3
    assert accuracy["pi"] > accuracy["oracle"] - 0.05
    correlation = {row["rows"]: row["correlation"] for row in result["partition_correlations"]}
    assert correlation["E2 judged by E1: correct"] > 0.95
    assert abs(correlation["E2 judged by E1: mistaken"]) < 0.4
    assert outcome.err.splitlines()[0] == "fitting 1 of 6: hospitals"
    assert isinstance(load(folder), PIClassifier)


def test_demo_prints_tables_and_replaces_its_own_folder(holdfast, folder):
    """A second run saves to the same place; the text fits 80 columns."""
    outcome = holdfast("demo", "--seeds", 1, "--out", folder)
    assert outcome.code == 0
    assert max(len(line) for line in outcome.out.splitlines() if str(folder) not in line) <= 80
    assert "PI: predict, then interpolate" in outcome.out
    for part in ("diagnose: Use the stable classifier", "fit: Stable classifier", "check: Adapt the model"):
        assert part in outcome.out
    assert "E1 judged by E2: mistaken" in outcome.out
