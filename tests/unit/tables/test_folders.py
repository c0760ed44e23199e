"""Folders of Parquet files: one table, also beyond the memory and for boosters, with every bad file named."""

import contextlib
import io
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import AuthenticationError

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast.exceptions import ClusterError, ParameterError, SolverWarning, TableError
from holdfast.fitting.estimators import last_step
from holdfast.parallel import on_cluster
from holdfast.seeding import Seeding
from holdfast.tables import boosting, folders, passes
from holdfast.tables.audits import audit_rows
from holdfast.tables.classifier import TableClassifier
from holdfast.tables.files import open_table
from holdfast.tables.folders import TableFolder
from holdfast.tables.roles import TableOptions, read_rows

SMALL = 0.0005  # GiB: less than a fit of these tables needs


def rows_of(n_rows, seed=0, n_classes=2):
    """Return rows of three sites; `unstable` says something else at each."""
    generator = np.random.default_rng(seed)
    site, y = generator.integers(3, size=n_rows), generator.integers(n_classes, size=n_rows)
    return pd.DataFrame(
        {
            "y": y,
            "site": np.array(["A", "B", "C"])[site],
            "stable": y + generator.normal(size=n_rows),
            "unstable": y * np.array([2.0, 1.0, -1.0])[site] + generator.normal(size=n_rows),
            "gaps": np.where(generator.random(n_rows) < 0.1, np.nan, generator.normal(size=n_rows)),
            "kind": np.array(["x", "y", "z"])[generator.integers(3, size=n_rows)],
        }
    )


@pytest.fixture
def folder(tmp_path):
    """Return a folder of four files."""
    for number in range(4):
        rows_of(1500, number).to_parquet(tmp_path / f"part-{number}.parquet", row_group_size=400)
    return tmp_path


def classifier(**options):
    """Return an unfitted classifier of the columns."""
    return TableClassifier(label="y", environment="site", **options)


def test_the_index_of_pandas_is_no_column(folder):
    """Rows that were filtered or sorted are written with their old numbers, which say nothing."""
    filtered = rows_of(1500, 1).query("stable > 0")
    filtered.to_parquet(folder / "part-1.parquet")
    (folder / "other").mkdir()
    filtered.to_parquet(folder / "other" / "one.parquet")
    for source in (TableFolder(folder), open_table(folder / "other" / "one.parquet")):
        assert source.columns == tuple(filtered.columns)
        assert source.read().columns.tolist() == filtered.columns.tolist()


def test_a_folder_is_its_files(folder):
    """All rows, in the order of the files' names, whole and in chunks; `fit` takes the folder."""
    everything = pd.concat([rows_of(1500, number) for number in range(4)], ignore_index=True)
    source = open_table(folder)
    pd.testing.assert_frame_equal(source.read(), everything, check_dtype=False)
    chunks = list(source.chunks(["stable", "site"], n_rows=1000))
    assert max(map(len, chunks)) <= 1000
    np.testing.assert_array_equal(pd.concat(chunks)["stable"], everything["stable"])
    fitted = classifier(method="erm").fit(folder)
    expected = classifier(method="erm").fit(everything)
    np.testing.assert_array_equal(fitted.predict_proba(folder), expected.predict_proba(everything))


def test_folders_names_are_columns(tmp_path):
    """Names of the form year=2024 state a column: numbers where all are, texts with their escapes resolved."""
    for value in ("--5", "6"):
        (tmp_path / "odd" / f"year={value}").mkdir(parents=True)
        rows_of(5).to_parquet(tmp_path / "odd" / f"year={value}" / "rows.parquet")
    assert set(TableFolder(tmp_path / "odd").read(["year"])["year"]) == {"--5", "6"}
    (tmp_path / "odd" / "year=6").rename(tmp_path / "odd" / os.fsdecode(b"year=\xff"))
    with pytest.raises(TableError, match=r"year=.udcff/rows.parquet' is not a name in UTF-8. Rename it."):
        TableFolder(tmp_path / "odd")
    shutil.rmtree(tmp_path / "odd")
    for year, place in ((2023, "St%20Paul"), (2024, "Oslo")):
        inside = tmp_path / f"year={year}" / f"place={place}"
        inside.mkdir(parents=True)
        rows_of(20).to_parquet(inside / "rows.parquet")
    frame = TableFolder(tmp_path).read(["place", "year", "y"])
    assert frame.groupby("year")["place"].first().to_dict() == {2023: "St Paul", 2024: "Oslo"}
    (tmp_path / "rows.parquet").write_bytes((tmp_path / "year=2024" / "place=Oslo" / "rows.parquet").read_bytes())
    with pytest.raises(TableError, match=r"lies in folders that state other columns than those of"):
        TableFolder(tmp_path)


