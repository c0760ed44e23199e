"""Dicts of arrays and Datasets as rows of networks."""

import random

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from holdfast.estimators.erm import ERMClassifier
from holdfast.estimators.group_dro import GroupDROClassifier
from holdfast.estimators.pi import PIClassifier
from holdfast.estimators.stable import StableClassifier
from holdfast.exceptions import FeaturesError, InputTypeError, LabelsError, ParameterError
from holdfast.neural.estimator import NeuralClassifier, NeuralRegressor
from holdfast.neural.sources import ItemRows, ItemSource, collate, read_items

FAST = {"max_epochs": 2, "steps_per_epoch": 20, "learning_rate": 0.05, "random_state": 0}
GENERATOR = np.random.default_rng(0)
N = 120
Y = GENERATOR.integers(2, size=N)
X = GENERATOR.normal(size=(N, 3)).astype(np.float32)
X[:, 0] += 1.5 * Y
# The second column agrees with the label more often in the north than in the south.
SITES = np.repeat(["north", "south"], N // 2)
X[:, 1] += np.where(SITES == "north", 1.5, -0.5) * Y
TOKENS = [GENERATOR.integers(2, 10, size=size) for size in GENERATOR.integers(2, 6, size=N)]
for _tokens, _label in zip(TOKENS, Y, strict=True):
    _tokens[0] = 10 + (_label if GENERATOR.random() < 0.85 else 1 - _label)


class Items(Dataset):
    """Items made by a function of the row number; counts how often they are read."""

    def __init__(self, make, n=N):
        self.make, self.n, self.n_read = make, n, 0

    def __len__(self):
        return self.n

    def __getitem__(self, number):
        self.n_read += 1
        return self.make(number)


class Words(nn.Module):
    """The mean vector of the words, then one output or several; the mask says which are words."""

    def __init__(self, n_outputs=2):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(12, 6)
        self.last = nn.Linear(6, n_outputs)

    def forward(self, input_ids, attention_mask):
        """Return the logits."""
        mask = attention_mask.unsqueeze(-1).float()
        return self.last((self.words(input_ids) * mask).sum(1) / mask.sum(1))


def tokenized(number):
    """Return an item as a tokenizer gives it, with label and environment."""
    ids = TOKENS[number].tolist()
    return {
        "input_ids": ids,
        "attention_mask": [1] * len(ids),
        "labels": int(Y[number]),
        "environment": SITES[number],
    }


DATASETS = {
    "pairs": (Items(lambda i: (X[i], Y[i])), {"environments": SITES}),
    "triples": (Items(lambda i: (torch.from_numpy(X[i]), torch.tensor(Y[i]), SITES[i])), {}),
    "inputs alone": (Items(lambda i: X[i]), {"y": Y, "environments": SITES}),
    "tensors": (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), {"environments": SITES}),
    "subset": (Subset(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), range(N)), {"environments": SITES}),
}


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_trains_like_the_array_inside_it(name):
    """Every kind of item gives the classifier of the array, with labels and environments from items or beside them."""
    dataset, beside = DATASETS[name]
    network = NeuralClassifier(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)), **FAST)
    expected = PIClassifier(network, random_state=0).fit(X, Y, environments=SITES)
    found = PIClassifier(network, random_state=0).fit(dataset, **beside)
    assert found.predict_proba(dataset) == pytest.approx(expected.predict_proba(X), abs=1e-6)
    assert found.environments_.tolist() == ["north", "south"]
    assert [p.mistaken.tolist() for p in found.partitions_] == [p.mistaken.tolist() for p in expected.partitions_]


def test_dicts_go_through_all_three_stages():
    """Token lists of different lengths, as a dict, as items of a Dataset and padded, train to the same classifier."""
    lists = {
        "input_ids": [tokens.tolist() for tokens in TOKENS],
        "attention_mask": [[1] * len(tokens) for tokens in TOKENS],
    }
    padded = {name: np.array([row + [0] * (5 - len(row)) for row in rows]) for name, rows in lists.items()}
    method = PIClassifier(NeuralClassifier(Words(), **FAST), random_state=0)
    expected = method.fit(Items(tokenized)).predict_proba(Items(tokenized))
    for rows in (lists, padded, {name: torch.from_numpy(values) for name, values in padded.items()}):
        labeled = {**rows, "labels": Y, "environment": SITES}
        assert method.fit(labeled).predict_proba(labeled) == pytest.approx(expected, abs=1e-6)
        assert method.fit(rows, Y, environments=SITES).predict_proba(rows) == pytest.approx(expected, abs=1e-6)
    assert method.estimator_.input_shape_ == {"input_ids": (5,), "attention_mask": (5,)}


