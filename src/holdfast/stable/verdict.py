"""The verdict: what was fitted, why, what it costs and what it saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.environments import listed
from holdfast.metrics import Interval
from holdfast.stable.decision import CAUTION
from holdfast.stable.findings import LIKELY, OF_SEVERAL, REASONS, Finding

if TYPE_CHECKING:
    from holdfast.stable.network import NetworkFinding

FAR_ABOVE = 0.5  # of the RMSE at known environments: how much more at the next one is no good news
UNCERTAIN = 0.2  # accuracy that the next environment may lack, from which on the answer is no good news
RARE = 0.9  # share of the most frequent label from which on accuracy says little, and AUROC is said too
SUSPECTED = 0.05  # adjusted p value from which on a column that is kept is mentioned, with the reason


@dataclass(frozen=True)
class Accuracy:
    """Accuracy, or AUROC, of the ordinary classifier and of the fitted one, out of fold, mean over environments."""

    ordinary: float
    fitted: float


@dataclass(frozen=True)
class Verdict:
    """What was fitted, why, what it costs and what it saves.

    Attributes
    ----------
    fitted : "ordinary", "partly" or "stable"
        The ordinary classifier; one that uses less of the unstable columns; one that ignores them.
    columns : tuple of Finding
        The columns that the classifier uses less, and those whose effects differ but that are kept for a reason.
    kept : mapping of str to float
        How much of the effect of each of these columns is used.
    price : Interval
        Accuracy lost at environments like the known ones, out of fold.
    known, vanished, reversed : Accuracy
        Accuracy now; if the effect of the columns that are used less vanishes; if it reverses. The latter two are
        measured on the same rows with the columns shuffled, or exchanged between labels, inside each environment.
    forecast : Interval
        Accuracy of the fitted classifier to expect at the next environment (95 %).
    by_environment : mapping of str to Accuracy
        Empty where there was one environment only, so that nothing could be compared.
    chance : float
        Accuracy of always predicting the most frequent label.
    n_tests : int
        Columns that were looked at; a column and its missing values count once.
    auroc : mapping of str to Accuracy
        AUROC in place of accuracy, for "known", "vanished" and "reversed", where nine rows in ten or more have the same
        label, so that accuracy says little; else empty.
    caution : float
        As asked for.
    network : NetworkFinding or None
        What was found where the input has no columns: pictures, sequences, Datasets. None for tables.
    """

    what: ClassVar[str] = "classifier"  # what was fitted
    measure: ClassVar[str] = "accuracy"  # of `by_environment`

    fitted: Literal["ordinary", "partly", "stable"]
    columns: tuple[Finding, ...]
    kept: Mapping[str, float]
    price: Interval
    known: Accuracy
    vanished: Accuracy
    reversed: Accuracy
    forecast: Interval
    by_environment: Mapping[str, Accuracy] = field(default_factory=dict)
    chance: float = float("nan")
    n_tests: int = 0
    auroc: Mapping[str, Accuracy] = field(default_factory=dict)
    caution: float = CAUTION
    network: NetworkFinding | None = None

    @property
    def posterior(self) -> dict[str, float]:
        """The probability that the effect of a column changes, for each of `columns`."""
        return {finding.feature: finding.probability for finding in self.columns}

    @property
    def reasons(self) -> dict[str, str]:
        """Why a column is kept although its effects seem to differ: a key of `REASONS`."""
        return {f.feature: f.reason or "small_change" for f in self.columns if self.kept[f.feature] == 1.0}

    @property
    def gain(self) -> tuple[float, float]:
        """Accuracy saved if the effect of the columns vanishes, and if it reverses."""
        return self.vanished.fitted - self.vanished.ordinary, self.reversed.fitted - self.reversed.ordinary

    @property
    def acted_on(self) -> tuple[Finding, ...]:
        """The columns that are used less, the least used first."""
        used = [finding for finding in self.columns if self.kept[finding.feature] < 1.0]
        return tuple(sorted(used, key=lambda finding: self.kept[finding.feature]))

    def __str__(self) -> str:
        return " ".join([self.answer, *self.remarks])

    def __repr__(self) -> str:
        kept = ", ".join(f"{finding.feature} {self.kept[finding.feature]:.2f}" for finding in self.acted_on[:5])
        more = f" and {len(self.acted_on) - 5} more" if len(self.acted_on) > 5 else ""
        return f"<{type(self).__name__}: {self.fitted} {self.what}{f', kept: {kept}{more}' if kept else ''}>"

    def _repr_html_(self) -> str:
        """Return the answer and a table of the environments, for notebooks."""
        from holdfast.stable.notebook import html_card

        places = {f"in {name}": accuracy for name, accuracy in self.by_environment.items()}
        if self.fitted != "ordinary":
            places = {"if the effect vanishes": self.vanished, "if it reverses": self.reversed, **places}
        rows = [(place, accuracy.ordinary, accuracy.fitted) for place, accuracy in places.items()]
        return html_card(self.answer, self.remarks, (self.measure, "ordinary", "fitted"), rows)

    @property
    def answer(self) -> str:
        """What was fitted and why, in one or two sentences."""
        if not self.by_environment:
            return f"Ordinary {self.what}: there is only one environment, so nothing could be compared."
        if self.network is not None:
            if self.network.outcome == "unstable" and self.fitted == "ordinary":
                return "Ordinary classifier: caution is 0, so nothing is given up."
            return self.network.answer
        less = self.acted_on
        if not less:
            return f"Ordinary {self.what}: {self._nothing}."
        names = _names(less)
        likely = min(finding.probability for finding in less)
        verb = "may differ" if likely < LIKELY else "differs" if len(less) == 1 else "differ"
        differ = f"the effect of {names} {verb}" if len(less) == 1 else f"the effects of {names} {verb}"
        chance = f"probability {likely:.2f}" if len(less) == 1 else f"probability at least {likely:.2f}"
        if self.fitted == "stable":
            them = "it" if len(less) == 1 else "them"
            return f"Stable {self.what}: {differ} between sites ({chance}), so the {self.what} ignores {them}."
        shares = [self.kept[finding.feature] for finding in less]
        share = f"{shares[0]:.0%}" if len(less) == 1 else f"{min(shares):.0%} to {max(shares):.0%}"
        its = "its effect" if len(less) == 1 else "their effects"
        return (
            f"Partly stable {self.what}: {differ} between sites ({chance}), so the {self.what} uses {share} of {its}."
        )

    @property
    def _nothing(self) -> str:
        """Why the ordinary classifier was kept."""
        if self.caution == 0:
            return "caution is 0, so nothing is given up"
        n = self.n_tests
        if not self.columns:
            which = (
                "the effect of its one column does not differ"
                if n == 1
                else f"none of the {n:,} columns has an effect that differs"
            )
            return f"{which} between sites"
        names = _names(self.columns)
        differ = (
            f"the effect of {names} seems to differ"
            if len(self.columns) == 1
            else f"the effects of {names} seem to differ"
        )
        return f"{differ} between sites, but {self._why(self.columns)}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Price, gain and what else to know, a sentence each."""
        if not self.by_environment:
            return ()
        if self.fitted == "ordinary":
            price = () if self.network is None else (self.network.price,)
            return (*price, *self._ranking, self._forecast)
        known, gone, turned = self.known, self.vanished, self.reversed
        is_one = len(self.acted_on) == 1 or self.network is not None
        effect = "the effect" if is_one else "these effects"
        ends = ("vanishes", "reverses") if is_one else ("vanish", "reverse")
        it = "it" if is_one else "they"
        lines = [
            f"Accuracy at known sites: {known.fitted:.3f} instead of {known.ordinary:.3f}.",
            f"If {effect} {ends[0]}: {gone.fitted:.3f} instead of {gone.ordinary:.3f}; "
            f"if {it} {ends[1]}: {turned.fitted:.3f} instead of {turned.ordinary:.3f}.",
            *self._ranking,
        ]
        score, nothing = (self.auroc["known"], 0.5) if self.auroc else (known, self.chance)
        skill, left = score.ordinary - nothing, score.fitted - nothing
        if skill > 0 and left < 0.1 * skill:
            without = "ranking rows at random" if self.auroc else "always predicting the most frequent label"
            them = "the unstable part" if self.network is not None else "these columns"
            lines.append(f"Without {them} the classifier is hardly better than {without}.")
        elif skill > 0 and left < 0.5 * skill:
            them = "what differs" if self.network is not None else "these columns"
            lines.append(f"More than half of the skill at known sites came from {them}.")
        return (*lines, *self._kept_whole, self._forecast)

    @property
    def _kept_whole(self) -> list[str]:
        """Which columns are kept although their effects seem to differ, beside those that are not."""
        whole = [finding for finding in self.columns if self.kept[finding.feature] == 1.0]
        if not whole:
            return []
        seems = "seems" if len(whole) == 1 else "seem"
        effect = "The effect" if len(whole) == 1 else "The effects"
        return [f"{effect} of {_names(whole)} {seems} to differ too, but {self._why(whole)}."]

    def _why(self, columns: Sequence[Finding]) -> str:
        """Say why columns whose effects differ are kept."""
        reasons = self.reasons
        found = {reasons[finding.feature] for finding in columns if finding.feature in reasons}
        texts = {**REASONS, **OF_SEVERAL} if len(columns) > 1 else REASONS
        return ", or ".join(text for reason, text in texts.items() if reason in found)

    @property
    def _ranking(self) -> list[str]:
        """How well rows are ranked, where accuracy says little because nearly all have the same label."""
        if not self.auroc:
            return []
        known, gone, turned = self.auroc.values()
        text = f"{says_little(self.chance)}. AUROC at known sites: "
        if self.fitted == "ordinary":
            return [f"{text}{known.fitted:.3f}."]
        return [
            f"{text}{known.fitted:.3f} instead of {known.ordinary:.3f}; if the effect vanishes: {gone.fitted:.3f} "
            f"instead of {gone.ordinary:.3f}; if it reverses: {turned.fitted:.3f} instead of {turned.ordinary:.3f}."
        ]

    @property
    def is_uncertain(self) -> bool:
        """Whether accuracy at the next environment may be far below that at known ones."""
        return self.known.fitted - self.forecast.low > UNCERTAIN

    @property
    def _forecast(self) -> str:
        return f"Expect an accuracy of {self.forecast.low:.2f} to {self.forecast.high:.2f} at a new site."

    def renamed(self, names: Mapping[str, str]) -> Verdict:
        """Return the verdict with other names for its columns."""
        columns = tuple(replace(found, feature=names.get(found.feature, found.feature)) for found in self.columns)
        kept = {names.get(name, name): share for name, share in self.kept.items()}
        return replace(self, columns=columns, kept=kept)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return {
            "text": str(self),
            **asdict(self),
            "columns": [{**finding.to_dict(), "kept": self.kept[finding.feature]} for finding in self.columns],
            "posterior": self.posterior,
            "reasons": self.reasons,
            "network": None if self.network is None else self.network.to_dict(),
        }