def test_folders_at_addresses_are_read_in_passes(folder, monkeypatch):
    """A folder in a store is fitted like one on the disk, and a bad file there is named by its address."""
    store = pytest.importorskip("fsspec").filesystem("memory")
    for number, path in enumerate(sorted(folder.iterdir())):
        store.pipe_file(f"/wards/year={number}/rows.parquet", path.read_bytes())
        (folder / f"year={number}").mkdir()
        path.rename(folder / f"year={number}" / "rows.parquet")
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000)
    here, there = (open_table(name, max_memory=SMALL) for name in (folder, "memory://wards/"))
    a, b = (classifier().fit(source).predict_proba(here) for source in (here, there))
    np.testing.assert_allclose(a, b, rtol=1e-12)  # batches end elsewhere
    store.pipe_file("/wards/year=7/rows.parquet", b"no Parquet")
    with pytest.raises(TableError, match=r"memory://wards/year=7/rows.parquet cannot be read .*on_bad_file='skip'"):
        open_table("memory://wards")
    skipping = open_table("memory://wards", on_bad_file="skip")
    assert list(skipping.skipped) == ["memory://wards/year=7/rows.parquet"]
    assert skipping.n_rows == 6000


@pytest.mark.parametrize(("method", "n_classes"), [("erm", 2), ("stable", 2), ("erm", 3)])
def test_passes_over_files_fit_what_fits_in_memory_do(tmp_path, monkeypatch, method, n_classes):
    """Coefficients are those of all rows; only preprocessing and accuracies come from the sample."""
    for number in range(3):
        rows_of(2000, number, n_classes).to_parquet(tmp_path / f"{number}.parquet", row_group_size=700)
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 6000)  # all rows, so that preprocessing is the same
    monkeypatch.setattr(folders, "PART_ROWS", 1000)
    exact = LogisticRegression(tol=1e-9, max_iter=10_000)
    whole = classifier(method=method, estimator=exact).fit(tmp_path)
    streamed = classifier(method=method, estimator=exact).fit(TableFolder(tmp_path, max_memory=SMALL))
    assert "fitted on all 6,000 rows" in streamed.notes_[-1]
    a, b = whole.predict_proba(tmp_path), streamed.predict_proba(tmp_path)
    np.testing.assert_allclose(b, a, atol=1e-6)


def test_passes_that_did_not_suffice_are_told(folder, monkeypatch):
    """Coefficients that are not the best ones are not handed out in silence."""
    monkeypatch.setattr(passes, "MOST_PASSES", 1)
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000)
    with pytest.warns(SolverWarning, match=r"still changed after 1 passes over .*Scale columns"):
        classifier(method="erm").fit(TableFolder(folder, max_memory=SMALL))


def test_the_verdict_is_that_of_a_sample(folder, monkeypatch):
    """A sixth of the rows is read; the note says so, and the verdict is the same whoever reads them."""
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000)
    monkeypatch.setattr(folders, "LEAST_ROWS", 100)
    source = TableFolder(folder, max_memory=SMALL)
    fitted = classifier().fit(source)
    said = r"fitted on all 6,000 rows, .* preprocessing and verdict come from the 1,0\d\d rows"
    assert re.search(said, fitted.notes_[-1])
    (found,) = fitted.verdict_.columns
    (expected,) = classifier().fit(folder).verdict_.columns
    assert found.feature == expected.feature == "unstable"
    for site in "ABC":
        assert abs(found.effects[site] - expected.effects[site]) < 3 * found.errors[site]
        assert found.errors[site] == pytest.approx(expected.errors[site] * np.sqrt(6), rel=0.2)
    rows = read_rows(source, TableOptions(label="y", environment="site"))
    assert 900 < len(rows.y) < 1100
    assert rows.n_rows == 6000
    again = read_rows(source, TableOptions(label="y", environment="site"))
    pd.testing.assert_frame_equal(rows.features, again.features)
    with on_cluster("local:2"):
        elsewhere = classifier().fit(source)
    np.testing.assert_array_equal(elsewhere.predict_proba(folder), fitted.predict_proba(folder))
    assert elsewhere.verdict_.to_dict() == fitted.verdict_.to_dict()


