"""Tables from compact records: what a file must hold."""

import json

import pytest

from holdfast.exceptions import ConfigError, DatasetError
from holdfast.lab.reproduction import compare_recorded, plan_target
from holdfast.lab.targets.sources import Options


def write(path, *configs, **changes):
    """Write a record for each configuration."""
    lines = [
        {"identity": str(number), "config": config, "data": {"notes": []}, "settings": {}, "seconds": 1.0, **changes}
        for number, config in enumerate(configs)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("dataset", ["ask2me", "celeba", "toy"])
@pytest.mark.parametrize("target", ["table3", "table4", "correlations"])
def test_records_of_other_runs_are_one_clear_error(target, dataset, tmp_path):
    """Records without vectors or a backbone, or of another data set, are not taken for the target's."""
    path = write(tmp_path / "other.jsonl", {"dataset": dataset, "method": "erm", "seed": 10**9})
    with pytest.raises(ConfigError, match=rf"other.jsonl holds no run of {target}: its 1 records are of {dataset}"):
        compare_recorded(target, path)


def test_quick_and_full_records_are_not_mixed(tmp_path):
    """Synthetic data never stand in the same mean as real ones."""
    path = write(tmp_path / "mixed.jsonl", {"dataset": "ask2me", "synthetic": True}, {"dataset": "ask2me"})
    with pytest.raises(ConfigError, match=r"mixes 1 quick runs on synthetic data with 1 others. Use one file"):
        compare_recorded("table3", path)


@pytest.mark.parametrize("changes", [{"config": {}}, {"data": None}, {"seconds": "long"}, {"settings": []}])
def test_lines_that_are_no_records_are_refused(changes, tmp_path):
    """JSON lines of something else are named by their file."""
    path = write(tmp_path / "lines.jsonl", {"dataset": "toy"}, **changes)
    with pytest.raises(ConfigError, match=r"lines.jsonl does not hold records as JSON lines \(no records\)"):
        compare_recorded("toy", path)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    """A mistyped folder is not taken for one without files."""
    with pytest.raises(DatasetError, match=r"nowhere does not exist. Pass the folder that holds the data set's files"):
        plan_target("table2", Options(tmp_path / "nowhere"), lambda identity: False)
