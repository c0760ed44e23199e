"""Effects of columns by environment: which of them change between environments, and by how much.

The model is a logistic regression with intercepts for each environment and a small penalty. Score tests ask of each
column whether its effect differs between environments; the column with the strongest evidence gets an effect for each
environment, and the others are tested again, until no test passes. A column that matters, and of which the others say
nothing once the label is known, is tested alone, which needs fewer rows. Then the search is made once more without the
named columns: another one that goes together with them may stand in for them. All rows are used; nothing is drawn, so
neither a seed nor the order of the rows plays a part. With more than two classes, what a column says about all of them
is one direction, and the question is whether it says so more or less strongly elsewhere. The values of a category are
columns of their own; what they say together is tested as one more. A skewed number column is tested by its order of
magnitude where that says more about the label than its amount.

Three things must not be taken for a change of a column's effect:

- Labels that are noisier in one environment weaken all effects there alike: a scale of the whole score, and the form of
  label noise, are tested against each column.
- A measurement in other units, or more spread in one environment: every number column is tested twice, in its units and
  in standard deviations of each environment, and must pass both times.
- A bent relation together with other values of the column: the model has squares of the number columns.

If the classifier can predict from other columns where an effect is weaker, it knows the change. So the search is made
again with its answers in the model, to find the evidence that is left.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import special
from sklearn.exceptions import ConvergenceWarning

from holdfast.audit.columns import Block
from holdfast.audit.model import OWN, Fit, Sites, fit_model, local_design, score_tests
from holdfast.audit.within import Cells, explained_by_others, go_together, tail_limits
from holdfast.environments import take_rows
from holdfast.rows import deal_evenly, is_sparse, row_keys

Array = NDArray[np.float64]
T = TypeVar("T")
FAINT, CLEAR = 5.0, 7.0  # lead over "labels are noisier there", as a statistic, from which a column is blamed; in full
LOOSE = 4.0  # handicap of a scale for each environment against noisier labels; more where labels were not flipped
EVEN = 0.2  # share of the level that all columns have alike; the rest goes by what they are worth to a classifier
ALONE = 1.0, 3.0  # standard errors by which others say more of a column than chance: tested alone below, not above
MATTERS = 0.25, 0.5  # effect, in log-odds for one standard deviation, from which on a column is tested alone; in full
MOST_NAMED = 12  # columns that get an effect for each environment
MOST_ROUNDS = 3  # of searching without the columns that were named, for others that stand in for them
MOST_EXACT = 150  # columns that are tested exactly; wider tables are screened first
SCREENED = 60  # columns of a wide table that are kept for their evidence, and as many for their weight
N_FOLDS = 5  # for what columns say about more than two classes
QUANTITY = 5  # different values from which on a column is a quantity and no code
SURE = 0.005  # with more than two classes, columns that are less clear than that are tested in pairs too
SKEWED = 2.0  # skewness from which on a quantity may be tested by its normal scores
SAYS_MORE = 0.1, 4.0  # by how much normal scores must say more about the label: of what values say; log-likelihood
N_SCORES = 200  # values between which normal scores are interpolated


@dataclass(frozen=True, eq=False)
class Effect:
    """A column whose effect on the label changes between environments.

    Effects are log-odds for one standard deviation of the column, of the second class of `pair` against the first.
    """

    column: int
    statistic: float
    p_value: float  # adjusted for the number of columns
    rival: float  # the statistic of "labels are noisier there", which the column had to beat
    pair: tuple[int, int]  # codes of the two classes between which the column says most
    by_environment: Array  # (n_environments,)
    errors: Array  # (n_environments,) standard errors
    mean: float
    spread: float  # standard deviation between environments, noise taken out
    size: float  # how much the column's part in the log-odds varies
    supported: float = 0.0  # share of its mean effect that is to be expected in the next environment at least
    shared: float = 0.0  # share of its variance that others explain among the rows of one label and environment
    unexplained: Effect | None = None  # the same, with the evidence that is left next to the classifier's answers


@dataclass(frozen=True, eq=False)
class Search:
    """What the search found."""

    effects: tuple[Effect, ...]  # strongest evidence first
    p_values: Array  # (n_columns,) adjusted, of every column when it was last tested
    noisier: bool  # whether all effects change together, as noisier labels would make them


@dataclass(eq=False)
class Recipe:
    """How columns become designs. What that learns from rows, such as scales, is kept for other rows."""

    columns: NDArray[np.intp]  # of the table
    groups: Sequence[Sequence[int]]  # of these columns
    n_classes: int
    for_others: bool  # whether other rows follow: then a row's fold depends on nothing but the row
    with_ordinary: bool = False  # whether the ordinary classifier's answers are in the model, and no test is alone
    learned: list[Any] = field(default_factory=list)
    too_rare: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))  # columns of the design
    place: int = -1  # of what is looked up next; -1: nothing was learned yet

    def __call__(self, learn: Callable[[], T]) -> T:
        """Return what was learned at this place, or learn it."""
        if self.place < 0:
            self.learned.append(learn())
            return self.learned[-1]  # type: ignore[no-any-return]
        self.place += 1
        return self.learned[self.place - 1]  # type: ignore[no-any-return]


@dataclass(eq=False)
class Coding:
    """The columns in one coding, and what has an effect for each environment already."""

    design: Array  # (n_rows, n_classes - 1, …): what is tested, then squares and offsets
    n_agreed: int  # columns at the end that hold what is agreed, and so a part of every effect
    scales: list[Array]  # the whole score, or label noise: (n_rows, n_classes - 1)
    agreed_unit: float = 1.0  # log-odds that one of what the judges agree on stands for
    start: Fit | None = None  # the last fit, where the next one begins
    alone: Array | None = None  # statistics of the columns that are tested without the others


def find_unstable(
    values: Block,
    y: NDArray[np.intp],
    codes: NDArray[np.intp],
    *,
    n_classes: int,
    level: float = 0.05,
    sample_weight: Array | None = None,
    agreed: Array | None = None,
    ordinary: Callable[[], Array] | None = None,
    groups: Sequence[Sequence[int]] = (),
    given_up: Callable[[Effect], bool] = lambda effect: True,
    make_search: Callable[..., Searching] | None = None,
) -> Search:
    """Search for the columns whose effect on the label changes between environments.

    Parameters
    ----------
    values : array or sparse matrix of shape (n_rows, n_columns)
    y : array of shape (n_rows,)
        Class codes.
    codes : array of shape (n_rows,)
        Number of each row's environment.
    n_classes : int
    level : float
        Chance that anything is named where nothing changes.
    sample_weight : array of shape (n_rows,), optional
    agreed : array of shape (n_rows, n_classes), optional
        Log-odds that hold in every environment, as far as is known: bends and interactions that the model would miss.
    ordinary : callable, optional
        Returns log-odds like `agreed`, of the ordinary classifier about rows that it was not fitted on. If some named
        column is predicted by others, the search is made again with them: `Effect.unexplained`.
    groups : sequence of sequences of int
        Columns that belong together. They are tested as one too, which is found under the number of the first.
    given_up : callable
        Which of the columns that were found are done without. Others that go together with them are then tested again:
        they may stand in for them.
    make_search : callable, optional
        Returns the `Searching` that tests the columns; None: one that tests them on these rows.
    """
    n_rows, n_columns = values.shape
    weights = np.ones(n_rows)
    if sample_weight is not None:  # unequal weights say less than as many equal ones (Kish)
        weights = sample_weight * (sample_weight.sum() / (sample_weight @ sample_weight))
    cells, for_others = Cells(y, codes), make_search is not None
    make_searching = make_search or Searching

    def search_among(left: NDArray[np.intp], said: Array | None, with_ordinary: bool = False) -> Search:
        inside = [np.flatnonzero(np.isin(left, group)).tolist() for group in groups]
        recipe = Recipe(left, inside, n_classes, for_others, with_ordinary)
        some = values if len(left) == n_columns else values[:, left]
        found = _search(some, y, codes, weights, said, level, recipe, make_searching)
        p_values = np.ones(n_columns)
        p_values[left] = found.p_values
        moved = tuple(replace(effect, column=int(left[effect.column])) for effect in found.effects)
        return Search(moved, p_values, found.noisier)

    def with_shared(effects: Sequence[Effect], before: Sequence[Effect] = ()) -> tuple[Effect, ...]:
        # Without the ordinary classifier's answers nothing else depends on it.
        asked = [effect for effect in effects if effect.supported > 0 or ordinary is not None]
        gone = [effect.column for effect in (*before, *effects) if given_up(effect)]
        shares = _shared(asked, gone, values, groups, cells)
        return tuple(replace(effect, shared=shares.get(effect.column, 0.0)) for effect in effects)

    left = np.arange(n_columns)
    search = search_among(left, agreed)
    last = with_shared(search.effects)
    if ordinary is not None and any(effect.shared for effect in last):
        last = _add_unexplained(last, search_among(left, ordinary(), with_ordinary=True), groups)
    search = replace(search, effects=last)
    for _ in range(MOST_ROUNDS):  # another column may stand in for what is done without
        named = {effect.column for effect in last if given_up(effect)}
        gone = sorted(named | {column for group in groups if named & set(group) for column in group})
        left = np.setdiff1d(left, gone)
        near = left[go_together(values, left, gone, cells)] if gone and len(left) else left[:0]
        if not len(near):
            break
        # The ordinary classifier knows what these columns do through those that are gone: it is not asked.
        found = {effect.column for effect in search.effects}
        again = search_among(left, agreed).effects
        last = tuple(effect for effect in again if effect.column in near and effect.column not in found)
        last = with_shared(last, search.effects)
        for effect in last:
            search.p_values[effect.column] = effect.p_value
        search = replace(search, effects=(*search.effects, *last))
    return search


def _shared(
    effects: Sequence[Effect], gone: Sequence[int], values: Block, groups: Sequence[Sequence[int]], cells: Cells
) -> dict[int, float]:
    """Return how far other columns explain each named one; those that may be given up say nothing."""
    if not effects:
        return {}
    families = [_family(effect.column, groups) for effect in effects]
    unused = [column for place in gone for column in _family(place, groups)]
    shares = explained_by_others(values, families, unused, cells)
    return {effect.column: share for effect, share in zip(effects, shares, strict=True)}


def _add_unexplained(effects: Sequence[Effect], search: Search, groups: Sequence[Sequence[int]]) -> tuple[Effect, ...]:
    """Return the effects with the evidence for each in a search that knows the ordinary classifier's answers."""
    left: dict[tuple[int, ...], Effect] = {}
    for effect in search.effects:
        left.setdefault(tuple(_family(effect.column, groups)), effect)
    found = []
    for effect in effects:
        same = left.get(tuple(_family(effect.column, groups)))
        if same is None:  # not named there
            rest = replace(effect, p_value=float(search.p_values[effect.column]))
        else:
            rest = replace(effect, p_value=same.p_value, statistic=same.statistic, rival=same.rival)
        found.append(replace(effect, unexplained=rest))
    return tuple(found)


