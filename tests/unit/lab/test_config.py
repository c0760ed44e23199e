"""What a run is, and its identity."""

import pytest
from pydantic import ValidationError

from holdfast.exceptions import ConfigError
from holdfast.lab.config import parse_run

TOY = {"dataset": "toy", "method": "erm"}


def test_identity_is_that_of_the_settings():
    """Order and spelled-out defaults do not matter, every other value does; the name of a run never changes."""
    run = parse_run(TOY)
    assert run.identity == parse_run({"method": "erm", "dataset": "toy", "learning_rate": 0.001, "seed": 0}).identity
    assert len(run.identity) == 20
    assert len({run.identity, run.changed(seed=1).identity, run.changed(dropout=0.3).identity}) == 3
    nested = parse_run({**TOY, "dataset_options": {"etas": [0.0, 0.1]}})
    assert nested.changed(seed=0).identity == nested.identity


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
