"""Which files are there: absent ones are a gap, damaged ones a failure."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.datasets.synthetic import make_files
from holdfast.lab import paper
from holdfast.lab.experiments import read_experiment
from holdfast.lab.targets import TARGETS
from holdfast.lab.targets.sources import Options, find_missing, make_run

DATA = os.environ.get("HOLDFAST_TEST_DATA")


def write_official_celeba(folder):
    """Write twelve 20x16 images with the official lists: four rows of each split, all four cells of blond × male."""
    images = folder / "celeba" / "img_align_celeba"
    images.mkdir(parents=True)
    names = [f"{number:06d}.jpg" for number in range(1, 13)]
    for name in names:
        Image.new("RGB", (16, 20)).save(images / name)
    cells = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    rows = [f"{name} {cells[i % 4][0]} {cells[i % 4][1]} 1" for i, name in enumerate(names)]
    (images.parent / "list_attr_celeba.txt").write_text("\n".join(["12", "Blond_Hair Male Young", *rows]) + "\n")
    splits = [f"{name} {i // 4}" for i, name in enumerate(names)]
    (images.parent / "list_eval_partition.txt").write_text("\n".join(splits) + "\n")
    return folder


@pytest.fixture
def beer(tmp_path):
    """Return a data folder with synthetic reviews of look and their vectors."""
    make_files("beer", tmp_path / "beer_look")
    (tmp_path / "beer_look" / "vectors.npz").rename(tmp_path / "vectors.npz")
    return tmp_path


def test_vectors_are_found_by_name_and_content(tmp_path):
    """CelebA's table is no vectors, GloVe's text file is, and FastText's is taken before it."""
    make_files("beer", tmp_path / "beer_look")
    (tmp_path / "beer_look" / "vectors.npz").unlink()
    np.savez(tmp_path / "attrs.npz", attrs=np.zeros((1, 1)), attr_names=np.array(["Male"]))
    (tmp_path / "other-1.0-py3-none-any.whl").touch()
    options = Options(tmp_path)
    assert "There are no vectors" in find_missing("beer_look", options).reason
    for name in ("kept.npz", "glove.6B.50d.txt", "wiki.en.vec"):
        if name.endswith(".npz"):
            np.savez(tmp_path / name, words=np.array(["a"]), vectors=np.zeros((1, 2)))
        else:
            (tmp_path / name).write_text("a 0 0\n")
        assert make_run("beer_look", "erm", options).vectors == name


@pytest.mark.parametrize("key", ["mnist", "beer_look", "ask2me", "celeba"])
def test_an_empty_folder_is_a_gap(key, tmp_path):
    """Nothing is damaged where nothing is."""
    assert not find_missing(key, Options(tmp_path)).is_damaged


def test_weights_and_vectors_are_named_at_once(tmp_path):
    """Whoever gets the images also gets to know which weights they need, and where; likewise texts and vectors."""
    needs = find_missing("celeba", Options(tmp_path)).needs
    assert "list_attr_celeba.txt" in needs
    assert "mobilenet_v2-b0353104.pth" in needs
    assert f"{tmp_path}/weights" in needs
    assert "wiki.en.vec" in find_missing("ask2me", Options(tmp_path)).needs


def test_a_damaged_file_is_a_failure(beer):
    """A bad line is told as the loader tells it; it does not count as an absent file."""
    assert find_missing("beer_look", Options(beer)) is None
    (beer / "beer_look" / "dev.tsv").write_text("label\tcomment\nmaybe\tnice\n")
    found = find_missing("beer_look", Options(beer))
    assert found.is_damaged
    path = beer / "beer_look" / "dev.tsv"
    assert found.reason == f"{path}, line 2: label must be 0 or 1. Got 'maybe'. Correct the line."