def test_files_without_rows_are_no_matter(folder, monkeypatch):
    """Beyond the memory, too, a fit is that of the other files; a folder without any row is refused."""
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000)
    before = classifier().fit(TableFolder(folder, max_memory=SMALL))
    for name in ("a.parquet", "z.parquet"):
        rows_of(0).to_parquet(folder / name)
    after = classifier().fit(TableFolder(folder, max_memory=SMALL))
    np.testing.assert_array_equal(after.predict_proba(folder), before.predict_proba(folder))
    for path in folder.glob("part-*"):
        path.unlink()
    with pytest.raises(TableError, match=r"no rows"):
        TableFolder(folder, max_memory=0).sample(["y"], 10, Seeding(0))


@pytest.mark.parametrize("options", [{}, {"text": ("kind",)}])
def test_audits_of_a_folder_are_those_of_its_rows(folder, monkeypatch, options):
    """Where all rows are in the sample, the findings are the same; with fewer, the same columns are named."""
    options = TableOptions(label="y", environment="site", **options)
    whole, streamed = (
        audit_rows(read_rows(table, options), level=0.05) for table in (folder, TableFolder(folder, max_memory=SMALL))
    )
    assert streamed.named == whole.named == ("unstable",)
    assert streamed.best("unstable").probability == pytest.approx(whole.best("unstable").probability)
    assert streamed.best("unstable").effects == pytest.approx(whole.best("unstable").effects)
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 3000)
    monkeypatch.setattr(folders, "LEAST_ROWS", 1000)
    assert audit_rows(read_rows(TableFolder(folder, max_memory=SMALL), options), level=0.05).named == whole.named


def test_tables_in_amazons_store_are_fitted(bucket, tmp_path, monkeypatch):
    """A text file and a folder in a store give the classifiers that their rows give here."""
    frames = [rows_of(1500, number) for number in range(2)]
    for year, frame in enumerate(frames):
        (tmp_path / f"year={year}").mkdir()
        frame.to_parquet(tmp_path / f"year={year}" / "rows.parquet")
        bucket(f"rows/year={year}/rows.parquet", (tmp_path / f"year={year}" / "rows.parquet").read_bytes())
    bucket("rows.csv", frames[0].to_csv(index=False).encode())
    here = pd.read_csv(io.BytesIO(frames[0].to_csv(index=False).encode()))
    there = classifier().fit("s3://wards/rows.csv")
    np.testing.assert_allclose(there.predict_proba(here), classifier().fit(here).predict_proba(here), rtol=1e-12)
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000)
    a, b = (classifier().fit(TableFolder(place, max_memory=SMALL / 2)) for place in (tmp_path, "s3://wards/rows"))
    assert "tested on them" in b.notes_[-1]
    np.testing.assert_allclose(b.predict_proba("s3://wards/rows"), a.predict_proba(tmp_path), rtol=1e-9)


def test_rare_environments_are_in_the_sample(tmp_path, monkeypatch):
    """Of a site with one row in two hundred enough are read to see that a column turns there."""
    for number in range(2):
        frame = rows_of(20_000, number).assign(site="A")
        sign = np.where(np.arange(20_000) % 200 == 0, -1, 1)
        frame["site"] = np.where(sign < 0, "rare", np.where(np.arange(20_000) % 2 == 0, "A", "B"))
        frame["unstable"] = sign * frame["y"] + np.random.default_rng(number).normal(size=20_000)
        frame.to_parquet(tmp_path / f"{number}.parquet")
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 2000)
    source = TableFolder(tmp_path, max_memory=SMALL)
    options = TableOptions(label="y", environment="site")
    counts = pd.Series(read_rows(source, options).environments).value_counts()
    assert counts["rare"] == 200  # all there are
    assert 1800 < counts["A"] + counts["B"] < 2200
    assert [f.feature for f in classifier().fit(source).verdict_.columns] == ["unstable"]
    by_partition = tmp_path / "by"
    for number in range(2):
        (by_partition / f"site={number}").mkdir(parents=True)
        rows_of([100, 30_000][number]).drop(columns="site").to_parquet(by_partition / f"site={number}" / "r.parquet")
    counts = pd.Series(read_rows(TableFolder(by_partition, max_memory=SMALL), options).environments).value_counts()
    assert counts[0] == 100
    assert 1800 < counts[1] < 2200