def _family(column: int, groups: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the columns of the group that a column belongs to; else itself."""
    return next((group for group in groups if column in group), [column])


def _search(
    values: Block,
    y: NDArray[np.intp],
    codes: NDArray[np.intp],
    weights: Array,
    agreed: Array | None,
    level: float,
    recipe: Recipe,
    make_search: Callable[..., Searching],
) -> Search:
    """Search once: a named column keeps an effect for each environment, and so what others say beside it is tested."""
    coded = code_rows(values, y, codes, weights, recipe, agreed)
    n_columns, back, groups = values.shape[1], coded.back, coded.groups
    shares = _level_shares(len(back), n_columns, groups)
    members = [*([back[:0]] * len(back)), *groups]
    back = np.concatenate([back, [back[group[0]] for group in groups]]).astype(np.intp)
    return make_search(coded.sites, coded.codings, back, coded.pairs, shares, members, n_columns, level, recipe).run()


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows in both codings: numbers as they are, and in standard deviations of each environment."""

    sites: Sites
    codings: list[Coding]
    pairs: list[list[tuple[int, int]]]  # for each coding and tested column: the classes between which it says most
    back: NDArray[np.intp]  # for each column of the design its number in the table
    groups: list[NDArray[np.intp]]  # columns of the design that belong together


def code_rows(
    values: Block,
    y: NDArray[np.intp],
    codes: NDArray[np.intp],
    weights: Array,
    recipe: Recipe,
    agreed: Array | None = None,
) -> CodedRows:
    """Code rows as the recipe says, or as it learns from them where it has learned nothing yet."""
    n_columns, n_classes = values.shape[1], recipe.n_classes
    # Rows of one environment stand together, and so do those of one label in it.
    cells = codes * n_classes + y
    order = np.argsort(cells.astype(np.int16) if cells.max() < 2**15 else cells, kind="stable")  # short ones are faster
    values, y, codes, weights = take_rows(values, order), y[order], codes[order], weights[order]
    sizes = np.bincount(codes, minlength=recipe(lambda: int(codes.max()) + 1))
    sites = Sites((y[:, None] == np.arange(1, n_classes)).astype(float), weights, sizes)
    # What columns say, together or about several classes, is learned from other folds.
    learned = n_classes > 2 or any(len(group) > 1 for group in recipe.groups)
    n_folds = N_FOLDS if n_classes > 2 else 2
    folds = np.zeros(len(y), dtype=np.intp)
    if learned:
        keys = row_keys(values)
        folds = (keys >> 32).astype(np.intp) % n_folds if recipe.for_others else _deal(keys, y, codes, n_folds)
    dense, back, offset = _dense_columns(values, y, codes, weights)
    tested, varies = _standardized(dense, weights, recipe)
    back = back[varies]
    places = [np.flatnonzero(np.isin(back, group)) for group in recipe.groups]
    places = [members for members in places if len(members) > 1]
    known = None if agreed is None else (agreed[:, 1:] - agreed[:, :1])[order]
    unit = (np.zeros(n_classes - 1), 1.0) if known is None else unit_of(known)
    shared = [] if known is None else [in_units(known, unit)]
    quantities = recipe(lambda: np.array([j for j, c in enumerate(tested.T) if _is_quantity(c)], dtype=np.intp))
    recipe.too_rare = recipe(lambda: _too_rare(tested, quantities, len(sites)))
    for j, known, scores in recipe(lambda: _normal_scores(tested, sites, quantities)):
        tested[:, j] = np.interp(tested[:, j], known, scores)

    rooms: list[Array] = []

    def code(columns: Array) -> tuple[Coding, list[tuple[int, int]]]:
        parts = [columns, _squares(columns, quantities, recipe) if n_columns <= MOST_EXACT else columns[:, :0]]
        weight = np.ones((1, 1, 1))
        if learned:
            both, others = np.hstack(parts), [folds != fold for fold in range(n_folds)]
            weight = recipe(lambda: _coefficients_by_fold(both, y, codes, weights, n_columns, others))
        together = [_together(columns[:, members], weight[:, :, members], folds, recipe) for members in places]
        (said, between), (bent, _) = (
            _directed(part, weight[:, :, where] if learned else weight, folds)
            for part, where in zip(parts, (slice(columns.shape[1]), slice(columns.shape[1], None)), strict=True)
        )
        further = [part[:, :, None] for part in (*together, *offset, *shared)]
        blocks = [said, *further[: len(places)], bent, *further[len(places) :]]
        shape = (len(columns), n_classes - 1, sum(block.shape[2] for block in blocks))
        if not rooms:  # both designs at once: the system gives more than 4 MiB in larger pages, in a tenth of the time
            rooms.extend(np.empty((2, *shape)))
        room = rooms.pop()
        design = np.concatenate(blocks, axis=2, out=room if room.shape == shape else None)
        mixed = recipe(lambda: [_main_pair(part) for part in together])
        return Coding(design, len(shared), [], unit[1]), [*between, *mixed]

    coded = [code(columns) for columns in (tested, _standardized_within(tested, sites, quantities, recipe))]
    return CodedRows(sites, [coding for coding, _ in coded], [between for _, between in coded], back, places)


def _deal(keys: NDArray[np.uint64], y: NDArray[np.intp], codes: NDArray[np.intp], n_folds: int) -> NDArray[np.intp]:
    """Return a fold for each row, evenly over each environment and label."""
    return deal_evenly(np.lexsort((keys, y, codes)), codes, n_folds)


def _level_shares(n_tested: int, n_columns: int, groups: list[NDArray[np.intp]]) -> Array:
    """Return the even share of the level for each test: a group counts as one column, half of it for all together."""
    n_features = n_columns - sum(len(members) - 1 for members in groups)
    shares = np.full(n_tested + len(groups), 1 / n_features)
    for number, members in enumerate(groups):
        shares[members] = 1 / (2 * n_features * len(members))
        shares[n_tested + number] = 1 / (2 * n_features)
    return shares


def random_effects(effects: Array, errors: Array) -> tuple[float, float, float]:
    """Return mean, standard deviation between environments and standard error of the mean (Paule and Mandel).

    Examples
    --------
    Effects that differ by no more than their errors do not vary:

    >>> mean, spread, _ = random_effects(np.array([1.0, 1.1]), np.array([0.2, 0.2]))
    >>> round(mean, 2), spread
    (1.05, 0.0)
    """
    variances, between = errors**2, 0.0
    for _ in range(100):  # Newton's steps: Σ (effect − mean)² / (variance + between) falls, ever more slowly, to n − 1
        shares = 1 / (variances + between)
        mean = float(shares @ effects / shares.sum())
        weighted = shares * (effects - mean)
        excess = float(weighted @ (effects - mean)) - (len(effects) - 1)
        if not excess > 1e-9 * len(effects):
            break
        between += excess / float(weighted @ weighted)
    return mean, math.sqrt(between), math.sqrt(1 / shares.sum())


def level_off(effects: Array, errors: Array, n_classes: int = 2) -> tuple[float, float]:
    """Return mean and spread between environments of effects that level off.

    An effect of 5 and one of 7 decide alike: the label is all but certain. So an effect counts as 2 tanh(effect/2),
    which is the effect itself while it is small. Between the first and the last of K classes there are K - 1 steps to
    decide, so effects level off K - 1 times as late.

    Examples
    --------
    >>> found = [level_off(np.array(pair), np.array([0.1, 0.1])) for pair in ([0.5, 1.0], [5.0, 7.0])]
    >>> [(round(mean, 2), round(spread, 2)) for mean, spread in found]
    [(0.71, 0.29), (1.98, 0.02)]
    """
    most = 2 * (n_classes - 1)
    bounded = most * np.tanh(effects / most)
    return random_effects(bounded, np.maximum((1 - (bounded / most) ** 2) * errors, 1e-4))[:2]


def size_of_change(effects: Array, errors: Array, n_classes: int = 2) -> float:
    """Return |mean effect| × spread between environments, of effects that level off.

    Examples
    --------
    >>> [round(size_of_change(np.array(pair), np.array([0.1, 0.1])), 2) for pair in ([0.5, 1.0], [5.0, 7.0])]
    [0.21, 0.03]
    """
    mean, spread = level_off(effects, errors, n_classes)
    return abs(mean) * spread


def supported_share(effects: Array, errors: Array, n_classes: int = 2) -> float:
    """Return the share of the mean effect at the end of the prediction interval that is nearer to zero.

    Effects level off. An interval that includes zero supports nothing.

    Examples
    --------
    Of effects in nine environments that never turned most is to be expected; two environments say next to nothing:

    >>> round(supported_share(np.array([1.1, 1.6, 1.2, 1.5, 1.0, 1.7, 1.3, 1.4, 1.2]), np.full(9, 0.1)), 2)
    0.82
    >>> supported_share(np.array([0.5, 1.0]), np.array([0.1, 0.1]))
    0.0
    """
    mean, spread = level_off(effects, errors, n_classes)
    low, _ = prediction_interval(abs(mean), spread, len(effects))
    return max(0.0, low / max(abs(mean), 1e-12))


def prediction_interval(mean: float, spread: float, n_environments: int, level: float = 0.8) -> tuple[float, float]:
    """Return where the effect at the next environment is expected, from effects that vary by `spread` around `mean`.

    Student's t with E − 2 degrees of freedom, as in meta-analysis. Two environments say next to nothing about a third:
    the interval then is that of one degree of freedom.

    Examples
    --------
    >>> low, high = prediction_interval(1.0, 0.2, 6)
    >>> round(low, 2), round(high, 2)
    (0.67, 1.33)
    """
    quantile = float(special.stdtrit(max(n_environments - 2, 1), 0.5 + level / 2))
    half = quantile * spread * math.sqrt(1 + 1 / n_environments)
    return mean - half, mean + half


@dataclass(eq=False)
class Searching:
    """The forward search: the column with the strongest evidence gets an effect for each environment."""

    sites: Sites
    codings: list[Coding]
    back: NDArray[np.intp]  # for each tested column its number in the table; a group has that of its first column
    pairs: list[list[tuple[int, int]]]  # for each coding and tested column: the classes between which it says most
    shares: Array  # (n_tested,) of the level
    members: list[NDArray[np.intp]]  # for each tested column: the columns of a group, else none
    n_columns: int
    level: float
    recipe: Recipe

    def __post_init__(self) -> None:
        self.n_classes = self.recipe.n_classes
        self.own: list[int] = []
        self.degrees = len(self.sites) - 1
        self.n_tested = len(self.back)
        self.ridge = self.n_columns / 2
        self.fits_alone: dict[int, Fit] = {}  # of columns without the others, in the last coding

    def run(self) -> Search:
        """Name columns until no test passes."""
        found: list[tuple[int, float, float, float]] = []
        p_values, noisier, unresolved = np.ones(self.n_columns), False, 0.0
        while len(self.own) < min(MOST_NAMED, self.n_tested):
            both, statistic = self.test_columns(self.own)
            p = self.adjusted(statistic, both[0].importance, self.own)
            free = self.free(self.own)
            p_values[self.back[free]] = 1.0
            np.minimum.at(p_values, self.back[free], p[free])
            strongest = int(np.lexsort((-statistic, p))[0])  # among p values of zero the statistic decides
            chance, partner = float(p[strongest]), None
            if self.n_classes > 2 and chance > SURE and len(self.free([*self.own, strongest])):
                chance, partner = min((chance, None), self.best_partner(strongest, both[0].fit), key=lambda c: c[0])
            if chance >= self.level:
                break
            least = int(np.argmin([test.statistics[strongest] for test in both]))
            rival = 0.0 if noisier else both[least].rival_of(self.against_noise(strongest))
            reached = self.reached_together(strongest, float(statistic[strongest]), rival)
            if rival > reached:
                noisier, unresolved = True, 0.0  # all effects change together: each environment gets a scale of its own
                if len(both) == 1:  # the column passed with its partner only
                    both.append(self.test_coding(self.codings[1], self.own))
                for coding, test in zip(self.codings, both, strict=True):
                    coding.scales = test.scales
                continue
            rival = max(rival, unresolved)  # a column that is named but not blamed does not clear the others
            for column in (strongest, *([] if partner is None else [partner])):
                self.own.append(column)
                found.append((column, reached, chance, rival))
            unresolved = rival * (1 - float(rising(reached - rival, FAINT, CLEAR)))
            if self.changes_little(strongest):  # what else passes would change less: it is named without further tests
                left = self.free(self.own)
                rest = [j for j in np.argsort(p, kind="stable").tolist() if p[j] < self.level and j in left]
                rest = rest[: MOST_NAMED - len(self.own)]
                found += [(j, float(statistic[j]), float(p[j]), rival) for j in rest]
                self.own += rest
                break
        fits: list[Fit] = []
        for coding in self.codings if found else []:
            fits.append(self.fit_named(coding, fits[0] if fits else coding.start))
        effects = tuple(self.measure(fits, i, *entry, noisier) for i, entry in enumerate(found))
        named = tuple(replace(effect, column=int(self.back[effect.column])) for effect in effects)
        for effect in named:
            p_values[effect.column] = effect.p_value
        return Search(named, p_values, noisier)

    def test_columns(self, own: Sequence[int]) -> tuple[list[Tests], Array]:
        """Test every column in both codings; the smaller statistic counts."""
        both = [self.test_coding(self.codings[0], own)]
        if self.adjusted(both[0].statistics, both[0].importance, own).min() < self.level:
            both.append(self.test_coding(self.codings[1], own))
        statistic = np.zeros(self.n_tested)
        free = self.free(own)
        statistic[free] = np.min([test.statistics[free] for test in both], axis=0)
        return both, statistic

    def family(self, column: int) -> list[int]:
        """Return the tests of the category that a column belongs to, first that of all its values; else none."""
        for j, group in enumerate(self.members):
            if len(group) and (column == j or column in group):
                return [j, *group.tolist()]
        return []

    def free(self, own: Sequence[int]) -> NDArray[np.intp]:
        """Return the columns left to test; one that is named stands for its whole category."""
        return np.setdiff1d(np.arange(self.n_tested), [*own, *itertools.chain(*map(self.family, own))])

    def changes_little(self, column: int) -> bool:
        """Return whether a search should end with a column that was named, as its change is too small to act on."""
        return False

    def reached_together(self, strongest: int, statistic: float, rival: float) -> float:
        """Return the statistic that a column reaches with others: a class code may be spread over K - 1 columns."""
        together, path = statistic, [strongest]
        while rival > together and len(path) < min(self.n_classes - 1, self.n_tested - len(self.own)):
            more = self.test_columns([*self.own, *path])[1]
            path.append(int(np.argmax(more)))
            together += float(more[path[-1]]) - 2 * self.degrees
        return max(statistic, together)

    def best_partner(self, strongest: int, fit: Fit) -> tuple[float, int]:
        """Return the adjusted p value of what a column and another say together, and that other one.

        A code of three or more classes is spread over several columns, each of which shows a part of a change.
        """
        others = self.free([*self.own, strongest]).tolist()
        statistics = []
        for coding in self.codings:
            statistics.append(self.test_pairs(coding, fit, strongest, others)[-len(others) :])
        least = np.min(statistics, axis=0)
        best = int(np.argmax(least))
        return float(special.chdtrc(self.degrees, least[best])) * len(others) * (len(others) + 1), others[best]

    def test_pairs(self, coding: Coding, fit: Fit, column: int, others: Sequence[int]) -> Array:
        """Test what a column and each of some others say together, after all columns."""
        scores = [coding.design[:, :, [column, j]] @ fit.common[[column, j]] for j in others]
        return self.score_tests(coding, self.own, fit, scores)

    def test_coding(self, coding: Coding, own: Sequence[int]) -> Tests:
        """Test every column in one coding, and what noisier labels would do to all of them."""
        design, n_tested = coding.design, self.n_tested
        fit = coding.start = self.fit(coding, own)
        scales = [_unit(rival) for rival in rivals(self.sites, design, own, fit.common, fit.deviations, fit.chances)]
        values = self.score_tests(coding, own, fit, scales)
        if not coding.scales:
            values[:n_tested] += self.apart * (self.test_alone(coding) - values[:n_tested])
        importance = fit.common[:n_tested] ** 2
        importance[list(own)] = 0.0
        return Tests(values[:n_tested], float(values[-2]), float(values[-1]), importance, scales, fit)

    def fit(self, coding: Coding, own: Sequence[int]) -> Fit:
        """Fit the model in which the columns `own` have effects for each environment."""
        start = coding.start or self.codings[0].start or self.agreed_start(coding)
        return fit_model(self.sites, coding.design, self.ridge, own, coding.scales, start=start)

    def agreed_start(self, coding: Coding) -> Fit | None:
        """Return the model that says what the judges agree on, where the first fit begins."""
        if not coding.n_agreed:
            return None
        common, no_effects = np.zeros(coding.design.shape[2]), np.zeros((len(self.sites), 0))
        common[-1] = coding.agreed_unit
        intercepts = np.zeros((len(self.sites), self.n_classes - 1))
        return Fit(common, intercepts, no_effects, self.sites.target, np.inf, no_effects, no_effects)

    @cached_property
    def apart(self) -> Array:
        """How far each column can be tested alone, from 0 to 1: it matters, and the others say nothing of it.

        That is asked among the rows of one label and environment. Columns that a label depends on go together there,
        and so do columns whose labels are noisy, but not one that only depends on the label.
        """
        common, pairs = self.common_effects, np.array(self.pairs[0]).T
        effects = np.abs(common[: self.n_tested])
        if self.recipe.with_ordinary:
            return np.zeros_like(effects)
        for j, group in enumerate(self.members):
            if len(group):
                said = _between(_said_by(self.codings[0].design, common, [*group, j]), *pairs[:, [j]])
                effects[j] = said.std()
        matters = rising(effects, *MATTERS)
        some = np.flatnonzero(matters)
        if not len(some):
            return matters
        counts, spread, together, of_others = self.within_cells(common, some, pairs[:, some])
        squared = together**2 / np.maximum(spread * of_others, 1e-12)
        varies = spread > 1e-9
        excess = (varies * ((counts - 1) * squared - 1)).sum(axis=0)
        matters[some] *= 1 - rising(excess / np.sqrt(2 * varies.sum(axis=0) + 1e-12), *ALONE)
        return matters

    @cached_property
    def common_effects(self) -> Array:
        """The effects of a model without effects of environments, and without what the judges agree on."""
        first = self.codings[0]
        return fit_model(self.sites, self.without_agreed(first), self.ridge, start=first.start).common

    def against_noise(self, column: int) -> float:
        """Return by how much flipped labels explain a column worse than a change of its own does, as a statistic.

        Flipped labels mix rows of both classes, and the other columns tell which: among rows of one label, a column
        would go with them where labels are flipped more often, as much as it lost in strength there. One that only
        depends on the label as it is written does not. This is asked of two classes only.
        """
        if self.n_classes > 2 or not self.apart[column]:
            return 0.0
        design, pairs = self.without_agreed(self.codings[0]), np.array(self.pairs[0]).T[:, [column]]
        both = column_and_others(design, self.common_effects, np.array([column]), pairs, [self.members[column]])
        value, others = (part[:, 0] for part in both)
        cells = 2 * np.repeat(np.arange(len(self.sites)), self.sites.sizes) + self.sites.target[:, 0].astype(np.intp)

        def sums(values: Array) -> Array:
            return np.asarray(np.bincount(cells, self.sites.weights * values, minlength=2 * len(self.sites)), float)

        counts = np.maximum(sums(np.ones(len(cells))), 1e-9)
        mean, said = sums(value) / counts, (sums(others) / counts).reshape(-1, 2)
        value = value - mean[cells]
        squares = sums(value**2)
        variance = np.maximum(
            (squares + squares.sum() / counts.sum()) / (counts + 1), 1e-9
        )  # of few rows less is known
        gaps, errors = np.diff(mean.reshape(-1, 2))[:, 0], np.sqrt((variance / counts).reshape(-1, 2).sum(axis=1))
        sign = 1.0 if gaps.sum() >= 0 else -1.0
        strongest = float((sign * gaps - errors).max())
        if strongest <= 0:
            return 0.0
        flipped = np.clip((1 - (sign * gaps + errors) / strongest) / 2, 1e-6, 0.5)  # share of the labels, at least
        log_odds = special.logit(1 - flipped)[:, None] * np.array([-1.0, 1.0]) - said.mean(axis=1, keepdims=True)
        right = special.expit(others + log_odds.ravel()[cells])
        expected = sign * strongest * (right - (sums(right) / counts)[cells])
        information = float((sums(expected**2) / variance).sum())
        together = float((sums(expected * value) / variance).sum())  # less than zero: the others were fitted beside it
        return float(self.apart[column]) * max(0.0, information - 2 * max(together, 0.0))

    def within_cells(self, common: Array, some: NDArray[np.intp], pairs: NDArray[np.intp]) -> tuple[Array, ...]:
        """Return for each environment and label its rows, and sums of squares and products about means there.

        They are of some columns, of these with what the others say, and of what the others say.
        """
        design, labels = self.without_agreed(self.codings[0]), self.sites.target @ np.arange(1, self.n_classes)
        cells = np.repeat(np.arange(len(self.sites)), self.sites.sizes) * self.n_classes + labels
        sizes = np.bincount(cells.astype(np.intp))
        sizes = sizes[sizes > 0]
        weights, starts = self.sites.weights[:, None], np.cumsum(sizes) - sizes

        def sums(values: Array) -> Array:
            return np.asarray(np.add.reduceat(weights * values, starts, axis=0))  # (n_cells, …)

        counts = np.maximum(sums(np.ones((len(cells), 1))), 2)
        both = column_and_others(design, common, some, pairs, [self.members[j] for j in some])
        column, others = (part - np.repeat(sums(part) / counts, sizes, axis=0) for part in both)
        return counts, sums(column**2), sums(column * others), sums(others**2)

    def test_alone(self, coding: Coding) -> Array:
        """Test columns without the others, which would take away the rows whose label they make certain."""
        if coding.alone is None:
            first, coding.alone = self.codings[0], np.zeros(self.n_tested)
            for j in np.flatnonzero(self.apart).tolist():
                same = coding.design[:, :, j], first.design[:, :, j]
                if coding is not first and first.alone is not None and np.array_equal(*same):
                    coding.alone[j] = first.alone[j]  # not a quantity
                    continue
                design = design_alone(coding.design, j, self.pairs[self.codings.index(coding)][j])
                fit = self.fits_alone[j] = fit_model(self.sites, design, 0.5, start=self.fits_alone.get(j))
                coding.alone[j] = score_tests(self.sites, design, local_design(design, (), ()), fit, 0.5, ())[0]
        return coding.alone

    def score_tests(self, coding: Coding, own: Sequence[int], fit: Fit, further: list[Array]) -> Array:
        """Test every column, and further ones, for an effect that differs between environments."""
        local = local_design(coding.design, own, coding.scales)
        return score_tests(self.sites, coding.design, local, fit, self.ridge, further)

    def adjusted(self, statistic: Array, importance: Array, own: Sequence[int]) -> Array:
        """Return p values adjusted for the number of columns; most of the level goes by what columns are worth."""
        free = self.free(own)
        even = self.shares[free] / max(float(self.shares[free].sum()), 1e-12)
        share = EVEN * even + (1 - EVEN) * importance[free] / max(float(importance[free].sum()), 1e-12)
        p = np.ones(len(statistic))
        p[free] = np.minimum(1.0, special.chdtrc(self.degrees, statistic[free]) / share)
        p[self.recipe.too_rare] = 1.0
        return p

    def measure(
        self, fits: list[Fit], i: int, column: int, statistic: float, p_value: float, rival: float, noisier: bool
    ) -> Effect:
        """Return a named column's effect in each environment, in the coding in which it varies less."""
        choices = []
        for number, (coding, fit) in enumerate(zip(self.codings, fits, strict=True)):
            scales = [np.ones(len(self.sites))] + ([self.relative_scales(coding)] if noisier else [])
            for scale in scales:
                effects, errors = (fit.common[column] + fit.deviations[:, i]) / scale, fit.errors[:, i] / scale
                mean, spread, _ = random_effects(effects, errors)
                pair = self.pairs[number][column]
                size = size_of_change(effects, errors, self.n_classes)
                supported = supported_share(effects, errors, self.n_classes)
                choices.append(
                    Effect(column, statistic, p_value, rival, pair, effects, errors, mean, spread, size, supported)
                )
        return min(choices, key=lambda effect: effect.size)

    def fit_named(self, coding: Coding, start: Fit | None) -> Fit:
        """Return the fit in which the named columns are measured: without what the judges agree on."""
        design, out = self.without_agreed(coding), self.left_out
        return fit_model(self.sites, design, self.ridge, self.own, start=start, errors=True, out=out)

    @property
    def left_out(self) -> tuple[int, ...]:
        """The columns that would take a part of a named effect: of a category its values, of a value what all say."""
        out: list[int] = []
        for column in self.own:
            first, *members = self.family(column) or [column]
            out += members if first == column else [first]
        return tuple(out)

    def relative_scales(self, coding: Coding) -> Array:
        """Return the slope of the whole score in each environment, relative to their mean."""
        return relative_effects(fit_model(self.sites, coding.scales[0][:, :, None], OWN, (0,)))

    def without_agreed(self, coding: Coding) -> Array:
        """Return the design without what the judges agree on, which has a part of every effect."""
        return coding.design[:, :, : coding.design.shape[2] - coding.n_agreed]


@dataclass(frozen=True, eq=False)
class Tests:
    """Score tests of every column, and of what noisier labels would do to all of them."""

    statistics: Array  # (n_columns,)
    scale: float  # the statistic of a scale of the whole score for each environment
    noise: float  # that of flipped labels
    importance: Array  # (n_columns,) squared common effect
    scales: list[Array]  # (n_rows, n_classes - 1)
    fit: Fit

    def rival_of(self, against_noise: float) -> float:
        """Return the statistic of what would explain a column's change too, less what speaks against flipped labels.

        If labels were not flipped, that everything is weaker somewhere, and by as much, is a looser story still, the
        more so the more environments have a scale of their own: as the root of their degrees of freedom.
        """
        looser = min(against_noise, LOOSE * math.sqrt(len(self.fit.intercepts) - 1))
        return max(self.scale - LOOSE - looser, self.noise - against_noise, 0.0)


def rivals(
    sites: Sites, design: Array, own: Sequence[int], common: Array, deviations: Array, chances: Array
) -> tuple[Array, Array]:
    """Return what noisier labels scale: the whole score of each row, and the form that flipped labels have."""
    mine = np.repeat(deviations, sites.sizes, axis=0)
    score = design @ common + np.einsum("nkl,nl->nk", design[:, :, list(own)], mine)
    first = 1 - chances.sum(axis=1, keepdims=True)  # flipped labels add as much to every class
    return score, 1 / np.maximum(first, 0.02) - 1 / np.maximum(chances, 0.02)


def column_and_others(
    design: Array,
    common: Array,
    some: NDArray[np.intp],
    pairs: NDArray[np.intp],
    members: Sequence[NDArray[np.intp]],
) -> tuple[Array, Array]:
    """Return some columns, and what all others say, about the pairs of classes; a group's columns are none of them."""
    column = _between(design[:, :, some], *pairs)
    others = _between(_said_by(design, common, slice(None)), *pairs) - column * common[some]
    for place, group in enumerate(members):
        if len(group):
            others[:, [place]] -= _between(_said_by(design, common, group), *pairs[:, [place]])
    return column, others


def _said_by(design: Array, common: Array, some: Any) -> Array:
    """Return what some columns say together, as one column."""
    return np.asarray(design[:, :, some] @ common[some])[:, :, None]


def design_alone(design: Array, column: int, pair: tuple[int, int], bent: bool | None = None) -> Array:
    """Return a column without the others, and bent where it is a quantity, or as `bent` says."""
    alone = design[:, :, [column]]
    value = _between(alone, *np.array(pair)[:, None])[:, :, None]
    if _is_quantity(value.ravel()) if bent is None else bent:
        return np.concatenate([alone, alone * np.clip(value, -3, 3)], axis=2)
    return alone


def relative_effects(fit: Fit) -> Array:
    """Return the effects of a fit's one column, relative to their mean."""
    slopes = np.maximum(fit.common[0] + fit.deviations[:, 0], 1e-3)
    return np.asarray(slopes / slopes.mean())


@contextlib.contextmanager
def _nearly_converged() -> Iterator[None]:
    """Let a fit end after its last step without a word: it says which columns to look at, and nobody can act on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _coefficients(
    columns: Block, y: NDArray[np.intp], codes: NDArray[np.intp], weights: Array, n_columns: int
) -> tuple[Array, Array]:
    """Return the common effects of columns on every class but the first, and the probabilities of these."""
    from sklearn.linear_model import LogisticRegression

    design = sp.hstack([sp.csr_array(columns), sp.csr_array(_indicators(codes, n_columns))], format="csr")
    model = LogisticRegression(C=2 / n_columns, max_iter=300, tol=1e-6)
    with _nearly_converged():
        model.fit(design, y, sample_weight=weights)
    found = model.coef_ if len(model.coef_) == 1 else model.coef_[1:] - model.coef_[:1]
    return np.asarray(found[:, : columns.shape[1]]), np.asarray(model.predict_proba(design)[:, 1:])


def _coefficients_by_fold(
    columns: Array,
    y: NDArray[np.intp],
    codes: NDArray[np.intp],
    weights: Array,
    n_columns: int,
    parts: Sequence[NDArray[np.bool_]],
) -> Array:
    """Return the common effects on every class but the first in parts of the rows, each fit begun with the last one.

    Of a class that a part has not, nothing is known: its level is the mean of all.
    """
    from sklearn.linear_model import LogisticRegression

    design, n_classes = np.hstack([columns, _indicators(codes, n_columns)]), int(y.max()) + 1
    unfitted = partial(LogisticRegression, C=2 / n_columns, max_iter=300, tol=1e-4, solver="newton-cg", warm_start=True)
    model, known = unfitted(), np.arange(n_classes)
    levels = np.zeros((len(parts), n_classes, columns.shape[1]))
    for level, rows in zip(levels, parts, strict=True):
        classes = np.unique(y[rows])
        if len(classes) < 2:
            continue
        if not np.array_equal(classes, known):
            model, known = unfitted(), classes
        with _nearly_converged():
            model.fit(design[rows], y[rows], sample_weight=weights[rows])
        coef = model.coef_[:, : columns.shape[1]]
        level[classes] = coef if len(classes) > 2 else np.vstack([-coef / 2, coef / 2])
    return np.asarray(levels[:, 1:] - levels[:, :1])


def _indicators(codes: NDArray[np.intp], n_columns: int) -> Array:
    """Return a column for each environment, so long that intercepts of environments are hardly penalized."""
    return np.asarray(3 * np.sqrt(n_columns) * np.eye(int(codes.max()) + 1)[codes])


def _directed(columns: Array, weights: Array, folds: NDArray[np.intp]) -> tuple[Array, list[tuple[int, int]]]:
    """Return what each column says about every class but the first, (n_rows, n_classes - 1, n_columns).

    With more than two classes it is in units of what it says about the pair of classes between which it says most, and
    what it says of a row was learned from other folds: what many columns say of rows that taught them is too certain.
    """
    weight = weights.mean(axis=0)
    if len(weight) == 1:
        return columns[:, None, :], [(0, 1)] * columns.shape[1]
    levels = np.vstack([np.zeros(weight.shape[1]), weight])  # of every class
    pairs = [_widest(column) for column in levels.T]
    units = np.array([levels[b, j] - levels[a, j] for j, (a, b) in enumerate(pairs)])
    scaled = weights / np.where(np.abs(units) > 1e-12, units, np.inf)
    return columns[:, None, :] * scaled[folds], pairs


def _together(columns: Array, weights: Array, folds: NDArray[np.intp], recipe: Recipe) -> Array:
    """Return what columns say together, each row as learned from the other folds."""
    said = np.stack([columns @ weight.T for weight in weights])[folds, np.arange(len(columns))]
    return in_units(said, recipe(lambda: unit_of(said)))


def _widest(levels: Array) -> tuple[int, int]:
    """Return the two classes that are furthest apart, the one of the smaller code first."""
    a, b = sorted((int(np.argmin(levels)), int(np.argmax(levels))))
    return (a, b) if a != b else (0, 1)


def _main_pair(values: Array) -> tuple[int, int]:
    """Return the two classes between which values for every class but the first vary most."""
    levels = np.hstack([np.zeros((len(values), 1)), values])
    pairs = list(itertools.combinations(range(levels.shape[1]), 2))
    return max(pairs, key=lambda pair: float(np.std(levels[:, pair[1]] - levels[:, pair[0]])))


def _unit(values: Array) -> Array:
    """Return values for every class but the first, centered, in units of what varies most between two classes."""
    return in_units(values, unit_of(values))


def unit_of(values: Array) -> tuple[Array, float]:
    """Return the means of values for every class but the first, and what varies most between two classes."""
    (first, second), mean = _main_pair(values), values.mean(axis=0)
    levels = np.hstack([np.zeros((len(values), 1)), values])
    return mean, max(float(np.std(levels[:, second] - levels[:, first])), 1e-9)


def in_units(values: Array, unit: tuple[Array, float]) -> Array:
    """Return values centered, in units."""
    return np.asarray((values - unit[0]) / unit[1])


def _dense_columns(
    values: Block, y: NDArray[np.intp], codes: NDArray[np.intp], weights: Array
) -> tuple[Array, NDArray[np.intp], list[Array]]:
    """Return the columns to test as an array, their numbers, and what the others say, fitted."""
    if values.shape[1] > MOST_EXACT:
        return _screened(values, y, codes, weights)
    dense = values.toarray() if is_sparse(values) else np.asarray(values, dtype=np.float64)
    return dense, np.arange(values.shape[1]), []


def _screened(
    values: Block, y: NDArray[np.intp], codes: NDArray[np.intp], weights: Array
) -> tuple[Array, NDArray[np.intp], list[Array]]:
    """Fit all columns of a wide table, and keep those with most evidence or most weight; the rest is an offset."""
    matrix = sp.csr_array(values)
    n_columns, n_sites = matrix.shape[1], int(codes.max()) + 1
    mean = np.asarray(matrix.mean(axis=0)).ravel()
    deviation = np.sqrt(np.maximum(np.asarray(matrix.multiply(matrix).mean(axis=0)).ravel() - mean**2, 0))
    scaled = sp.csr_array(matrix @ sp.diags_array(1 / np.where(deviation > 1e-9, deviation, np.inf)))
    weight, chances = _coefficients(scaled, y, codes, weights, n_columns)
    direction = weight / np.maximum(np.linalg.norm(weight, axis=0), 1e-12) if len(weight) > 1 else np.ones_like(weight)
    scores, information = np.zeros((n_sites, n_columns)), np.full((n_sites, n_columns), 1e-3)
    for code, (k, along) in itertools.product(range(n_sites), enumerate(direction)):
        there = np.flatnonzero(codes == code)
        block, chance = scaled[there], chances[there, k]
        share, left = weights[there] * chance * (1 - chance), weights[there] * ((y[there] == k + 1) - chance)
        center = np.asarray(block.T @ share).ravel() / max(float(share.sum()), 1e-12)
        known = np.asarray(block.multiply(block).T @ share).ravel() - center**2 * share.sum()
        scores[code] += along * (np.asarray(block.T @ left).ravel() - center * left.sum())
        information[code] += along**2 * np.maximum(known, 0)
    rank = (scores**2 / information).sum(axis=0) - scores.sum(axis=0) ** 2 / information.sum(axis=0)
    size = (weight**2).sum(axis=0)
    chosen = np.union1d(np.argsort(-rank, kind="stable")[:SCREENED], np.argsort(-size, kind="stable")[:SCREENED])
    rest = np.setdiff1d(np.arange(n_columns), chosen)
    return matrix[:, chosen].toarray(), chosen, [_unit(np.asarray(scaled[:, rest] @ weight[:, rest].T))]


def _standardized(columns: Array, weights: Array, recipe: Recipe) -> tuple[Array, NDArray[np.intp]]:
    """Return columns with their tails pulled in, of mean 0 and variance 1, and the numbers of those that vary.

    The columns are changed in place: a table that is large is not copied once more.
    """
    low, high = recipe(lambda: tail_limits(columns))
    np.clip(columns, low, high, out=columns)
    share = weights / weights.sum()
    columns -= recipe(lambda: share @ columns)
    deviation = recipe(lambda: np.sqrt(np.einsum("n,nj,nj->j", share, columns, columns)))
    varies = np.flatnonzero(deviation > 1e-9 * np.maximum(np.maximum(np.abs(low), np.abs(high)), 1e-300))
    if len(varies) < len(deviation):
        columns, deviation = columns[:, varies], deviation[varies]
    columns /= deviation
    return columns, varies


def _normal_scores(columns: Array, sites: Sites, quantities: NDArray[np.intp]) -> list[tuple[int, Array, Array]]:
    """Return which quantities are tested by normal scores, some values of each, and their scores.

    A normal score is where a normal distribution has as many rows below. Of a skewed quantity it may be the order of
    magnitude that matters, as of many laboratory values, or the amount, as of prices: the label decides.
    """
    some = columns[:, quantities]
    skewed = quantities[np.abs(np.einsum("nj,nj,nj->j", some, some, some)) > SKEWED * len(some)].tolist()
    if not skewed:
        return []
    found, chances, classes = [], (np.arange(N_SCORES) + 0.5) / N_SCORES, np.eye(sites.target.shape[1])
    without = fit_model(sites, np.zeros((len(columns), *classes.shape)), 0.5)
    labels = (sites.target - sites.target.mean(axis=0)) / np.maximum(sites.target.std(axis=0), 1e-9)
    for j in skewed:
        values, places = np.unique(np.quantile(columns[:, j], chances), return_inverse=True)
        if len(values) < N_SCORES / 2:  # mostly one value
            continue
        scores = np.bincount(places, weights=special.ndtri(chances)) / np.bincount(places)
        straight = np.interp(columns[:, j], values, scores)
        center, scale = straight.mean(), straight.std()
        straight = (straight - center) / scale
        if np.max((straight @ labels) ** 2) / len(straight) < SAYS_MORE[1]:  # about twice what it can say
            continue
        magnitude, amount = (
            fit_model(sites, column[:, None, None] * classes, 0.5, start=without).loss
            for column in (straight, columns[:, j])
        )
        if amount - magnitude > max(SAYS_MORE[0] * (without.loss - amount), SAYS_MORE[1]):
            found.append((j, values, (scores - center) / scale))
    return found


def _standardized_within(columns: Array, sites: Sites, quantities: NDArray[np.intp], recipe: Recipe) -> Array:
    """Return the columns with quantities in standard deviations of each environment, where they vary in it at all.

    A column such as the year, where environments are decades, varies little in each of them, but it does.
    """
    result, bounds = columns.copy(), list(zip(sites.starts, sites.starts + sites.sizes, strict=True))
    parts = [result[start:end, quantities] for start, end in bounds]
    known = [recipe(lambda part=part: (part.mean(axis=0), part.std(axis=0))) for part in parts]  # type: ignore[misc]
    usual = np.sqrt(np.mean([deviation**2 for _, deviation in known], axis=0))
    for (start, end), part, (mean, deviation) in zip(bounds, parts, known, strict=True):
        varies = deviation > np.maximum(0.1 * usual, 1e-9)
        result[start:end, quantities] = (part - mean) / np.where(varies, deviation, 1.0)
    return result


def _is_quantity(column: Array) -> bool:
    """Return whether a column has many values; most show it in their first rows."""
    return len(np.unique(column[:100])) >= QUANTITY or len(np.unique(column)) >= QUANTITY


def _too_rare(columns: Array, quantities: NDArray[np.intp], n_sites: int) -> NDArray[np.intp]:
    """Return the standardized codes that differ from their usual value in fewer rows than there are environments.

    A single row with an unlikely label would be all that is known of such a code in its environment.
    """
    n_different = len(columns) / (1 + np.square(columns).max(axis=0, initial=0.0))  # of a code with two values
    return np.setdiff1d(np.flatnonzero(n_different < n_sites - 0.5), quantities)


def _squares(columns: Array, quantities: NDArray[np.intp], recipe: Recipe) -> Array:
    """Return the standardized square of every quantity."""
    squares = columns[:, quantities]
    np.clip(squares, -3, 3, out=squares)
    squares *= squares
    squares -= recipe(lambda: squares.mean(axis=0))
    deviation = recipe(lambda: np.sqrt(np.einsum("nj,nj->j", squares, squares) / max(len(squares), 1)))
    varies = deviation > 1e-9
    if not varies.all():
        squares, deviation = squares[:, varies], deviation[varies]
    squares /= deviation
    return squares


def _between(values: Array, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
    """Return what each column says about one class against another, (n_rows, n_columns)."""
    if values.shape[1] == 1:
        return values[:, 0]
    columns = np.arange(len(first)) if values.shape[2] > 1 else 0
    levels = np.concatenate([np.zeros_like(values[:, :1]), values], axis=1)
    return np.asarray(levels[:, second, columns] - levels[:, first, columns])


def rising(values: Array | float, start: float, end: float) -> Array:
    """Return values as shares of the way from start to end, between 0 and 1."""
    return np.asarray(np.clip((values - start) / (end - start), 0.0, 1.0))
