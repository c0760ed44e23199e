"""Every display draws its data on axes of ours or of the user's, and renders to a picture."""

from __future__ import annotations

import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from holdfast import ERMClassifier, PIClassifier, StableClassifier
from holdfast.auditing import Audit
from holdfast.datasets import load_dataset
from holdfast.exceptions import InputError, LabelsError, ParameterError
from holdfast.plots import (
    AuditDisplay,
    CautionPathDisplay,
    PartitionDisplay,
    ReliabilityDisplay,
    SiteAccuracyDisplay,
)

FORMULA = "_$x^{"  # matplotlib must not read it as a formula, nor hide it


@pytest.fixture(autouse=True)
def _no_window(monkeypatch):
    """Draw without a window, and close every figure."""
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("Agg")
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


@pytest.fixture(scope="module")
def toy():
    """Return two environments in which x2 agrees with the label in 95 and 80 of 100 rows."""
    return load_dataset("toy", exact=True, etas=(0.05, 0.2))


@pytest.fixture(scope="module")
def stable(toy):
    """Return a fitted stable classifier whose second column has a name that tries to be a formula."""
    frame = pd.DataFrame(toy.train.X, columns=["x1", FORMULA])
    return StableClassifier().fit(frame, toy.train.y, environments=toy.train.environments)


def picture_of(display):
    """Return the figure as an image; it must have more than a few colors."""
    data = io.BytesIO()
    display.figure_.savefig(data, format="png", dpi=60)
    with Image.open(data) as image:
        assert image.width > 100
        assert len(image.convert("RGB").getcolors(1 << 24)) > 20
        return image.size


def labels_of(axis) -> list[str]:
    """Return the texts of an axis."""
    return [text.get_text() for text in axis.get_ticklabels()]


def test_audit_is_a_forest_plot(stable):
    """Effects with intervals are at their values, the next environment is a band, zero is a line."""
    display = AuditDisplay.from_estimator(stable)
    (finding,) = stable.verdict_.columns
    assert labels_of(display.ax_.yaxis) == [f"{FORMULA}: E1", f"{FORMULA}: E2", f"{FORMULA}: next environment"]
    points = [line.get_xdata()[0] for line in display.ax_.get_lines() if len(line.get_xdata()) == 1]
    assert points == pytest.approx([*finding.effects.values(), finding.mean])
    (band,) = display.ax_.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((finding.low, finding.high))
    picture_of(display)


def test_audit_of_an_audit_and_of_nothing(stable):
    """An audit can be drawn alone; where nothing changes, or nothing was looked at, an error says so."""
    audit = Audit(stable.verdict_.columns, ("E1", "E2"), 0.05, 2)
    assert AuditDisplay.from_audit(audit).dots == AuditDisplay.from_estimator(make_pipeline(stable)).dots
    with pytest.raises(InputError, match="No column changes between environments"):
        AuditDisplay.from_audit(Audit((), ("E1",), 0.05, 2))
    with pytest.raises(ParameterError, match="AuditDisplay needs a fitted StableClassifier. Got LogisticRegression"):
        AuditDisplay.from_estimator(LogisticRegression())


def test_accuracy_of_several_classifiers(toy, stable):
    """Each classifier has a dot with its exact interval in each environment, on the axes that were given."""
    frame = pd.DataFrame(toy.test.X, columns=["x1", FORMULA])
    erm = ERMClassifier().fit(frame, toy.test.y)
    _, (ax, other) = plt.subplots(1, 2)
    display = SiteAccuracyDisplay.from_estimator(
        {"erm": erm, "stable": stable}, frame, toy.test.y, environments=toy.test.environments, ax=ax
    )
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    assert len(other.get_lines()) == 0
    assert len(display.dots.dots) == 2 * len(np.unique(toy.test.environments))
    assert all(dot.low <= dot.value <= dot.high for dot in display.dots.dots)
    picture_of(display)
    one = SiteAccuracyDisplay.from_estimator(stable, frame, toy.test.y, environments=toy.test.environments)
    assert one.dots.series == ("StableClassifier",)
    with pytest.raises(LabelsError, match="classifier predicts 1 labels for 2 rows"):
        SiteAccuracyDisplay.from_predictions([0, 1], [0], environments=["a", "b"])