@pytest.mark.filterwarnings("ignore:PIClassifier costs")
def test_every_method_takes_a_dataset_and_validation_may_be_one():
    """ERM, Group DRO with its groups and soft halves read items; a validation Dataset brings labels and groups."""
    data, network = Items(tokenized), NeuralClassifier(Words(), training__selection="worst_group_validation", **FAST)
    for method in (ERMClassifier(network), PIClassifier(network, halves="soft", judge_selection="last")):
        fitted = method.fit(data, validation=data)
        assert fitted.validation_score_ > 0.7
    assert "y=0, group=north" in fitted.estimator_.history_[0]["validation_group_scores"]
    dro = GroupDROClassifier(NeuralClassifier(Words(), **FAST)).fit(data, group_labels=SITES)
    assert (dro.predict(data) == Y).mean() > 0.8


def test_one_output_is_a_binary_classifier():
    """One output z gives (1 − sigmoid(z), sigmoid(z)), as (n,) or (n, 1), in every stage and with penalties."""
    for network in (nn.Linear(3, 1), nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))):
        fitted = PIClassifier(NeuralClassifier(network, **FAST), random_state=0).fit(X, Y, environments=SITES)
        with torch.no_grad():
            z = fitted.estimator_.network_(torch.from_numpy(X)).flatten()
        assert fitted.predict_proba(X)[:, 1] == pytest.approx(torch.sigmoid(z).numpy(), abs=1e-6)
    regressor = NeuralRegressor(nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), **FAST).fit(X, X[:, 0])
    assert regressor.predict(X).shape == (N,)


@pytest.mark.parametrize(
    ("network", "y", "error", "message"),
    [
        (
            nn.Linear(3, 1),
            np.arange(N) % 3,
            ParameterError,
            r"outputs of shape \(2, 1\).*3 outputs, one for each class",
        ),
        (nn.Linear(3, 5), Y, ParameterError, r"shape \(2, 5\) for 2 rows, but 2 outputs \(or one, for two classes\)"),
        (nn.Linear(4, 2), Y, FeaturesError, r"Linear cannot read the first rows of X \(X \(2, 3\) float32\)"),
        (Words(), Y, FeaturesError, "Words cannot read the first rows"),
        (nn.LSTM(3, 2), Y, None, ""),
    ],
    ids=["too few", "too many", "width", "two inputs", "tuple"],
)
def test_outputs_are_checked_when_fitting_starts(network, y, error, message):
    """What a network cannot read, or too many or too few outputs, is said before the first step."""
    classifier = NeuralClassifier(network, **FAST)
    if error is None:
        assert classifier.fit(X, y).predict_proba(X).shape == (N, 2)
        return
    with pytest.raises(error, match=message):
        classifier.fit(X, y)


def test_images_with_channels_last_get_advice():
    """Height × width × channels is how images are often stored."""
    with pytest.raises(FeaturesError, match=r"put them first: image.transpose\(2, 0, 1\)"):
        NeuralClassifier(nn.Conv2d(3, 2, 5), **FAST).fit(np.zeros((N, 8, 8, 3), dtype=np.float32), Y)


def test_integers_stay_integers_and_the_advice_says_so():
    """Measurements as integers in a Dataset do not reach a linear layer silently; the message says what to do."""
    with pytest.raises(FeaturesError, match="Integers stay integers in a dict or Dataset: use floats"):
        NeuralClassifier("mlp", **FAST).fit(TensorDataset(torch.ones(9, 3, dtype=torch.long), torch.arange(9) % 2))


def test_images_of_bytes_with_a_transform():
    """8-bit images are transformed as bytes, then divided by 255; random ones repeat, and draw anew each batch."""
    images = GENERATOR.integers(0, 256, size=(40, 1, 6, 6), dtype=np.uint8)
    y = np.arange(40) % 2
    images[y == 0] //= 4
    seen = []

    def flip(image):
        assert image.dtype == torch.uint8
        flipped = torch.rand(()) < 0.5 and random.random() < 0.9
        seen.append(bool(flipped))
        return image.flip(-1) if flipped else image

    settings = FAST | {"learning_rate": 0.001, "data__row_transform": flip}
    before = torch.get_rng_state(), random.getstate()
    first = NeuralClassifier("cnn", **settings).fit(images, y)
    drawn, answers = list(seen), first.predict_proba(images)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert 0.2 < np.mean(drawn) < 0.7
    assert first.predict_proba(images).tolist() == answers.tolist()
    dataset = Items(lambda i: (flip(torch.from_numpy(images[i])), y[i]), 40)
    again = NeuralClassifier("cnn", **(settings | {"data__row_transform": None})).fit(dataset)
    assert again.predict_proba(dataset) == pytest.approx(answers, abs=1e-6)
    with pytest.raises(FeaturesError, match=r"rows of shape \(1, 6, 7\), but \(1, 6, 6\) were fitted"):
        first.predict(np.zeros((2, 1, 6, 7), np.uint8))