@pytest.fixture(params=[2, 3])
def toy_folder(request, tmp_path):
    """Return a folder of the paper's toy data with noise: PI is for columns that agree with most labels."""
    for number in range(3):
        generator, n_classes = np.random.default_rng(number), request.param
        site, y = generator.integers(3, size=2000), generator.integers(n_classes, size=2000)
        wrong = (y + generator.integers(1, n_classes, size=(2, 2000))) % n_classes
        stable = np.where(generator.random(2000) < 0.8, y, wrong[0])
        unstable = np.where(generator.random(2000) < np.array([0.95, 0.9, 0.85])[site], y, wrong[1])
        columns = {
            f"{name} {k}": value == k
            for k in range(n_classes)
            for name, value in (("stable", stable), ("unstable", unstable))
        }
        noisy = {name: value + generator.normal(scale=0.1, size=2000) for name, value in columns.items()}
        frame = pd.DataFrame({"y": y, "site": np.array(["A", "B", "C"])[site], **noisy})
        frame.to_parquet(tmp_path / f"{number}.parquet", row_group_size=700)
    return tmp_path


def test_passes_over_files_interpolate_as_memory_does(toy_folder, monkeypatch):
    """PI's judges are those of all rows, and its worst-case risk is within the certified gap of the solver's."""
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 6000)
    monkeypatch.setattr(folders, "PART_ROWS", 1000)
    options = {"method": "pi", "estimator": LogisticRegression(tol=1e-9, max_iter=10_000)}
    whole = classifier(**options).fit(toy_folder).method_
    streamed = classifier(**options).fit(TableFolder(toy_folder, max_memory=SMALL)).method_
    for site, judge in whole.environment_classifiers_.items():
        np.testing.assert_allclose(streamed.environment_classifiers_[site].coef_, judge.coef_, atol=1e-4)
    np.testing.assert_allclose(streamed.accuracies_, whole.accuracies_, atol=1e-3)
    assert [group.name for group in streamed.groups_] == [group.name for group in whole.groups_]
    assert -whole.gap_ - 1e-9 <= streamed.worst_case_risk_ - whole.worst_case_risk_ <= 1e-6
    np.testing.assert_allclose(streamed.estimator_.coef_, whole.estimator_.coef_, atol=0.05)


def test_a_sample_is_enough_to_begin_interpolating(toy_folder, monkeypatch):
    """Begun with half of the rows, PI's worst-case risk is that of all rows; its halves are counted on all."""
    whole = classifier(method="pi").fit(toy_folder).method_
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 3000)
    streamed = classifier(method="pi").fit(TableFolder(toy_folder, max_memory=SMALL))
    assert "fitted on all 6,000 rows" in streamed.notes_[-1]
    assert streamed.method_.worst_case_risk_ == pytest.approx(whole.worst_case_risk_, abs=0.002)
    np.testing.assert_allclose(streamed.method_.accuracies_, whole.accuracies_, atol=0.03)
    with on_cluster("local:2"):
        elsewhere = classifier(method="pi").fit(TableFolder(toy_folder, max_memory=SMALL))
    np.testing.assert_array_equal(elsewhere.predict_proba(toy_folder), streamed.predict_proba(toy_folder))


@pytest.mark.parametrize(("method", "n_classes"), [("erm", 2), ("stable", 2), ("erm", 3)])
@pytest.mark.parametrize("booster", ["xgboost", "lightgbm"])
def test_boosters_ask_for_blocks(tmp_path, monkeypatch, booster, method, n_classes):
    """Boosters are fitted on all rows, gaps and categories as they are; LightGBM's are those of memory to the bit."""
    pytest.importorskip(booster)
    for number in range(3):
        rows_of(2000, number, n_classes).to_parquet(tmp_path / f"{number}.parquet", row_group_size=700)
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000 if method == "erm" else 6000)
    options = {"method": method, "estimator": booster}
    whole = classifier(**options).fit(tmp_path).predict_proba(tmp_path)
    source = TableFolder(tmp_path, max_memory=2 * SMALL)
    streamed = classifier(**options).fit(source)
    found = streamed.predict_proba(tmp_path)
    if booster == "xgboost":
        assert np.abs(found - whole).mean() < 0.02
    else:
        np.testing.assert_array_equal(found, whole)
    streamed.save(tmp_path / "model")
    np.testing.assert_array_equal(TableClassifier.load(tmp_path / "model").predict_proba(tmp_path), found)


