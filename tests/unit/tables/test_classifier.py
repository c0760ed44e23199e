"""TableClassifier: what `holdfast fit` does, from Python."""

import hashlib
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from holdfast import TableClassifier, load
from holdfast.exceptions import (
    LabelsError,
    ParameterError,
    SavedModelError,
    SingleEnvironmentWarning,
    SmallGroupWarning,
    TableError,
)
from holdfast.saving.json_files import checked_json
from holdfast.saving.models import read_manifest
from holdfast.tables.preprocessing import matrix_names
from holdfast.tables.roles import TableOptions, read_rows


def patients(n_rows=400, seed=0):
    """Return rows of two sites: the marker goes with the label in both, the scanner less in one."""
    generator = np.random.default_rng(seed)
    ill = generator.integers(2, size=2 * n_rows)
    follows = generator.random(2 * n_rows) < np.repeat([0.95, 0.3], n_rows)
    return pd.DataFrame(
        {
            "site": np.repeat(["Boston", "Chicago"], n_rows),
            "marker": (ill + generator.normal(size=2 * n_rows)).round(3),
            "scanner": np.where(np.where(follows, ill, 1 - ill), "B", "A"),
            "visit": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(2 * n_rows) % 50, unit="D"),
            "ill": np.where(ill, "yes", "no"),
        }
    )


