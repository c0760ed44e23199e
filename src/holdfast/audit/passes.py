"""The search for columns that change, over more rows than the memory holds: in passes whose sums over blocks are added.

A sample of the rows is in memory. It says how columns are coded and where every fit begins. A pass asks all rows some
questions: the gradient and the information of a model in each environment. Newton's method takes its steps by them, and
score tests are made of those of the last step. What a search decides, and in which order, is that of `Searching`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from holdfast.audit.effects import (
    Coding,
    Recipe,
    Searching,
    code_rows,
    column_and_others,
    design_alone,
    in_units,
    relative_effects,
    rivals,
    size_of_change,
    unit_of,
)
from holdfast.audit.model import (
    OWN,
    Fit,
    Sites,
    System,
    fit_model,
    local_design,
    loss_of,
    penalties_of,
    score_statistics,
    sums_by_site,
)

Array = NDArray[np.float64]
MOST_PASSES = 30
LITTLE = 0.08  # size of a change up to which nothing is given up (`interpolation.verdict.kept_share`)
NEAR = 1e-4  # gain of a step, by the root of the number of rows, below which score tests do not notice it


@dataclass(frozen=True, eq=False)
class Question:
    """A model with some effects. All rows are asked for its loss, gradients and information."""

    coding: int
    ridge: float
    own: tuple[int, ...]
    common: Array  # (n_columns,)
    each: Array  # (n_sites, n_local)
    alone: tuple[int, tuple[int, int], bool] | None = None  # a column without the others, see `design_alone`
    scaled: tuple[Question, list[Any]] | None = None  # whose rivals, in which units, have effects in each environment
    of_score: bool = False  # a model of the first of these alone
    tests_rivals: bool = False
    pairs: Array | None = None  # (n_columns, n_pairs) further columns to test, as sums of the design's
    at: Question | None = None  # the model whose probabilities count; None: this one
    out: tuple[int, ...] = ()  # columns without effect

    def _parts(self, sites: Sites, codings: Sequence[Coding]) -> tuple[Array, Array]:
        """Return the design, and what has effects in each environment."""
        design, scales = codings[self.coding].design, []
        if self.scaled is not None:
            asked, units = self.scaled
            scales = [in_units(rival, unit) for rival, unit in zip(asked.rivals(sites, codings), units, strict=True)]
        if self.alone is not None:
            design = design_alone(design, *self.alone)
        if self.of_score:
            design, scales = scales[0][:, :, None], []
        return design, local_design(design, self.own, scales)

    def chances(self, sites: Sites, codings: Sequence[Coding]) -> Array:
        """Return the probabilities of all classes but the first."""
        return loss_of(sites, *self._parts(sites, codings), self.common, self.each)[1]

    def rivals(self, sites: Sites, codings: Sequence[Coding], chances: Array | None = None) -> tuple[Array, Array]:
        """Return what noisier labels would scale."""
        chances = self.chances(sites, codings) if chances is None else chances
        n_others = chances.shape[1]
        deviations = self.each[:, n_others : n_others + len(self.own)]
        return rivals(sites, codings[self.coding].design, self.own, self.common, deviations, chances)

    def sums(self, sites: Sites, codings: Sequence[Coding]) -> tuple[Any, ...]:
        """Return the loss, the gradients and the information in each environment, and the number of labels."""
        design, local = self._parts(sites, codings)
        loss, chances = loss_of(sites, design, local, self.common, self.each)
        if self.at is not None:
            chances = self.at.chances(sites, codings)
        further = [part[:, :, None] for part in self.rivals(sites, codings, chances)] if self.tests_rivals else []
        further += [] if self.pairs is None else [design @ self.pairs]
        return loss, *sums_by_site(sites, [design, *further, local], chances), sites.target.size


@dataclass(frozen=True, eq=False)
class _Cells:
    """Asks for sums over the rows of each environment and label: of columns, what others say, and their products."""

    common: Array
    some: NDArray[np.intp]
    pairs: NDArray[np.intp]
    members: Sequence[NDArray[np.intp]]

    def sums(self, sites: Sites, codings: Sequence[Coding]) -> tuple[Any, ...]:
        n_rows, n_others = sites.target.shape
        cells = np.repeat(np.arange(len(sites)), sites.sizes) * (n_others + 1)
        cells = cells + (sites.target @ np.arange(1, n_others + 1)).astype(np.intp)
        shape = (len(sites) * (n_others + 1), n_rows)
        member = sp.csr_array((np.ones(n_rows), (cells, np.arange(n_rows))), shape=shape)
        column, others = column_and_others(codings[0].design, self.common, self.some, self.pairs, self.members)
        parts = (np.ones((n_rows, 1)), column, others, column**2, column * others, others**2)
        return tuple(member @ part for part in parts)


Pass: TypeAlias = Callable[[Recipe, Sequence[Any]], list[list[Any]]]  # the sums of all rows, for each question


def search_in_passes(add_up: Pass) -> Callable[..., Searching]:
    """Return what `find_unstable` needs to search all rows; `add_up` adds `block_sums` of every block."""
    return partial(_PassSearching, add_up)


def block_sums(
    recipe: Recipe, values: Array, y: NDArray[np.intp], codes: NDArray[np.intp], questions: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Return the answers of a block of rows, which are sums."""
    coded = code_rows(values[:, recipe.columns], y, codes, np.ones(len(y)), replace(recipe, place=0))
    return [question.sums(coded.sites, coded.codings) for question in questions]


