import numpy as np
import pytest


def test_a_saved_classifier_becomes_an_onnx_file(holdfast, hospitals, tmp_path):
    """The command writes the file and says how far its answers differ."""
    pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    file = tmp_path / "model.onnx"
    command = ("export", hospitals.folder / "pi", "--onnx", file, "--table", hospitals.test, "--json")
    result = holdfast(*command).json
    assert result["bytes"] == file.stat().st_size
    assert result["largest_difference"] < 1e-9


def test_the_file_has_to_be_an_onnx_file(holdfast, hospitals, tmp_path):
    """Another suffix is refused before any work."""
    options = ("--onnx", tmp_path / "model.txt", "--table", hospitals.test)
    outcome = holdfast("export", hospitals.folder / "pi", *options)
    assert outcome.code == 2
    assert "Use one of .onnx" in outcome.err


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_network_outside_of_a_table_needs_its_rows_as_arrays(holdfast, tmp_path):
    """The command takes what `save` wrote; a table in place of arrays is refused."""
    pytest.importorskip("onnxscript")
    from holdfast import save
    from holdfast.neural import NeuralClassifier

    X = np.random.default_rng(0).normal(size=(60, 3))
    save(NeuralClassifier(max_epochs=2, random_state=0).fit(X, X[:, 0] > 0), tmp_path / "net")
    np.save(tmp_path / "rows.npy", X)
    command = ("export", tmp_path / "net", "--onnx", tmp_path / "net.onnx", "--table")
    assert holdfast(*command, tmp_path / "rows.npy", "--json").json["largest_difference"] < 1e-5
    (tmp_path / "rows.csv").write_text("a,b,c\n1,2,3\n")
    outcome = holdfast(*command, tmp_path / "rows.csv", "--overwrite")
    assert outcome.code == 2
    assert "needs its rows as a .npy file, or as a .npz file" in outcome.err