OPTIONS = {"label": "ill", "environment": "site"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with the same rows as CSV and as Parquet."""
    folder = tmp_path_factory.mktemp("tables")
    patients().to_csv(folder / "t.csv", index=False)
    patients().to_parquet(folder / "t.parquet", index=False)
    return folder


def test_files_and_frames_give_the_same_classifier(files):
    """CSV, Parquet, pandas and Arrow: the same answers to the last bit; labels come back as they were."""
    sources = [files / "t.csv", str(files / "t.parquet"), patients(), pa.Table.from_pandas(patients())]
    fitted = [TableClassifier(**OPTIONS, method="erm").fit(source) for source in sources]
    expected = fitted[0].predict_proba(sources[0])
    for model, source in zip(fitted, sources, strict=True):
        np.testing.assert_array_equal(model.predict_proba(source), expected)
        assert model.predict(source).tolist() == fitted[0].classes_[expected.argmax(axis=1)].tolist()
    assert list(fitted[0].classes_) == ["no", "yes"]


def test_polars_frames_are_read(files):
    """Through Arrow, like any other frame that speaks it."""
    polars = pytest.importorskip("polars")
    frame = polars.read_csv(files / "t.csv")
    model = TableClassifier(**OPTIONS, method="erm", drop="visit").fit(frame)
    np.testing.assert_array_equal(model.predict(frame), model.predict(files / "t.csv"))


def test_the_default_names_columns_of_the_table(files):
    """The verdict speaks of columns, not of numbers of a matrix; the stable classifier does without the scanner."""
    model = TableClassifier(**OPTIONS).fit(files / "t.csv")
    assert [finding.feature for finding in model.verdict_.columns] == ["scanner"]
    assert model.verdict_.fitted == "stable"
    changed = patients().assign(scanner="A")
    np.testing.assert_allclose(model.predict_proba(changed), model.predict_proba(files / "t.csv"), atol=0.15)


@pytest.mark.parametrize("estimator", ["logistic", "boosting"])
def test_the_verdict_names_words_of_a_text_column(estimator):
    """Texts become a matrix of words; the verdict has the words."""
    table = patients()
    table["note"] = np.where(table.pop("scanner") == "B", "looks pale", "looks dark")
    model = TableClassifier(**OPTIONS, text="note", drop="visit", estimator=estimator).fit(table)
    (first, *_) = model.verdict_.columns
    assert first.feature.startswith("note: ")
    assert first.feature in model.verdict_.kept
    assert f"`{first.feature}`" in str(model.verdict_)


def test_any_estimator_goes_inside(files):
    """A scikit-learn classifier instead of a name; without probabilities there are none."""
    model = TableClassifier(**OPTIONS, estimator=LogisticRegression(C=0.1), method="erm").fit(files / "t.csv")
    assert model.names == {"estimator": "LogisticRegression", "method": "erm"}
    model = TableClassifier(**OPTIONS, estimator=LinearSVC(), method="erm").fit(files / "t.csv")
    assert len(model.predict(files / "t.csv")) == 800
    with pytest.raises(ParameterError, match="The estimator LinearSVC gives no probabilities. Use predict"):
        model.predict_proba(files / "t.csv")


def test_saved_and_loaded(files, tmp_path):
    """The same answers, parameters, notes and verdict; the folder is a pipeline for load."""
    model = TableClassifier(**OPTIONS, drop=["visit"]).fit(files / "t.csv")
    model.save(tmp_path / "m")
    loaded = TableClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(files / "t.csv"), model.predict_proba(files / "t.csv"))
    assert loaded.options == model.options
    assert (loaded.names, loaded.notes_, loaded.warnings_) == (model.names, model.notes_, model.warnings_)
    assert str(loaded.verdict_) == str(model.verdict_)
    features = model.roles_.schema.features(patients())
    np.testing.assert_array_equal(load(tmp_path / "m").predict(features), model.predict(patients()))
    with pytest.raises(SavedModelError, match="holds a saved model already"):
        model.save(tmp_path / "m")
    model.save(tmp_path / "m", overwrite=True)


@pytest.mark.parametrize("change", ["no extra", "notes", "nested steps", "no steps"])
def test_a_saved_classifier_that_makes_no_sense_is_named(files, tmp_path, change):
    """Checksums put right, but content that no version writes: one line with the folder, not what Python says alone."""
    TableClassifier(**OPTIONS, method="erm").fit(files / "t.csv").save(tmp_path / "model")
    manifest = read_manifest(tmp_path / "model")
    tree = json.loads((tmp_path / "model" / "tree.json").read_text())
    tree.pop("sha256")
    if change == "no extra":
        del manifest["extra"]
    elif change == "notes":
        manifest["extra"]["notes"] = None
    else:
        attributes = tree["root"]["attributes"]
        steps = next(entry for entry in attributes if entry[0] == "steps")
        if change == "no steps":
            steps[0] = "parts"
        else:
            steps[1] = [steps[1]]
    (tmp_path / "model" / "tree.json").write_bytes(data := checked_json(tree))
    manifest["files"]["tree.json"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (tmp_path / "model" / "manifest.json").write_bytes(checked_json(manifest))
    with pytest.raises(SavedModelError, match="model' is not as 'holdfast fit' saves a classifier"):
        TableClassifier.load(tmp_path / "model").predict(files / "t.csv")


def test_a_clone_is_unfitted_and_fits_alike(files):
    """Parameters are stored as they are given, and fit leaves them alone."""
    model = TableClassifier(**OPTIONS, method="erm", categorical="marker").fit(files / "t.csv")
    assert (model.environment, model.categorical, model.drop) == ("site", "marker", ())
    again = clone(model)
    assert not hasattr(again, "pipeline_")
    np.testing.assert_array_equal(again.fit(files / "t.csv").predict(patients()), model.predict(patients()))


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "evaluate", "recalibrate", "read_rows"])
def test_what_needs_a_fit_says_so(ask):
    """As scikit-learn's own estimators do."""
    frame = pd.DataFrame({"age": [1.0, 2.0], "ill": ["no", "yes"], "site": ["A", "B"]})
    with pytest.raises(NotFittedError, match="This TableClassifier instance is not fitted yet"):
        getattr(TableClassifier(label="ill", environment="site"), ask)(frame)


def test_rows_that_were_read_can_be_fitted(files):
    """Reading and fitting are two steps for those who want to look at the rows."""
    rows = read_rows(files / "t.csv", TableOptions(**OPTIONS))
    model = TableClassifier(**OPTIONS, method="erm").fit(rows)
    np.testing.assert_array_equal(
        model.predict(files / "t.csv"),
        TableClassifier(**OPTIONS, method="erm").fit(files / "t.csv").predict(patients()),
    )


def test_object_columns_of_numbers_are_numbers():
    """Frames made of records, and single rows of a frame, have objects: the model is the same, and so are answers."""
    table = patients(60)
    table.loc[3, "marker"] = np.nan
    objects = table.astype(object).assign(marker=[None if np.isnan(x) else float(x) for x in table["marker"]])
    model = TableClassifier(**OPTIONS, method="erm").fit(objects.astype({"marker": object}))
    assert [column.kind for column in model.roles_.schema.columns] == ["numeric", "categorical", "date"]
    expected = TableClassifier(**OPTIONS, method="erm").fit(table).predict_proba(table)
    np.testing.assert_allclose(model.predict_proba(objects), expected)
    np.testing.assert_allclose(model.predict_proba(table.iloc[0].to_frame().T), expected[:1])


@pytest.mark.parametrize("kind", [object, "str", "category"])
def test_iso_dates_as_texts_are_dates_in_frames_as_in_files(kind, tmp_path):
    """The same table is the same model, from a file and from a frame; texts that are no dates stay categories."""
    table = patients(60).astype({"visit": "str"})
    table.loc[3, "visit"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    frame = table.astype({"visit": kind})
    models = [TableClassifier(**OPTIONS, method="erm").fit(rows) for rows in (tmp_path / "t.csv", frame)]
    assert models[0].roles_.schema == models[1].roles_.schema
    assert models[1].roles_.schema.names("date") == ["visit"]
    np.testing.assert_allclose(models[0].predict_proba(tmp_path / "t.csv"), models[1].predict_proba(frame))
    for other in ("2026-13-01", "spring", "2026"):
        schema = (
            TableClassifier(**OPTIONS, method="erm").fit(table.assign(visit=[other, *table["visit"][1:]])).roles_.schema
        )
        assert schema.names("date") == []
    named = TableClassifier(**OPTIONS, method="erm", categorical="visit").fit(table)
    assert named.roles_.schema.names("categorical") == ["scanner", "visit"]


def test_evaluation_is_a_sentence_numbers_and_a_frame(files):
    """What `holdfast evaluate` prints, as a value."""
    model = TableClassifier(**OPTIONS).fit(files / "t.csv")
    erm = TableClassifier(**OPTIONS, method="erm").fit(files / "t.csv")
    test = patients(seed=1).replace({"site": {"Chicago": "Denver"}})
    found = model.evaluate(test, attributes=["scanner"], baseline=erm)
    right = model.predict(test) == test["ill"].to_numpy()
    assert found.overall.accuracy.value == pytest.approx(right.mean())
    assert str(found).startswith(f"The accuracy is {right.mean():.1%} on 800 rows; it is lowest in ")
    assert [(scores.name, scores.known) for scores in found.environments] == [("Boston", True), ("Denver", False)]
    assert list(found.to_frame()["name"]) == ["Boston", "Denver", "all rows"]
    assert found.comparison.baseline == {"estimator": "logistic", "method": "erm"}
    assert found.to_dict()["comparison"]["new"]["value"] > 0
    few = model.evaluate(pd.concat([test[test["ill"] == "no"], test[test["ill"] == "yes"][:20]]))
    assert f"{few.overall.shares['no']:.1%} have the same label; its AUROC is {few.overall.auroc:.3f}" in str(few)
    with pytest.raises(ParameterError, match="predict different labels"):
        model.evaluate(test, baseline=TableClassifier(label="scanner", environment="site", method="erm").fit(test))


@pytest.mark.parametrize("kind", [int, bool, str, float])
def test_labels_are_those_of_the_classifier_however_they_are_stored(kind, tmp_path):
    """0 and 1 may come as numbers or texts; labels that the classifier does not know are refused, not mistakes."""
    table = patients(60).assign(ill=lambda rows: (rows["ill"] == "yes").astype(int))
    model = TableClassifier(**OPTIONS, method="erm").fit(table.assign(ill=table["ill"].astype(kind)))
    expected = (model.predict(table).astype(int if kind is not str else object).astype(int) == table["ill"]).mean()
    others = [table, table.astype({"ill": float})] if kind is not str else [table]
    others += [table.assign(ill=table["ill"].astype(str))] if kind in (int, str) else []
    others += [table.astype({"ill": bool})] if kind is not str else []
    for other in others:
        assert model.evaluate(other).overall.accuracy.value == expected
    renamed = table.assign(ill=table["ill"].map({0: "no", 1: "yes"}))
    renamed.to_csv(tmp_path / "t.csv", index=False)
    for other in (renamed, tmp_path / "t.csv"):
        with pytest.raises(LabelsError, match="has the labels no, yes, which the classifier does not know: it was fit"):
            model.evaluate(other)


def test_mean_sensitivity_over_many_classes(files):
    """For several classes the plain means over the classes; for two the second one, or the one asked for."""
    model = TableClassifier(**OPTIONS, method="erm").fit(files / "t.csv")
    found, other = model.evaluate(patients()), model.evaluate(patients(), positive="no")
    assert (found.positive, other.positive) == ("yes", "no")
    assert found.overall.sensitivity == pytest.approx(other.overall.specificity)
    ill = patients()["ill"].to_numpy() == "yes"
    assert found.overall.sensitivity == pytest.approx((model.predict(patients()) == "yes")[ill].mean())


def test_warnings_point_to_the_line_that_called_fit():
    """Each is given once, with the place of the call, and kept."""
    table = pd.concat([patients(40), patients(2).assign(site="tiny")])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = TableClassifier(**OPTIONS, method="pi").fit(table)
    small = [entry for entry in caught if entry.category is SmallGroupWarning]
    assert len({str(entry.message) for entry in small}) == len(small)
    assert {entry.filename for entry in caught} == {__file__}
    assert model.warnings_ == tuple(str(entry.message) for entry in caught)
    with pytest.warns(SingleEnvironmentWarning, match="there is only one"):
        TableClassifier(**OPTIONS).fit(patients(20).query("site == 'Boston'"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "logstic"}, "There is no estimator 'logstic'. Did you mean 'logistic'?"),
        ({"method": "grup_dro"}, "There is no method 'grup_dro'. Did you mean 'group_dro'?"),
        ({"method": "oracle"}, "There is no method 'oracle'. Choose from 'stable', "),
        ({"method": "erm", "method_options": {"halves": "hard"}}, "method='erm' has no setting halves='hard'."),
        ({"environment_by": "yaer"}, "environment_by='yaer' is not a period. Did you mean 'year'?"),
        ({"environment": []}, "No environment column is named."),
        ({"drop": "site"}, "Column 'site' is the label or an environment; it cannot be a feature or dropped."),
        ({"label": "site"}, "Column 'site' cannot be both the label and an environment."),
        ({"label": ["ill"]}, "label= takes the name of a column. Got list instead."),
        ({"text": "marker"}, "Text column 'marker' contains number values, expected text."),
    ],
)
def test_what_does_not_fit_is_named(settings, message):
    """Names and roles, before anything is fitted."""
    with pytest.raises((ParameterError, TableError), match=message.replace("?", r"\?")):
        TableClassifier(**{**OPTIONS, **settings}).fit(patients(10))