@dataclass(frozen=True)
class RegressionVerdict(Verdict):
    """The verdict about a model of a number.

    As `Verdict`, with R² in the place of accuracy; `price` is the R² that is lost. `known`, `vanished` and `reversed`
    are of all rows, `by_environment` of the rows of each, and `forecast` is the RMSE at the next environment.

    Attributes
    ----------
    rmse : mapping of str to Accuracy
        The RMSE of the ordinary and of the fitted model, for "known", "vanished" and "reversed".
    """

    what: ClassVar[str] = "model"
    measure: ClassVar[str] = "R²"

    rmse: Mapping[str, Accuracy] = field(default_factory=dict)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Price, gain and what else to know, a sentence each."""
        if not self.by_environment:
            return ()
        if self.fitted == "ordinary":
            return (self._forecast,)
        is_one = len(self.acted_on) == 1
        effect, ends = ("the effect", "vanishes") if is_one else ("these effects", "vanish")
        turned = "it reverses" if is_one else "they reverse"
        return (
            f"At known sites: {self._compared('known')}.",
            f"If {effect} {ends}: {self._compared('vanished')}; if {turned}: {self._compared('reversed')}.",
            *self._kept_whole,
            self._forecast,
        )

    def _compared(self, question: str) -> str:
        r2, rmse = getattr(self, question), self.rmse[question]
        return (
            f"R² {r2.fitted:.3f} instead of {r2.ordinary:.3f} (RMSE {rmse.fitted:.3g} instead of {rmse.ordinary:.3g})"
        )

    @property
    def is_uncertain(self) -> bool:
        """Whether the RMSE at the next environment may be far above that at known ones."""
        return bool(self.by_environment) and self.forecast.high > (1 + FAR_ABOVE) * self.rmse["known"].fitted

    @property
    def _forecast(self) -> str:
        return f"Expect an RMSE of {self.forecast.low:.3g} to {self.forecast.high:.3g} at a new site."


def verdict_of(fitted: Any) -> Verdict | None:
    """Return the verdict of a fitted method; None where it has none, as all but `StableClassifier`."""
    return getattr(fitted, "verdict_", None)


def fitted_as(kept: Sequence[float]) -> Literal["ordinary", "partly", "stable"]:
    """Return what a classifier is that uses so much of each column.

    Examples
    --------
    >>> fitted_as([0.0, 1.0]), fitted_as([0.0, 0.5]), fitted_as([1.0])
    ('stable', 'partly', 'ordinary')
    """
    less = [share for share in kept if share < 1.0]
    return "ordinary" if not less else "stable" if max(less) == 0.0 else "partly"


def says_little(share: float) -> str:
    """Say that accuracy tells little, where such a share of the rows has the same label.

    Examples
    --------
    >>> says_little(0.984), says_little(0.9996)[:6]
    ('98.4% of the rows have the same label, so accuracy says little', '99.9% ')
    """
    return f"{min(100 * share, 99.9):.3g}% of the rows have the same label, so accuracy says little"


def _names(columns: Sequence[Finding]) -> str:
    return listed([f"`{finding.feature}`" for finding in columns], most=3)
