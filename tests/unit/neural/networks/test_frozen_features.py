"""Features of a frozen backbone as the first step of a Pipeline."""

import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn
from torch.utils.data import Dataset

from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import FeaturesError, SavedModelError, UntrustedFileError
from holdfast.neural.estimator import NeuralClassifier
from holdfast.neural.networks.pretrained import FrozenFeatures
from holdfast.saving import load, save

N = 120
GENERATOR = np.random.default_rng(0)
Y = GENERATOR.integers(2, size=N)
SITES = np.repeat(["north", "south"], N // 2)
IMAGES = GENERATOR.integers(0, 200, size=(N, 1, 4, 4), dtype=np.uint8)
IMAGES[:, 0, 0] += (40 * Y[:, None]).astype(np.uint8)
IMAGES[:, 0, 1] += (np.where(SITES == "north", 50, 10) * Y)[:, None].astype(np.uint8)


class Backbone(nn.Module):
    """Counts the rows that it sees."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.n_seen = nn.Linear(16, 6), 0

    def forward(self, images):
        """Return features."""
        self.n_seen += len(images)
        return self.layer(images.flatten(1))


class Pictures(Dataset):
    """Items with labels and sites."""

    def __len__(self):
        return N

    def __getitem__(self, row):
        return IMAGES[row], int(Y[row]), SITES[row]


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_every_row_is_computed_once_in_all_three_stages():
    """Judges, folds and the final classifier share features: the backbone sees each row of an array or Dataset once."""
    for rows, beside in ((IMAGES, {"y": Y, "environments": SITES}), (Pictures(), {})):
        backbone = Backbone()
        model = PIClassifier(make_pipeline(FrozenFeatures(backbone), LogisticRegression())).fit(rows, **beside)
        assert backbone.n_seen == N
        model.predict(rows)
        assert backbone.n_seen == N
        with torch.no_grad():
            features = backbone(torch.from_numpy(IMAGES / 255).float()).numpy()
        expected = PIClassifier(make_pipeline(LogisticRegression())).fit(features, Y, environments=SITES)
        assert model.predict_proba(rows) == pytest.approx(expected.predict_proba(features), abs=1e-4)


def test_a_network_on_top_of_frozen_features():
    """The last step may be a network; transformers are fitted on all rows."""
    backbone, pictures = Backbone(), Pictures()
    network = NeuralClassifier("linear", max_epochs=1, steps_per_epoch=5, random_state=0)
    pipeline = make_pipeline(FrozenFeatures(backbone), network)
    model = PIClassifier(pipeline, random_state=0, min_group_size=1).fit(pictures)
    assert model.predict(pictures).shape == (N,)
    assert backbone.n_seen == N


def test_what_is_kept_depends_on_transform_and_content():
    """Another transform is computed anew; equal rows are not; no more than n_kept rows stay."""
    backbone = Backbone()
    step = FrozenFeatures(backbone, n_kept=3).fit(None)
    step.transform(IMAGES[[0, 0, 1]])
    assert backbone.n_seen == 3
    step.transform(IMAGES[[1, 0]])
    assert backbone.n_seen == 3
    other = clone(step).set_params(row_transform=lambda image: 255 - image).fit(None)
    assert other.network is backbone
    assert not np.allclose(other.transform(IMAGES[:1]), step.transform(IMAGES[:1]))
    step.transform(IMAGES[5:10])
    seen = backbone.n_seen
    step.transform(IMAGES[5:7])
    assert backbone.n_seen == seen + 2


class Answer:
    """An answer of Hugging Face's kind."""

    def __init__(self, **values):
        vars(self).update(values)


class Words(nn.Module):
    """Gives what the test asks for."""

    def __init__(self, make):
        super().__init__()
        self.make, self.layer = make, nn.Linear(1, 1)

    def forward(self, input_ids, attention_mask):
        """Return an answer."""
        return self.make(input_ids.float().unsqueeze(-1))


def test_pooling_of_answers():
    """The pooled output, else the mean over the tokens that the mask has, else what pooling says, else an error."""
    rows = {"input_ids": [[2, 4], [6]], "attention_mask": [[1, 1], [1]]}

    def features(make, **options):
        return FrozenFeatures(Words(make), **options).fit(rows).transform(rows).tolist()

    assert features(lambda t: Answer(last_hidden_state=t)) == [[3.0], [6.0]]
    assert features(lambda t: Answer(last_hidden_state=t, pooler_output=t[:, 0])) == [[2.0], [6.0]]
    assert features(lambda t: Answer(own=t), pooling=lambda answer, inputs: answer.own[:, 0] * 2) == [[4.0], [12.0]]
    with pytest.raises(FeaturesError, match="The backbone returned Answer, whose features are not known"):
        features(lambda t: Answer(own=t))


def test_saving_needs_a_function_and_loading_its_name(tmp_path, monkeypatch):
    """The backbone's weights are saved; the function that builds it is trusted by name."""
    (tmp_path / "backbones_of_a_user.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(16, 6))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import backbones_of_a_user

    model = make_pipeline(FrozenFeatures(backbones_of_a_user.build), LogisticRegression()).fit(IMAGES, Y)
    save(model, tmp_path / "model")
    with pytest.raises(UntrustedFileError, match=r"trust=\['backbones_of_a_user.build'\]"):
        load(tmp_path / "model")
    loaded = load(tmp_path / "model", trust=["backbones_of_a_user.build"])
    assert loaded.predict_proba(IMAGES).tolist() == model.predict_proba(IMAGES).tolist()
    with pytest.raises(SavedModelError, match="FrozenFeatures has an instance of Backbone"):
        save(make_pipeline(FrozenFeatures(Backbone()), LogisticRegression()).fit(IMAGES, Y), tmp_path / "other")
    sys.modules.pop("backbones_of_a_user")