@contextlib.contextmanager
def two_workers(name):
    """Start two workers of Dask or Ray, and let fits run there."""
    package = pytest.importorskip({"dask": "distributed", "ray": "ray"}[name])
    with contextlib.ExitStack() as stack:
        if name == "dask":
            started = package.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            name = stack.enter_context(started).scheduler_address
        else:
            package.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
            stack.callback(package.shutdown)
        stack.enter_context(on_cluster(name))
        yield


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray and Dask
@pytest.mark.parametrize("name", ["dask", "ray"])
def test_workers_of_a_cluster_test_columns_alike(folder, monkeypatch, name):
    """Verdict and probabilities are the same to the last bit as in this process."""
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000)
    here = classifier().fit(TableFolder(folder, max_memory=SMALL))
    with two_workers(name):
        there = classifier().fit(TableFolder(folder, max_memory=SMALL))
    assert there.verdict_.to_dict() == here.verdict_.to_dict()
    np.testing.assert_array_equal(there.predict_proba(folder), here.predict_proba(folder))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray and Dask
@pytest.mark.parametrize("name", ["dask", "ray"])
@pytest.mark.parametrize("booster", ["xgboost", "lightgbm"])
def test_workers_of_a_cluster_boost_together(tmp_path, monkeypatch, name, booster):
    """Two workers, each with its own files, build trees of all rows; this machine's memory does not count."""
    library = pytest.importorskip(booster)
    for number in range(4):
        rows_of(2000, number).to_parquet(tmp_path / f"{number}.parquet")
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 1000)

    def fit(max_memory):
        kind = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}[booster]
        model = classifier(method="erm", estimator=getattr(library, kind)(n_estimators=10, max_depth=2, n_jobs=1))
        model.fit(TableFolder(tmp_path, max_memory=max_memory))
        last = last_step(model.method_.estimator_)
        trees = (last.get_booster() if booster == "xgboost" else last.booster_).trees_to_dataframe()
        n_rows = trees["Cover" if booster == "xgboost" else "count"][0]  # of the first tree's root: a sum over rows
        if booster == "lightgbm":  # the saved text does not say where workers were
            assert not re.search(r"machines: .*\d:\d", last.booster_.model_to_string())
        return model.predict_proba(tmp_path), n_rows

    probabilities, n_rows = fit(2 * SMALL)
    with two_workers(name):
        if booster == "xgboost":
            monkeypatch.delattr("xgboost.train")  # of this process, which must not need it
        together, n_together = fit(SMALL / 100)
    assert n_together == pytest.approx(n_rows, rel=1e-4)
    assert np.abs(together - probabilities).mean() < 0.03  # bins end elsewhere


def test_workers_that_boost_wait_for_each_other(monkeypatch):
    """Each is told where all of them listen; one that waits for others in vain says so."""
    monkeypatch.setattr(boosting, "PATIENCE", 60)
    with boosting._meet_by_listener(2) as addresses, ThreadPoolExecutor(2) as threads:
        with pytest.raises(AuthenticationError, match="digest"):  # a stranger is no worker
            boosting._network(addresses[0] | {"key": b"guessed"})
        one, other = threads.map(boosting._network, addresses)
    assert one["machines"] == other["machines"]
    ports = [int(place.rpartition(":")[2]) for place in one["machines"].split(",")]
    assert sorted(ports) == sorted([one["local_listen_port"], other["local_listen_port"]])
    assert one["num_machines"] == 2
    monkeypatch.setattr(boosting, "PATIENCE", 0.1)
    with boosting._meet_by_listener(2) as addresses, pytest.raises(ClusterError, match="Other workers have not begun"):
        boosting._network(addresses[0])


@pytest.mark.parametrize(
    "options",
    [
        {"estimator": "boosting"},
        {"method": "pi", "method_options": {"halves": "soft"}},
        {"method": "pi", "estimator": "xgboost"},
        {"method": "balanced"},
        {"estimator": "weighted"},
        {"estimator": "lightgbm", "text": ("kind",)},
    ],
)
def test_what_cannot_be_streamed_says_how_much_memory_it_needs(folder, options):
    """It is refused before anything is fitted, with the memory it would need and what can be chosen."""
    if options.get("estimator") in ("xgboost", "lightgbm"):
        pytest.importorskip(options["estimator"])
    if options.get("estimator") == "weighted":
        lightgbm = pytest.importorskip("lightgbm")
        options = {"estimator": lightgbm.LGBMClassifier(class_weight="balanced")}
    expected = r"6,000 rows\. Fitting .* needs about \d+\.\d GiB.*method='stable' or 'erm' .*'xgboost'"
    with pytest.raises(TableError, match=expected):
        classifier(**options).fit(TableFolder(folder, max_memory=SMALL))