def test_reliability_by_environment():
    """A bin's point is the mean probability and the share of rows where it is so."""
    said = np.array([0.1, 0.2, 0.9, 0.8, 0.6, 0.7])
    display = ReliabilityDisplay.from_predictions(
        [0, 1, 1, 1, 0, 1], np.column_stack([1 - said, said]), environments=list("aaaabb"), n_bins=2
    )
    means, shares, sizes = display.curves["a"]
    assert means == pytest.approx([0.15, 0.85])
    assert shares == pytest.approx([0.5, 1.0])
    assert sizes.tolist() == [2, 2]
    drawn = {line.get_label(): line.get_xydata().tolist() for line in display.ax_.get_lines()}
    assert drawn["b"] == [[pytest.approx(0.65), 0.5]]
    picture_of(display)


def test_reliability_of_a_classifier(toy, stable):
    """Two classes show the second one's probability; several the predicted one's; others are refused."""
    frame = pd.DataFrame(toy.train.X, columns=["x1", FORMULA])
    sites = toy.train.environments
    display = ReliabilityDisplay.from_estimator(stable, frame, toy.train.y, environments=sites)
    assert display.ax_.get_xlabel() == "probability of 1"
    three = ReliabilityDisplay.from_predictions(
        [0, 1, 2], [[0.6, 0.2, 0.2], [0.6, 0.3, 0.1], [0, 0, 1]], environments=["_a"] * 3, n_bins=5
    )
    assert three.curves["_a"][1].tolist() == [0.5, 1.0]
    assert [text.get_text().strip() for text in three.ax_.get_legend().get_texts()][-1] == "_a"
    with pytest.raises(ParameterError, match="FunctionTransformer has no predict_proba"):
        ReliabilityDisplay.from_estimator(FunctionTransformer(), frame, toy.train.y, environments=sites)
    with pytest.raises(InputError, match=r"probabilities has shape \(2,\) for 2 labels"):
        ReliabilityDisplay.from_predictions([0, 1], [0.5, 0.5], environments=["a", "b"])


def test_caution_path(stable):
    """Price and gain are drawn by caution, from the ordinary classifier to the stable one."""
    display = CautionPathDisplay.from_estimator(stable)
    known = display.ax_.get_lines()[0]
    assert known.get_xdata()[0] == 0.0
    assert known.get_ydata()[0] == stable.verdict_.known.ordinary
    picture_of(display)
    with pytest.raises(ParameterError, match="CautionPathDisplay needs a fitted StableClassifier"):
        CautionPathDisplay.from_estimator(ERMClassifier())


def test_partition_is_red_and_blue():
    """The picture shows the correlations unchanged, on a scale from -1 to 1; attributes take the place of columns."""
    toy = load_dataset("toy", etas=(0.1, 0.2))
    X, y, sites = toy.train.X, toy.train.y, toy.train.environments
    model = PIClassifier(halves="hard", random_state=0).fit(X, y, environments=sites)
    display = PartitionDisplay.from_estimator(model, X, y, environments=sites, feature_names=["x1", FORMULA])
    (image,) = display.ax_.images
    assert np.array_equal(image.get_array(), np.array(display.heat_map.values))
    assert image.get_clim() == (-1.0, 1.0)
    assert labels_of(display.ax_.xaxis)[0] == FORMULA
    picture_of(display)
    colors = np.where(y == 1, "red", "blue")
    shown = PartitionDisplay.from_estimator(model, X, y, environments=sites, attributes={"color": colors})
    assert shown.heat_map.columns == ("color=red",)
    with pytest.raises(ParameterError, match="PartitionDisplay needs a fitted PIClassifier"):
        PartitionDisplay.from_estimator(ERMClassifier().fit(X, y), X, y, environments=sites)


def test_without_matplotlib_the_extra_is_named():
    """The package is imported without matplotlib; drawing says what to install."""
    code = """
import sys
sys.modules["matplotlib"] = None
sys.modules["matplotlib.pyplot"] = None
from holdfast.exceptions import MissingExtraError
from holdfast.plots import SiteAccuracyDisplay
try:
    SiteAccuracyDisplay.from_predictions([0], [0], environments=["a"])
except MissingExtraError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip().endswith("Run pip install -c constraints.txt '.[plots]' in a clone of holdfast.")
    assert done.stdout.startswith("Plots need matplotlib")
