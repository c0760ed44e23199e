import pytest

from holdfast.exceptions import ConfigError
from holdfast.lab.grids import parse_experiment


def experiment(**settings):
    """Return an experiment of one method with these settings."""
    return {"methods": [{"dataset": "toy", "method": "pi", **settings}]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset_options": {"eta": [0.9]}}, r"dataset_options has an unknown key 'eta'; did you mean 'etas'\?"),
        (
            {"method_options": {"halfs": "soft"}},
            r"method_options of pi has an unknown key 'halfs'; did you mean 'halves'",
        ),
        ({"estimator": "cnnn"}, r"has estimator = 'cnnn'. Known are logistic, boosting, forest, extra_trees,"),
        ({"backbone": "resnet", "weights": "w.pth"}, r"has backbone = 'resnet'. Known are cnn"),
        ({"estimator": "forest", "estimator_options": {"depth": 2}}, r"estimator_options of forest has an unknown key"),
        ({"estimator": "cnn", "estimator_options": {"shft": 2}}, r"estimator_options of cnn has an unknown key 'shft'"),
    ],
)
def test_names_are_checked_before_anything_runs(settings, message):
    """What no run could use is one error about the file, not a failure of every run of the grid."""
    with pytest.raises(ConfigError, match=message):
        parse_experiment(experiment(**settings))


def test_known_names_pass():
    """Options of the data set, the method and the network are found by name."""
    settings = {"dataset_options": {"etas": [0.1, 0.2]}, "method_options": {"halves": "soft"}}
    assert len(parse_experiment(experiment(**settings, estimator_options={"hidden": 8})).runs) == 1