@dataclass(frozen=True, eq=False)
class _Answer:
    """A model of which all rows were asked, what they answered, and the model after Newton's step."""

    asked: Question
    sums: tuple[Any, ...]
    system: System
    value: float
    gain: float
    model: Question

    def statistics(self) -> Array:
        """Return the score statistics of every column."""
        _, gradients, information, n_values = self.sums
        n_columns, n_local = len(self.model.common), self.model.each.shape[1]
        n_tested = gradients.shape[1] - n_local
        return score_statistics(gradients, information, n_columns, n_tested, self.model.ridge, n_values)


def _newton(question: Question, sums: tuple[Any, ...], n_others: int) -> _Answer:
    """Return the model after one of Newton's steps."""
    loss, gradients, information, _ = sums
    n_columns, n_local, common, each = len(question.common), question.each.shape[1], question.common, question.each
    penalties, local_penalties = penalties_of(n_columns, n_local, n_others, question.ridge, question.own, question.out)
    both = [*range(n_columns), *range(gradients.shape[1] - n_local, gradients.shape[1])]
    curvature = information[:, :n_columns, :n_columns].sum(axis=0) + np.diag(penalties + 1e-8)
    system = System(curvature, information[:, both, -n_local:], local_penalties)
    gradient = gradients[:, :n_columns].sum(axis=0) - penalties * common
    own = gradients[:, -n_local:] - local_penalties * each
    step, steps = system.solve(gradient, own)
    value = loss + 0.5 * float(penalties @ common**2 + (each**2 @ local_penalties).sum())
    gain = 0.5 * float(gradient @ step + (own * steps).sum())
    return _Answer(question, sums, system, value, gain, replace(question, common=common + step, each=each + steps))


