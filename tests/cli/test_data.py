def test_data_lists_and_explains(holdfast, tmp_path):
    """Without a name all data sets are listed; with one its files are named, with the folder written in."""
    listed = holdfast("data", "--json").json["datasets"]
    assert {"colored_mnist", "beer", "celeba", "ask2me", "adult", "table", "vectors"} <= {row["name"] for row in listed}
    assert {row["name"] for row in listed if row["download"]} == {"colored_mnist", "vectors"}
    outcome = holdfast("data", "adult", "--folder", tmp_path)
    assert outcome.code == 0
    assert outcome.out.startswith(f"In {tmp_path} or {tmp_path}/adult, plain or gzip (.gz)")
    shown = holdfast("data", "colored_mnist", "--folder", tmp_path, "--show")
    assert "train-images-idx3-ubyte" in shown.out
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_data_set_is_one_line(holdfast):
    """A close name is suggested."""
    outcome = holdfast("data", "celebra")
    assert outcome.code == 2
    assert outcome.err.startswith("error: There is no data set 'celebra'; did you mean 'celeba'?")
