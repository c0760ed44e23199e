"""Colored MNIST with two classes, cut as IRM and DomainBed do: digits 0-4 against 5-9, 14x14 pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from holdfast.datasets.colored_digits import ColoredImages, Coloring, Digits, draw_split
from holdfast.datasets.values import Dataset, Split, join_splits
from holdfast.exceptions import ParameterError
from holdfast.seeding import Seeding

N_CLASSES = 2
HELD_OUT = 5  # one row in so many validates, in DomainBed's cut


def cut_irm(training: Digits, testing: Digits, coloring: Coloring, seed: int) -> Dataset:
    """Cut MNIST as Arjovsky et al. (2019) do, and take validation rows from digits that they leave aside.

    Five sixths of the training file are dealt in turn to the environments, the last sixth is the test. The digits of
    the test file validate: dealt to the training environments' agreements, or all with the test's.
    """
    streams = Seeding(seed).child("two classes", "irm")
    n_train = len(training.digits) * 5 // 6
    order = streams.generator("deal").permutation(n_train)
    n_environments = len(coloring.etas)
    names = [f"E{i}" for i in range(1, n_environments + 1)]
    split = _splitter(coloring, streams)
    train = [
        split(training.take(np.sort(order[i::n_environments])), eta, name, name, 0)
        for i, (eta, name) in enumerate(zip(coloring.etas, names, strict=True))
    ]
    rows = np.arange(len(testing.digits))
    like_training = [
        split(testing.take(rows[i::n_environments]), eta, name, "validation", name, 0)
        for i, (eta, name) in enumerate(zip(coloring.etas, names, strict=True))
    ]
    last = training.take(np.arange(n_train, len(training.digits)))
    tests = [split(last, coloring.test_eta, "test", "test", number) for number in range(coloring.test_colorings)]
    validation = {
        "train": join_splits(like_training),
        "test": split(testing, coloring.test_eta, "test", "validation", 0),
    }
    return _dataset(join_splits(train), validation, join_splits(tests), "IRM's cut: two classes, 14x14 pixels")


def cut_domainbed(training: Digits, testing: Digits, coloring: Coloring, seed: int) -> Dataset:
    """Cut MNIST as DomainBed (Gulrajani and Lopez-Paz, 2021) does: three domains of all 70,000 digits, 80 % and 20 %.

    One domain is the test, one or both of the others are trained on. A fifth of each domain validates.
    """
    if len(coloring.etas) > 2:
        raise ParameterError(
            f"protocol='domainbed' has three domains, one of them the test. Got {len(coloring.etas)} etas; pass 1 or 2."
        )
    streams = Seeding(seed).child("two classes", "domainbed")
    images = np.concatenate([training.images, testing.images])
    everything = Digits(images, np.concatenate([training.digits, testing.digits]))
    order = streams.generator("deal").permutation(len(images))
    etas = {f"E{i}": eta for i, eta in enumerate(coloring.etas, start=1)} | {"test": coloring.test_eta}
    split = _splitter(coloring, streams)

    def parts(name: str, domain: int) -> tuple[Split, Split]:
        rows = order[domain::3]
        held_out, rest = rows[::HELD_OUT], np.delete(rows, np.s_[::HELD_OUT])
        return tuple(  # type: ignore[return-value]
            split(everything.take(np.sort(some)), etas[name], name, name, part)
            for part, some in enumerate((rest, held_out))
        )

    trained = [parts(name, domain) for domain, name in enumerate(etas) if name != "test"]
    test, like_test = parts("test", 2)
    validation = {"train": join_splits([held_out for _, held_out in trained]), "test": like_test}
    note = "DomainBed's cut: two classes, here 14x14 pixels instead of 28x28"
    return _dataset(join_splits([rest for rest, _ in trained]), validation, test, note)


CUTS: Mapping[str, Callable[[Digits, Digits, Coloring, int], Dataset]] = MappingProxyType(
    {"irm": cut_irm, "domainbed": cut_domainbed}
)


def cut_two_classes(protocol: str, training: Digits, testing: Digits, coloring: Coloring, seed: int) -> Dataset:
    """Return two-class colored MNIST by the protocol's name."""
    return CUTS[protocol](_halved(training), _halved(testing), coloring, seed)


def _halved(digits: Digits) -> Digits:
    """Return every second pixel of every second row, and 1 for digits from five on."""
    return Digits(digits.images[:, ::2, ::2], (digits.digits >= 5).astype(np.intp))


def _splitter(coloring: Coloring, streams: Seeding) -> Callable[..., Split]:
    return partial(
        draw_split,
        represent=lambda images, colors: ColoredImages(images, colors, N_CLASSES),
        label_noise=coloring.label_noise,
        streams=streams,
        n_colors=N_CLASSES,
    )


def _dataset(train: Split, validation: Mapping[str, Split], test: Split, note: str) -> Dataset:
    return Dataset("colored_mnist", train, validation, test, ("0-4", "5-9"), ("color",), "color", (note,))