class _PassSearching(Searching):
    """The search of `Searching`, whose rows are a sample, with fits and tests on all rows."""

    def __init__(self, add_up: Pass, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.add_up = add_up
        self.known: dict[Any, _Answer] = {}
        self.scaled: list[Any] = [None] * len(self.codings)

    def settle(self, questions: Sequence[Question], others: Sequence[Any] = ()) -> tuple[list[_Answer], list[Any]]:
        """Fit models, all in the same passes; the first pass answers other questions, too."""
        asked, found, answers = list(questions), dict[int, _Answer](), list[Any]()
        left = list(range(len(asked)))
        for n_passes in range(MOST_PASSES):
            sums = self.add_up(self.recipe, [*(asked[i] for i in left), *(() if n_passes else others)])
            answers = answers or sums[len(left) :]
            for i, mine in zip(list(left), sums, strict=False):
                answer = _newton(asked[i], tuple(mine), self.n_classes - 1)
                if i in found and answer.value > found[i].value * (1 + 1e-12) + 1e-6:  # too far: halve the step
                    a, b = found[i].asked, asked[i]
                    asked[i] = replace(b, common=(a.common + b.common) / 2, each=(a.each + b.each) / 2)
                    continue
                found[i], asked[i] = answer, answer.model
                if answer.gain < NEAR * np.sqrt(answer.sums[3]):
                    left.remove(i)
            if not left:
                break
        return [found[i] for i in range(len(asked))], answers

    def fit(self, coding: Coding, own: Sequence[int]) -> Fit:
        """Fit on all rows, in both codings at once."""
        is_scaled, number = bool(coding.scales), self.codings.index(coding)
        if is_scaled and self.scaled[0] is None:
            for k in range(len(self.codings)):
                model = self.known[k, tuple(own), False].model
                self.scaled[k] = model, [unit_of(rival) for rival in model.rivals(self.sites, self.codings)]
        self._fit(own, self.scaled if is_scaled else [None] * len(self.codings))
        return self._as_fit(self.known[number, tuple(own), is_scaled])

    def _fit(self, own: Sequence[int], scaled: Sequence[Any], out: tuple[int, ...] = ()) -> None:
        own, begin = tuple(own), []
        key = (own, scaled[0] is not None, *out)
        if (0, *key) in self.known:
            return
        for k, coding in enumerate(self.codings):
            start = super().fit(coding if key[1] else replace(coding, scales=[]), own)
            each = np.hstack([start.intercepts, start.deviations, start.scales])
            question = Question(k, self.ridge, own, start.common, each, scaled=scaled[k], tests_rivals=True, out=out)
            begin.append(question)
        for answer in self.settle(begin)[0]:
            self.known[answer.model.coding, *key] = answer

    def _as_fit(self, answer: _Answer, *, errors: bool = False) -> Fit:
        """Return a fitted model; its probabilities are those of the sample."""
        model, n_others, n_own = answer.model, self.n_classes - 1, len(answer.model.own)
        places = n_others + np.arange(n_own)
        found = answer.system.errors(list(model.own), places) if errors else np.zeros((len(self.sites), 0))
        chances = model.chances(self.sites, self.codings)
        intercepts, scales = model.each[:, :n_others], model.each[:, n_others + n_own :]
        return Fit(model.common, intercepts, model.each[:, places], chances, answer.value, found, scales)

    def changes_little(self, column: int) -> bool:
        """Return whether a column's change is too small to act on: with many rows almost every column is named."""
        self._fit(self.own, self.scaled if self.codings[0].scales else [None] * len(self.codings))
        sizes, place = [], self.own.index(column)
        for k, coding in enumerate(self.codings):
            fit = self._as_fit(self.known[k, tuple(self.own), bool(coding.scales)], errors=True)
            sizes.append(
                size_of_change(fit.common[column] + fit.deviations[:, place], fit.errors[:, place], self.n_classes)
            )
        return min(sizes) < LITTLE

    def score_tests(self, coding: Coding, own: Sequence[int], fit: Fit, further: list[Array]) -> Array:
        """Test every column and the rivals on all rows."""
        return self.known[self.codings.index(coding), tuple(own), bool(coding.scales)].statistics()

    def test_pairs(self, coding: Coding, fit: Fit, column: int, others: Sequence[int]) -> Array:
        """Test on all rows what a column and each of some others say together."""
        is_scaled, number = bool(coding.scales), self.codings.index(coding)
        first, here = (self.known[k, tuple(self.own), is_scaled].model for k in (0, number))
        pairs = np.zeros((len(fit.common), len(others)))
        for place, j in enumerate(others):
            pairs[[column, j], place] = fit.common[[column, j]]
        asked = replace(here, tests_rivals=False, pairs=pairs, at=first)
        return _newton(asked, tuple(self.add_up(self.recipe, [asked])[0]), self.n_classes - 1).statistics()

    @cached_property
    def common_effects(self) -> Array:
        """The effects of a model without effects of environments."""
        return self.known[0, (), False].model.common

    def within_cells(self, common: Array, some: NDArray[np.intp], pairs: NDArray[np.intp]) -> tuple[Array, ...]:
        """Add up all rows; the same passes test the columns alone."""
        begin = []
        for k, coding in enumerate(self.codings):
            for j in some.tolist():
                design = design_alone(coding.design, j, self.pairs[k][j])
                start, alone = fit_model(self.sites, design, 0.5), (j, self.pairs[k][j], design.shape[2] > 1)
                begin.append(Question(k, 0.5, (), start.common, start.intercepts, alone=alone))
        found, (sums,) = self.settle(begin, [_Cells(common, some, pairs, [self.members[j] for j in some])])
        for k, coding in enumerate(self.codings):
            coding.alone = np.zeros(self.n_tested)
            coding.alone[some] = [answer.statistics()[0] for answer in found if answer.model.coding == k]
        counts, column, others, squares, products, of_others = sums
        counts = np.maximum(counts, 2)
        return (
            counts,
            squares - column**2 / counts,
            products - column * others / counts,
            of_others - others**2 / counts,
        )

    def test_alone(self, coding: Coding) -> Array:
        """Return what `within_cells` has found."""
        self.apart  # noqa: B018
        return np.zeros(self.n_tested) if coding.alone is None else coding.alone

    def fit_named(self, coding: Coding, start: Fit | None) -> Fit:
        """Return the fit in which the named columns are measured."""
        self._fit(self.own, [None] * len(self.codings), self.left_out)
        return self._as_fit(self.known[self.codings.index(coding), tuple(self.own), False, *self.left_out], errors=True)

    def relative_scales(self, coding: Coding) -> Array:
        """Return the slope of the whole score in each environment, relative to their mean."""
        if 0 not in self.known:
            begin = []
            for k, other in enumerate(self.codings):
                start = fit_model(self.sites, other.scales[0][:, :, None], OWN, (0,))
                each = np.hstack([start.intercepts, start.deviations])
                begin.append(Question(k, OWN, (0,), start.common, each, scaled=self.scaled[k], of_score=True))
            self.known |= dict(enumerate(self.settle(begin)[0]))
        return relative_effects(self._as_fit(self.known[self.codings.index(coding)]))