def test_whatever_a_loader_dies_of_the_others_go_on(beer, monkeypatch):
    """An error that nobody foresaw is named and fails its own data set alone."""
    from holdfast.datasets import load_dataset

    def load(name, **options):
        if name == "colored_mnist":
            raise RuntimeError("odd\nthing")
        return load_dataset(name, **options)

    monkeypatch.setattr("holdfast.lab.targets.sources.load_dataset", load)
    plan = TARGETS["table2"].plan(Options(beer, n_seeds=1))
    assert [run.name for run in plan.runs] == ["beer_look"]
    lacks = {lack.dataset: (lack.is_damaged, lack.reason) for lack in plan.missing}
    assert lacks["mnist"] == (True, "RuntimeError: odd thing")
    assert [name for name, (is_damaged, _) in lacks.items() if not is_damaged] == ["beer_aroma", "beer_palate"]


def test_whole_networks_are_trained_resnet_first(tmp_path):
    """ResNet-50 as a whole at the authors' learning rate; MobileNetV2 where it is alone; small: frozen features."""
    (tmp_path / "weights").mkdir()
    for file, network in (("mobilenet_v2-b0353104.pth", "mobilenet_v2"), ("resnet50-11ad3fa6.pth", "resnet50")):
        (tmp_path / "weights" / file).touch()
        run = make_run("celeba", "erm", Options(tmp_path))
        assert (run.estimator, run.backbone, run.weights) == (network, None, f"weights/{file}")
        assert (run.learning_rate, run.weight_decay) == (1e-5, 1e-3)
    small = make_run("celeba", "erm", Options(tmp_path, small=True))
    assert (small.estimator, small.backbone, small.learning_rate) == ("linear", "mobilenet_v2", 1e-3)


def test_table4_on_the_official_layout_is_planned_with_whole_networks(tmp_path):
    """The official files and ResNet-50's weights: five methods, each a whole network with the authors' settings."""
    folder = write_official_celeba(tmp_path)
    (tmp_path / "resnet50-0676ba61.pth").touch()
    plan = TARGETS["table4"].plan(Options(folder, n_seeds=1))
    assert plan.missing == ()
    found = {run.config.method: run.config for run in plan.runs}
    assert set(found) == set(paper.AUTHORS["celeba"])
    for method, settings in paper.AUTHORS["celeba"].items():
        config = found[method]
        assert (config.estimator, config.weights, config.backbone) == ("resnet50", "resnet50-0676ba61.pth", None)
        assert (config.learning_rate, config.weight_decay) == (settings["learning_rate"], settings["weight_decay"])
        assert config.selection == "worst_group_validation"


@pytest.mark.parametrize(("key", "dataset"), [("ask2me", "ask2me"), ("celeba", "celeba")])
def test_records_of_other_networks_are_not_those_of_a_target(key, dataset):
    """A run without vectors or features, as a sweep may make it, counts as not recorded."""
    options = Options(recorded=({"config": {"dataset": dataset, "method": "erm"}},))
    assert find_missing(key, options).reason == "the file has no record of a run on it with this target's settings"


@pytest.mark.skipif(DATA is None, reason="HOLDFAST_TEST_DATA is not set")
def test_what_is_there_is_found():
    """MNIST and beer look can be loaded, aroma and ASK2ME are missing and say what they need."""
    options = Options(Path(DATA))
    assert find_missing("mnist", options) is None
    assert find_missing("beer_look", options) is None
    assert find_missing("celeba", options) is None
    assert "art_aspect_1_env_0.json" in find_missing("beer_aroma", options).reason
    assert "pubmed.json" in find_missing("ask2me", options).needs
    assert json.dumps(make_run("beer_look", "pi", options).as_dict())


def test_the_experiment_file_of_resnet50_is_table4(tmp_path):
    """experiments/celeba-resnet50.toml has the runs that table4 makes where the weights are in their folder."""
    folder = write_official_celeba(tmp_path)
    (folder / "weights").mkdir()
    (folder / "weights" / "resnet50-0676ba61.pth").touch()
    planned = TARGETS["table4"].plan(Options(folder))
    file = Path(__file__).resolve().parents[4] / "experiments" / "celeba-resnet50.toml"
    runs = read_experiment(file).runs
    assert {run.config.identity for run in runs} == {run.config.identity for run in planned.runs}