@pytest.mark.parametrize("table", [None, 3, [["a"]], np.zeros((2, 2))])
def test_what_is_no_table_is_refused(table):
    """A list or an array has no named columns."""
    with pytest.raises(TableError, match=r"A table must be the path of a file \(.csv, .*\) or a data frame"):
        TableClassifier(**OPTIONS).fit(table)


def test_predictions_are_written_in_chunks(files, tmp_path, monkeypatch):
    """Kept columns, labels and probabilities in order; the counts are returned."""
    monkeypatch.setattr("holdfast.tables.model.CHUNK_ROWS", 300)
    model = TableClassifier(**OPTIONS, method="erm").fit(files / "t.csv")
    counts = model.write_predictions(files / "t.csv", tmp_path / "p.parquet", keep=["site"])
    written = pd.read_parquet(tmp_path / "p.parquet")
    assert list(written.columns) == ["site", "prediction", "probability_no", "probability_yes"]
    assert written["prediction"].tolist() == model.predict(patients()).tolist()
    assert dict(counts) == written["prediction"].value_counts().to_dict()


def test_a_phrase_that_is_given_up_goes_with_all_its_neighbors():
    """Pairs of words that reach into the phrase would tell of it; pairs that do not are kept."""
    generator, words = np.random.default_rng(0), [f"w{i}" for i in range(12)]
    parts = []
    for site, agreement in (("A", 0.98), ("B", 0.6), ("C", 0.85)):
        y = generator.integers(2, size=400)
        told = generator.random(400) < np.where(y == 1, agreement, 1 - agreement)
        notes = [
            " ".join([*generator.choice(words, 4), *["per protocol"] * int(tells), *generator.choice(words, 3)])
            for tells in told
        ]
        lactate = y + generator.normal(size=400)
        parts.append(pd.DataFrame({"site": site, "lactate": lactate, "note": notes, "y": y}))
    model = TableClassifier(label="y", environment="site", text=["note"]).fit(pd.concat(parts, ignore_index=True))
    names = matrix_names(model.pipeline_[0], model.roles_.schema)
    removed = {names[column] for column in model.method_.estimator_.removals[-1].columns}
    tells = {name for name in names if {"per", "protocol"} & set(name.removeprefix("note: ").split())}
    assert model.verdict_.fitted == "stable"
    assert len(tells) > 20
    assert removed == tells


