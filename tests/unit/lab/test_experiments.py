"""What a run is and its identity; experiment files and their grids."""

import hashlib
import itertools
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.exceptions import ConfigError
from holdfast.lab.experiments import parse_experiment, parse_run, read_experiment
from holdfast.saving.json_files import canonical_json

TOY = {"dataset": "toy", "method": "erm"}


def test_identity_is_that_of_the_settings():
    """Order and spelled-out defaults do not matter, every other value does; the name of a run never changes."""
    run = parse_run(TOY)
    assert run.identity == parse_run({"method": "erm", "dataset": "toy", "learning_rate": 0.001, "seed": 0}).identity
    assert len(run.identity) == 20
    assert len({run.identity, run.changed(seed=1).identity, run.changed(dropout=0.3).identity}) == 3
    nested = parse_run({**TOY, "dataset_options": {"etas": [0.0, 0.1]}})
    assert nested.changed(seed=0).identity == nested.identity


def test_editions_of_data_set_and_method_change_the_identity():
    """Runs on rows that were cut in another way, or of heads of another form, are not used again."""

    def first_edition(run):
        return hashlib.sha256(canonical_json({"format": 1, **run.as_dict()})).hexdigest()[:20]

    runs = [
        parse_run({"dataset": data, "method": method})
        for data, method in itertools.product(("toy", "colored_mnist"), ("erm", "rgm"))
    ]
    assert [run.identity == first_edition(run) for run in runs] == [True, False, False, False]
    halves = parse_run({"dataset": "colored_mnist", "method": "halves"})
    assert halves.identity != first_edition(halves)


def test_rounds_of_halving_are_longer_than_the_warm_up():
    """Ten epochs of 100 steps end with a warm-up of 1,000 steps: they are refused, eleven are not."""
    method = {"method": "irm", "warm_up": [10, 1000], "penalty_weight": 10.0}
    content = {"run": {"dataset": "toy"}, "methods": [method], "search": {"sampler": "halving", "epochs": [10, 30]}}
    message = r"epochs = \[10, 30\]: 10 epochs are 1,000 steps, but points of irm have a warm_up of 1,000.*at least 11"
    with pytest.raises(ConfigError, match=message):
        parse_experiment(content)
    parse_experiment({**content, "search": {"sampler": "halving", "epochs": [11, 30]}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learnin_rate": 1}, "The run has an unknown key 'learnin_rate'. Did you mean 'learning_rate'\\?"),
        ({"method": "pie"}, "there is no method 'pie'. Did you mean 'pi'\\?"),
        ({"dataset": "colored_mnits"}, "there is no dataset 'colored_mnits'. Did you mean 'colored_mnist'\\?"),
        ({"dropout": 1.0}, "'dropout' that cannot be used: .*less than 1. Got 1.0"),
        ({"validations": ["tset"]}, "validations must name 'train', 'test' or both"),
        ({"selection": "best"}, "'selection' that cannot be used"),
    ],
)
def test_bad_settings_are_named(change, message):
    """An unknown key or value is one sentence that names it and, where one is close, what was meant."""
    with pytest.raises(ConfigError, match=message):
        parse_run({**TOY, **change})


def test_a_missing_key_is_named():
    """A run needs a data set and a method."""
    with pytest.raises(ConfigError, match="The run lacks the key 'method'. Add it."):
        parse_run({"dataset": "toy"})


def test_a_run_does_not_change():
    """Settings are frozen."""
    with pytest.raises(ValidationError, match="frozen"):
        parse_run(TOY).seed = 3


FILES = sorted((Path(__file__).parents[3] / "experiments").glob("*.toml"))
RUN = {"dataset": "toy"}
ERM = {"name": "ERM", "method": "erm", "learning_rate": [1e-3, 1e-4, 1e-5], "weight_decay": [1.0, 0.1, 0.01, 0.001]}
IRM = {**ERM, "name": "IRM", "method": "irm", "warm_up": [10, 100, 1000]}
IRM["penalty_weight"] = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]


def count(experiment):
    """Return the number of runs of each method."""
    names = [run.name for run in experiment.runs]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_the_papers_budget_gives_penalties_a_search_21_times_larger():
    """Lists are grids, all seeds each; with an equal budget every method has the points of the smallest grid."""
    content = {"name": "x", "seeds": [0, 1], "run": RUN, "methods": [ERM, IRM]}
    assert count(parse_experiment(content)) == {"ERM": 24, "IRM": 24 * 21}
    equal = parse_experiment({**content, "budget": "equal"})
    assert count(equal) == {"ERM": 24, "IRM": 24}
    assert equal == parse_experiment({**content, "budget": "equal"})
    everything = {run.config.identity for run in parse_experiment(content).runs}
    assert {run.config.identity for run in equal.runs} < everything