class Noisy(Dataset):
    """Rows with noise of the process's own random state."""

    def __len__(self):
        return N

    def __getitem__(self, number):
        return X[number] + 0.1 * torch.randn(3).numpy(), Y[number]


def test_workers_read_the_same():
    """Items that workers read, noise included, train to the same bits as items read in the process."""
    alone = NeuralClassifier("mlp", **FAST).fit(Noisy()).predict_proba(Noisy())
    workers = NeuralClassifier("mlp", data__n_workers=2, **FAST).fit(Noisy()).predict_proba(Noisy())
    assert workers.tolist() == alone.tolist()
    lists = {"input_ids": [tokens.tolist() for tokens in TOKENS]}
    source = ItemSource(read_items(lists, ())[0], n_workers=3)
    with source.reading():
        read = source.take(slice(0, 10))
    assert read["input_ids"].tolist() == source.take(slice(0, 10))["input_ids"].tolist()


class Deadly(Dataset):
    """Ends the process that reads the second half."""

    def __len__(self):
        return N

    def __getitem__(self, number):
        if number >= N // 2:
            import os

            os._exit(1)
        return X[number]


def test_a_worker_that_dies_is_an_error():
    """A worker that the system ended is said, not waited for."""
    with pytest.raises(FeaturesError, match="A worker that read X ended without an answer.*n_workers=2"):
        NeuralClassifier("mlp", data__n_workers=2, **FAST).fit(Deadly(), Y)


def test_items_are_read_only_where_they_are_asked_for():
    """With labels beside it a Dataset is not read through; prediction reads each row about once."""
    data = Items(lambda i: (X[i], Y[i]), N)
    read_items(data, Y, SITES)
    assert data.n_read == 0
    fitted = NeuralClassifier("linear", max_epochs=1, steps_per_epoch=1, batch_size=4, random_state=0).fit(data, Y)
    assert data.n_read < 20 + N  # the check for one predicted class reads all of these few rows
    data.n_read = 0
    fitted.predict(data)
    assert data.n_read <= N + 1


def test_a_collate_function_of_ones_own():
    """It gets the items without labels, all rows of a batch at once, also with workers."""
    sizes = []

    def pad(items):
        assert "labels" not in items[0]
        sizes.append(len(items))
        ids = [torch.tensor(item["input_ids"]) for item in items]
        ids = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=1)
        return {"input_ids": ids, "attention_mask": ids != 1}

    data = Items(tokenized)
    expected = NeuralClassifier(Words(), data__collate_fn=pad, **FAST).fit(data).predict_proba(data)
    assert max(sizes) > 2
    with_workers = (
        NeuralClassifier(Words(), data__collate_fn=pad, data__n_workers=2, **FAST).fit(data).predict_proba(data)
    )
    assert with_workers.tolist() == expected.tolist()


class Whole(Words):
    """Takes the dict as one argument and answers with logits in an object."""

    def forward(self, batch):
        """Return logits as Hugging Face models do."""
        return {"loss": None, "logits": super().forward(**batch)}


def test_a_network_may_take_the_dict_as_a_whole():
    """A forward with one argument gets the dict; an answer with logits is its logits."""
    data = Items(tokenized)
    expected = NeuralClassifier(Words(), **FAST).fit(data).predict_proba(data)
    found = NeuralClassifier(Whole(), **FAST).fit(data).predict_proba(data)
    assert found.tolist() == expected.tolist()


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DataLoader(TensorDataset(torch.zeros(4, 1))), InputTypeError, r"Pass its dataset, X=loader.dataset"),
        (Stream, InputTypeError, "Pass a map-style Dataset, with __getitem__ and __len__"),
        (lambda: Items(lambda i: X[i]), LabelsError, "requires y to be passed"),
        (
            lambda: Items(lambda i: {"image": X[i], "target": Y[i]}),
            LabelsError,
            "have 'image', 'target': rename the label",
        ),
        (
            lambda: Items(lambda i: {"x": X[i], "y": Y[i], "ward": "A"}),
            FeaturesError,
            "Entry 'ward' of an item of X contains text .* must be called 'environment'",
        ),
        (lambda: Items(lambda i: X[i], n=0), FeaturesError, "a Dataset with 0 items"),
        (lambda: Items(lambda i: (1, 2, 3, 4)), FeaturesError, "An item of X has 4 parts"),
        (lambda: Items(lambda i: (X[i], Y[:2])), LabelsError, r"has shape \(2,\). Each must be one value"),
        (lambda: Items(lambda i: ("a text", 0)), FeaturesError, r"contains text \('a text'\). Turn it into token"),
        (lambda: Items(lambda i: (np.zeros((1, i + 1)), i % 2)), FeaturesError, r"have different shapes, for example"),
        (lambda: {"a": [1, 2], "b": [1], "y": [0, 1]}, FeaturesError, r"Got lengths \{'a': 2, 'b': 1\}"),
        (lambda: {"a": X, "y": Y}, FeaturesError, r"entries \['a'\], but network 'mlp' reads one array"),
        (lambda: Items(lambda i: (object(), 0)), FeaturesError, "contains object, expected numbers"),
    ],
)
def test_what_cannot_be_read_is_refused(make, error, message):
    """Every message says what came and what to pass."""
    with pytest.raises(error, match=message):
        NeuralClassifier("mlp", **FAST).fit(make())


