import pandas as pd


def test_every_row_and_judge(holdfast, hospitals, tmp_path):
    """Each judge's verdicts on the other environments are written; its own rows stay empty."""
    out = tmp_path / "halves.csv"
    drop = ("--drop", "note", "--drop", "visit")
    result = holdfast("partition", hospitals.train, *hospitals.fit_options, *drop, "--out", out, "--json").json
    verdicts = pd.read_csv(out)
    assert list(verdicts.columns) == ["row", "label", "environment", "correct_by_Boston", "correct_by_Chicago"]
    assert verdicts["row"].tolist() == list(range(400))
    table = pd.read_csv(hospitals.train)
    assert verdicts["label"].tolist() == table["diagnosis"].tolist()
    boston = verdicts["environment"] == "Boston"
    assert verdicts.loc[boston, "correct_by_Boston"].isna().all()
    assert verdicts.loc[~boston, "correct_by_Boston"].notna().all()
    for partition in result["partitions"]:
        rows = verdicts[verdicts["environment"] == partition["judged"]]
        right = rows[f"correct_by_{partition['judge']}"].astype(bool)
        assert right.sum() == partition["n_correct"]
        assert (~right).sum() == partition["n_mistaken"]
        # The judge leans on the scanner: it agrees with the label among correct rows, and not among mistaken ones.
        agrees = (table.loc[rows.index, "scanner"] == "B") == (rows["label"] == "ill")
        assert agrees[right].mean() > 0.8
        assert agrees[~right].mean() < 0.3


def test_text_fits_80_columns(holdfast, hospitals, tmp_path):
    """The summary has environments, judges and partitions, and no third stage."""
    outcome = holdfast(
        "partition", hospitals.train, *hospitals.fit_options, "--drop", "note", "--out", tmp_path / "h.tsv"
    )
    assert outcome.code == 0
    assert max(len(line) for line in outcome.out.splitlines() if "/" not in line) <= 80
    assert "Stage 2: partitions, lowest accuracy first" in outcome.out
    assert "Stage 3" not in outcome.out


def test_one_environment_has_no_judges(holdfast, hospitals, tmp_path):
    """There is nobody to judge."""
    pd.read_csv(hospitals.train).query("site == 'Boston'").to_csv(tmp_path / "t.csv", index=False)
    outcome = holdfast("partition", tmp_path / "t.csv", *hospitals.fit_options, "--out", tmp_path / "h.csv")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith(
        "error: Column 'site' has only one value, so there are no other rows to judge. "
        "Pass rows of at least two sites.\n"
    )