def test_an_equal_budget_is_drawn_evenly():
    """Each combination of the settings that all methods vary comes once, and no combination of the others twice."""
    equal = parse_experiment({"run": RUN, "methods": [ERM, IRM], "budget": "equal"})
    shared, further = (
        [tuple(getattr(run.config, key) for key in keys) for run in equal.runs if run.name == "IRM"]
        for keys in (("learning_rate", "weight_decay"), ("penalty_weight", "warm_up"))
    )
    assert sorted(shared) == sorted((run.config.learning_rate, run.config.weight_decay) for run in equal.runs[:12])
    assert len(set(shared)) == len(set(further)) == 12


def test_equal_runs_are_one():
    """Two methods with the same settings are the same run, under the first name."""
    experiment = parse_experiment({"run": RUN, "methods": [{"method": "erm"}, {"name": "again", "method": "erm"}]})
    assert [run.name for run in experiment.runs] == ["erm"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"sedes": [0]}, "The experiment has an unknown key 'sedes'. Did you mean 'seeds'\\?"),
        ({"run": {"dataset": "toy", "droput": 0.1}}, r"\[run\] has an unknown key 'droput'. Did you mean 'dropout'\?"),
        ({"methods": [{"method": "erm", "lr": 1}]}, r"\[\[methods\]\] 1 has an unknown key 'lr'. Choose from"),
        ({"methods": []}, "has no method"),
        ({"seeds": [0, 0]}, "has seeds = .0, 0.. Give a list of different integers"),
        ({"seeds": [[0, 1]]}, "Give a list of different integers"),
        ({"run": {**RUN, "learning_rate": []}}, r"1 has learning_rate = \[\], a grid without points"),
        ({"methods": [{"method": "pi"}, {"method": "pi", "estimator": "linear"}]}, "several .* called 'pi'.* a name"),
        (
            {"run": {**RUN, "backbone": "mobilenet_v2"}},
            "features of an untrained network mean nothing. Give the",
        ),
        ({"run": {**RUN, "weights": "w.pth"}}, "has weights = 'w.pth', but .* starts from none. Use the estimator mob"),
        ({"budget": "huge"}, "has budget = 'huge'. Use one of"),
        ({"methods": [{"method": "erm", "seed": 1}]}, "has a seed of its own"),
    ],
)
def test_mistakes_are_named(content, message):
    """Every mistake in an experiment is one error that says where it is."""
    with pytest.raises(ConfigError, match=message):
        parse_experiment({"run": RUN, "methods": [{"method": "erm"}], **content})


def test_files_that_cannot_be_read(tmp_path):
    """A missing file and one that is no TOML are refused by name."""
    with pytest.raises(ConfigError, match="none.toml does not exist"):
        read_experiment(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(ConfigError, match="bad.toml cannot be read as TOML"):
        read_experiment(tmp_path / "bad.toml")


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_files_that_we_ship_are_valid(path):
    """Every experiment file of the project can be expanded."""
    assert len(read_experiment(path).runs) > 0


def experiment(**settings):
    """Return an experiment of one method with these settings."""
    return {"methods": [{"dataset": "toy", "method": "pi", **settings}]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset_options": {"eta": [0.9]}}, r"dataset_options has an unknown key 'eta'. Did you mean 'etas'\?"),
        (
            {"method_options": {"halfs": "soft"}},
            r"method_options of pi has an unknown key 'halfs'. Did you mean 'halves'",
        ),
        ({"estimator": "cnnn"}, r"has estimator = 'cnnn'. Did you mean 'cnn'"),
        ({"backbone": "resnet", "weights": "w.pth"}, r"has backbone = 'resnet'. Did you mean 'resnet50'"),
        ({"estimator": "forest", "estimator_options": {"depth": 2}}, r"estimator_options of forest has an unknown key"),
        ({"estimator": "cnn", "estimator_options": {"shft": 2}}, r"estimator_options of cnn has an unknown key 'shft'"),
    ],
)
def test_names_are_checked_before_anything_runs(settings, message):
    """What no run could use is one error about the file, not a failure of every run of the grid."""
    with pytest.raises(ConfigError, match=message):
        parse_experiment(experiment(**settings))


def test_a_list_of_options_is_a_grid():
    """Every table of a list is a point; a list inside of a table is a value."""
    found = parse_experiment(experiment(dataset_options=[{"etas": [0.1, 0.2]}, {"noise": 0.2}])).runs
    assert [run.config.dataset_options for run in found] == [{"etas": [0.1, 0.2]}, {"noise": 0.2}]


def test_known_names_pass():
    """Options of the data set, the method and the network are found by name."""
    settings = {"dataset_options": {"etas": [0.1, 0.2]}, "method_options": {"halves": "soft"}}
    assert len(parse_experiment(experiment(**settings, estimator_options={"hidden": 8})).runs) == 1
