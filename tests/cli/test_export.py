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
