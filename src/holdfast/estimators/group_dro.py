"""Group DRO: minimize the worst-case risk over known groups. The oracle knows the unstable attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Group, PerRow, cross_groups, label_array, listed, unique_labels
from holdfast.estimators.base import MethodClassifier, check_choice
from holdfast.exceptions import EnvironmentsError, ParameterError, SmallGroupWarning, warn
from holdfast.fitting.kinds import Estimator
from holdfast.rows.reading import is_share
from holdfast.rows.training import TrainingRows, ValidationRows
from holdfast.seeding import RandomState, Seeding


def known_groups(training: TrainingRows, classes: NDArray[Any]) -> tuple[Group, ...]:
    """Return the groups that the caller gave, or environment × label."""
    if training.group_labels is not None:
        codes, names = training.group_labels
        return cross_groups(["group"], [codes], [[name.removeprefix("group ") for name in names]])
    labels = [str(label) for label in classes]
    return cross_groups(
        ["environment", "label"], [training.environment_codes, training.y], [_environment_names(training), labels]
    )


def agreement_groups(training: TrainingRows, classes: NDArray[Any], attribute: PerRow) -> tuple[Group, ...]:
    """Return environment × (attribute equals the label): the oracle as the authors' code has it."""
    values = _attribute(attribute, training.n_rows)
    agrees = np.array([str(value) == str(classes[code]) for value, code in zip(values, training.y, strict=True)])
    if not agrees.any():
        raise EnvironmentsError(
            f"the attribute never equals the label: it takes {listed(sorted(set(map(str, values))))}, the labels are "
            f"{listed([str(label) for label in classes])}. Use the same codes for both, or form='label_attribute'."
        )
    return cross_groups(
        ["environment", "attribute equals label"],
        [training.environment_codes, agrees.astype(np.intp)],
        [_environment_names(training), ["no", "yes"]],
    )


def attribute_groups(training: TrainingRows, classes: NDArray[Any], attribute: PerRow) -> tuple[Group, ...]:
    """Return label × attribute: the oracle as the paper's text has it."""
    values, codes = unique_labels(_attribute(attribute, training.n_rows), what="attribute", error=EnvironmentsError)
    return cross_groups(
        ["label", "attribute"], [training.y, codes], [[str(c) for c in classes], [str(v) for v in values]]
    )


def large_groups(groups: Sequence[Group], min_group_size: int) -> tuple[Group, ...]:
    """Return the groups that are large enough and warn about the others; all groups if none is."""
    kept = tuple(group for group in groups if group.effective_size() >= min_group_size)
    small = [f"{g.name} ({g.effective_size():.0f})" for g in groups if g.effective_size() < min_group_size]
    if small and kept:
        warn(
            f"{len(small)} of {len(groups)} groups are below min_group_size={min_group_size} (effective) rows and are "
            f"dropped: {listed(small)}. Lower min_group_size to keep them.",
            SmallGroupWarning,
        )
    return kept or tuple(groups)


def _attribute(attribute: PerRow, n_rows: int) -> NDArray[Any]:
    return label_array(attribute, n_rows, what="attribute", error=EnvironmentsError, example="frame['color']")


def _environment_names(training: TrainingRows) -> list[str]:
    return [environment.name for environment in training.environments]