def test_boosters_need_memory_too(folder):
    """A byte of each number and some of each row have to fit; XGBoost is refused where they do not."""
    pytest.importorskip("xgboost")
    with pytest.raises(TableError, match=r"Fitting erm with xgboost on them needs about 0\.1 GiB"):
        classifier(method="erm", estimator="xgboost").fit(TableFolder(folder, max_memory=SMALL / 100))


def damage(folder):
    """Damage a file of each kind; return what is said about each."""
    rows_of(20).drop(columns="gaps").to_parquet(folder / "part-1.parquet")
    rows_of(20).astype({"stable": "float32"}).to_parquet(folder / "part-2.parquet")
    (folder / "part-3.parquet").write_bytes(b"no Parquet")
    return {
        "part-1": "has another schema than .*: it lacks the column 'gaps'",
        "part-2": "column 'stable' contains float values there and double values here",
        "part-3": "cannot be read",
    }


def test_bad_files_are_named(folder):
    """The first bad file stops; with "skip" all others are read, and a note names those that were not."""
    expected = damage(folder)
    with pytest.raises(TableError, match=r"part-1\.parquet has another schema .*'gaps'.*on_bad_file='skip'"):
        TableFolder(folder)
    source = TableFolder(folder, on_bad_file="skip")
    assert source.n_rows == 1500
    assert len(source.skipped) == 3
    for (path, reason), (name, pattern) in zip(source.skipped.items(), expected.items(), strict=True):
        assert name in path
        assert re.search(pattern, reason)
    rows = read_rows(source, TableOptions(label="y", environment="site"))
    assert rows.notes[0].startswith("3 of 4 files were skipped: ")


@pytest.mark.parametrize("on_bad_file", ["stop", "skip"])
def test_damaged_pages_are_found_while_reading(folder, on_bad_file):
    """A file whose footer is whole and whose rows are not is left out whole, or stops the fit."""
    path = folder / "part-2.parquet"
    content = bytearray(path.read_bytes())
    content[100:4000] = bytes(3900)
    path.write_bytes(content)
    source = TableFolder(folder, on_bad_file=on_bad_file)
    assert source.n_rows == 6000
    if on_bad_file == "stop":
        with pytest.raises(TableError, match=r"part-2\.parquet cannot be read"):
            source.read()
    else:
        assert len(source.read()) == 4500 == source.n_rows
        assert list(source.skipped) == [str(path)]
        assert source.notes[0].startswith("1 of 4 files were skipped: ")


@pytest.mark.slow
def test_a_bad_file_among_a_thousand(tmp_path):
    """It is named; a fit beyond the memory stops there, or does without it and says so."""
    for number in range(1000):
        rows_of(20, number).to_parquet(tmp_path / f"{number:04d}.parquet")
    (tmp_path / "0567.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(TableError, match=r"0567\.parquet .*on_bad_file='skip'"):
        TableFolder(tmp_path)
    source = TableFolder(tmp_path, on_bad_file="skip", max_memory=SMALL)
    fitted = classifier(method="erm").fit(source)
    assert source.n_rows == 19_980
    assert re.match(r"1 of 1000 files were skipped: .*0567\.parquet", fitted.notes_[0])


def test_folders_that_cannot_be_used(tmp_path):
    """A folder without files, one with bad files only, and an unknown way to treat them."""
    with pytest.raises(TableError, match=r"is a folder without .parquet or .pq files"):
        TableFolder(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(TableError, match=r"No file in .* can be read\. .*a\.parquet is empty"):
        TableFolder(tmp_path, on_bad_file="skip")
    with pytest.raises(ParameterError, match=r"on_bad_file='ignore' is unknown"):
        TableFolder(tmp_path, on_bad_file="ignore")


def test_labels_that_are_too_rare_for_a_sample(tmp_path, monkeypatch):
    """A class that the sample misses is named with its file."""
    frame = rows_of(3000)
    frame.to_parquet(tmp_path / "0.parquet")
    frame.assign(y=[7] + frame["y"].tolist()[1:]).to_parquet(tmp_path / "1.parquet")
    monkeypatch.setattr(folders, "SAMPLE_ROWS", 300)
    with pytest.raises(TableError, match=r"1\.parquet: 'y' contains '7', which is too rare"):
        classifier(method="erm").fit(TableFolder(tmp_path, max_memory=SMALL))