def test_weighted_rows_are_repeated_rows():
    """A column of weights fits as if rows were there several times; it is no feature."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"site": ["A", "B"] * 100, "x": generator.normal(size=200), "times": [1, 1, 3, 3] * 50})
    frame["ill"] = (frame["x"] + generator.normal(size=200) > 0).astype(int)
    settings = {"label": "ill", "environment": "site", "method": "erm"}
    weighted = TableClassifier(**settings, weight="times").fit(frame)
    repeated = TableClassifier(**settings, drop="times").fit(frame.loc[frame.index.repeat(frame["times"])])
    assert weighted.roles_.schema.names() == ["x"]
    # Scaling is not weighted, so that the penalty differs a little.
    assert weighted.predict_proba(frame) == pytest.approx(repeated.predict_proba(frame), abs=0.01)
    plain = TableClassifier(**settings, drop="times").fit(frame)
    assert abs(plain.predict_proba(frame) - repeated.predict_proba(frame)).max() > 0.01


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([-1.0] + [1.0] * 39, "runs from -1 to 1"),
        (["a"] * 40, "has no numbers"),
        ([np.nan] + [1.0] * 39, "is missing in 1"),
    ],
)
def test_weights_that_cannot_count_are_refused(weights, message):
    """Negative ones, texts and gaps."""
    frame = pd.DataFrame({"site": ["A", "B"] * 20, "x": range(40), "w": weights, "ill": [0] * 20 + [1] * 20})
    with pytest.raises(TableError, match=message):
        TableClassifier(label="ill", environment="site", weight="w").fit(frame)


def test_score_is_the_share_of_rows_that_are_right():
    """By the label column of the table, by given labels, and weighted."""
    frame = pd.DataFrame({"site": ["A", "B"] * 20, "age": range(40), "ill": ["no"] * 20 + ["yes"] * 20})
    model = TableClassifier(label="ill", environment="site", method="erm").fit(frame)
    wrong = frame.assign(ill=["yes"] * 10 + ["no"] * 10 + ["yes"] * 20)
    assert model.score(wrong) == 0.75
    assert model.score(frame[["age"]], wrong["ill"]) == 0.75
    assert model.score(wrong, sample_weight=[0] * 10 + [1] * 30) == 1.0