@dataclass(eq=False, repr=False)
class GroupDROClassifier(MethodClassifier):
    r"""Group distributionally robust optimization (Sagawa et al., 2020).

    The groups :math:`g` are known, and the largest of their risks is minimized:

    .. math:: \min_f \max_g R_g(f).

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
    solver, reweight_rounds, objective, selection, min_group_size, n_folds, n_jobs, random_state
        As for `PIClassifier`.

    Attributes
    ----------
    groups_, group_risks_, group_weights_, worst_case_risk_, gap_, solver_, history_, estimator_, environments_
        As for `PIClassifier`.

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.3))
    >>> model = GroupDROClassifier()
    >>> _ = model.fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> float(model.score(toy.test.X, toy.test.y))
    0.8
    """

    __metadata_request__fit = {"group_labels": True}  # scikit-learn reads this

    estimator: Estimator | None = None
    _: KW_ONLY
    solver: Literal["auto", "convex", "gradient", "reweight"] = "auto"
    reweight_rounds: int = 20
    objective: Literal["max", "online"] = "max"
    selection: str | None = None
    min_group_size: int = 1
    n_folds: int = 2
    n_jobs: int | None = None
    random_state: RandomState = None

    def fit(
        self,
        X: Any,
        y: PerRow = None,
        *,
        environments: PerRow = None,
        group_labels: PerRow = None,
        sample_weight: PerRow = None,
        validation: Any = None,
        folds: PerRow = None,
    ) -> Self:
        """Fit on the groups.

        Parameters
        ----------
        X, y, sample_weight, validation, folds
            As for `PIClassifier.fit`.
        environments : labels of shape (n_rows,), optional
            Groups are environment × label; the labels alone without environments.
        group_labels : labels of shape (n_rows,), optional
            The groups themselves, instead of environment × label.
        """
        training = self._read_training(
            X, y, environments, sample_weight=sample_weight, group_labels=group_labels, folds=folds
        )
        training, held_out = self._take_validation(training, validation)
        return self._solve(training, known_groups(training, self.classes_), held_out)

    def _solve(self, training: TrainingRows, groups: tuple[Group, ...], held_out: ValidationRows | None) -> Self:
        """Minimize the worst-case risk over the groups and keep what was found."""
        check_choice(self, "objective", ("max", "online"))
        self.groups_ = large_groups([g.weighted(training.sample_weight) for g in groups], self.min_group_size)
        estimator, seeding = self._coded_estimator(training), Seeding(self.random_state)
        self._check_network(estimator, held_out)
        solution = self._minimize(estimator, training, self.groups_, seeding, validation=held_out)
        return self._keep_solution(solution, held_out)


@dataclass(eq=False, repr=False)
class OracleClassifier(GroupDROClassifier):
    """Group DRO on the unstable attribute itself: what could be reached if the bias were known.

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
    form : "agreement" or "label_attribute"
        Groups are environment × (attribute equals the label), as in the authors' code, or label × attribute, as in the
        paper's text.
    solver, reweight_rounds, objective, selection, min_group_size, n_folds, n_jobs, random_state
        As for `PIClassifier`.

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = OracleClassifier()
    >>> rows = toy.train
    >>> _ = model.fit(rows.X, rows.y, attribute=rows.attributes["x2"], environments=rows.environments)
    >>> float(model.score(toy.test.X, toy.test.y))
    0.8
    """

    __metadata_request__fit = {"attribute": True}  # scikit-learn reads this

    _: KW_ONLY
    form: Literal["agreement", "label_attribute"] = "agreement"

    def fit(  # type: ignore[override] # the oracle takes the attribute instead of groups
        self,
        X: Any,
        y: PerRow = None,
        *,
        attribute: PerRow = None,
        environments: PerRow = None,
        sample_weight: PerRow = None,
        validation: Any = None,
        folds: PerRow = None,
    ) -> Self:
        """Fit on groups of the unstable attribute.

        Parameters
        ----------
        X, y : rows and labels
        attribute : values of shape (n_rows,)
            The unstable attribute; coded like the labels for `form="agreement"`.
        environments, sample_weight, validation, folds
            As for `GroupDROClassifier`.
        """
        check_choice(self, "form", ("agreement", "label_attribute"))
        training = self._read_training(X, y, environments, sample_weight=sample_weight, folds=folds)
        if attribute is None:
            raise EnvironmentsError(
                "OracleClassifier needs the unstable attribute. Pass attribute=, for example "
                "attribute=frame['color']; without such a column use PIClassifier, which needs none."
            )
        if is_share(validation):
            raise ParameterError("OracleClassifier takes validation rows, not a share. Pass validation=(X, y).")
        groups = agreement_groups if self.form == "agreement" else attribute_groups
        held_out = self._read_validation(validation)
        return self._solve(training, groups(training, self.classes_, attribute), held_out)