def test_items_with_other_keys_are_refused():
    """An entry that some items lack is named."""
    with pytest.raises(FeaturesError, match="Items of X differ in their keys: 'b' is in some of them only"):
        collate([{"a": 1.0}, {"a": 1.0, "b": 2.0}])


def test_only_networks_take_datasets():
    """Another estimator says what to use instead; so does a table as a dict of columns."""
    for method in (PIClassifier(), PIClassifier(make_pipeline(LogisticRegression())), StableClassifier()):
        with pytest.raises(
            InputTypeError, match=r"X is a dict, which LogisticRegression cannot read.*pandas.DataFrame"
        ):
            method.fit({"a": X[:, 0], "b": X[:, 1]}, Y, environments=SITES)
    with pytest.raises(LabelsError, match="validation has no labels"):
        data = Items(lambda i: X[i])
        ERMClassifier(NeuralClassifier("mlp", **FAST)).fit(data, Y, validation=data)


def test_rows_of_items_are_views():
    """Indexing rows of a Dataset reads nothing, and nests."""
    data = Items(lambda i: (X[i], Y[i]))
    part = ItemRows(data)[np.arange(10, 20)][2:4]
    assert (data.n_read, part.rows.tolist(), part.shape) == (0, [12, 13], (2,))
    assert part.dense(np.array([1, 0])).tolist() == X[[13, 12]].tolist()


def test_pictures_of_pillow_get_their_channels_first():
    """An image folder's pictures need no transform of their own."""
    image = pytest.importorskip("PIL.Image").fromarray(np.full((4, 6, 3), 51, np.uint8))
    batch = collate([image, image])
    assert batch.shape == (2, 3, 4, 6)
    assert batch.unique().tolist() == pytest.approx([0.2])


def test_a_value_that_is_no_number_is_named_with_its_row():
    """NaN at fit, infinity at predict: the row and the entry of the dict are in the message."""
    values = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    network = NeuralClassifier(
        lambda n_classes: _Values(n_classes), max_epochs=1, steps_per_epoch=5, batch_size=40, random_state=0
    )
    y = np.arange(40) % 2
    broken = values.copy()
    broken[7, 1] = np.nan
    with pytest.raises(FeaturesError, match="Row 7 of X, entry 'values', contains NaN. Drop the row"):
        network.fit({"values": broken}, y)
    network.fit({"values": values}, y)
    broken[7, 1] = np.inf
    with pytest.raises(FeaturesError, match="Row 7 of X, entry 'values', contains infinity"):
        network.predict({"values": broken})


def test_score_takes_the_labels_of_the_items():
    """score(dataset) is score(dataset, y), for a network and for a method around it."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    data = {"values": (rng.standard_normal((60, 3)) + y[:, None]).astype(np.float32), "label": y, "environment": y * 0}
    data["environment"] = np.arange(60) % 2
    network = NeuralClassifier(_Values, max_epochs=1, steps_per_epoch=20, random_state=0)
    assert network.fit(data).score(data) == network.score(data, y)
    method = ERMClassifier(network, random_state=0).fit(data)
    assert method.score(data) == method.score(data, y)
    with pytest.raises(LabelsError, match="score needs labels"):
        network.score({"values": data["values"]})


class _Values(torch.nn.Module):
    """A linear network of one entry."""

    def __init__(self, n_classes):
        super().__init__()
        self.last = torch.nn.Linear(3, n_classes)

    def forward(self, values):
        return self.last(values)
