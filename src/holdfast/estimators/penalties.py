"""IRM, V-REx and RGM: networks trained with a penalty on what differs between environments."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sklearn.pipeline import Pipeline

from holdfast.environments import PerRow
from holdfast.estimators.base import MethodClassifier, fit_erm, scaled, warn_single_environment
from holdfast.exceptions import ParameterError
from holdfast.fitting.estimators import is_network, last_step, seeded_clone
from holdfast.fitting.kinds import Estimator
from holdfast.seeding import RandomState, Seeding

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.neural.objectives import Objective


@dataclass(eq=False, repr=False)
class EnvironmentObjectiveClassifier(MethodClassifier):
    """Base of the methods that train a network on the environments' batches.

    A new method is a subclass with `_penalty`, a function of the environments' risks, or with `_objective`, and a line
    in the registry of methods.
    """

    needs_network: ClassVar[bool] = True

    estimator: Estimator | None = None
    _: KW_ONLY
    penalty_weight: float = 1.0
    warm_up: int = 100
    selection: str | None = None
    random_state: RandomState = None

    def _penalty(self, risks: Tensor) -> Tensor:
        """Return the penalty for the environments' risks, (n_environments,), as a scalar to differentiate."""
        raise NotImplementedError

    def _objective(self) -> Objective:
        """Return what the training loop minimizes: the mean risk plus `penalty_weight` times the penalty."""
        from holdfast.neural.objectives import RiskPenalty  # torch loads when a network is trained, not before

        return RiskPenalty(weight=self.penalty_weight, warm_up=self.warm_up, penalty=self._penalty)

    def _default_estimator(self, X: Any) -> Pipeline:
        """Return columns scaled to unit variance, then a small network."""
        from holdfast.neural.estimator import NeuralClassifier

        return scaled(X, ("network", NeuralClassifier("mlp")))

    def fit(
        self,
        X: Any,
        y: PerRow = None,
        *,
        environments: PerRow = None,
        sample_weight: PerRow = None,
        validation: Any = None,
    ) -> Self:
        """Train on batches of every environment.

        Parameters
        ----------
        X, y, environments, sample_weight, validation
            As for `PIClassifier.fit`.
        """
        from holdfast.interpolation.gradient import NetworkFit, solve_gradient

        training = self._read_training(X, y, environments, sample_weight=sample_weight)
        estimator = self._coded_estimator(training)
        if not is_network(estimator):
            raise ParameterError(
                f"The 'estimator' parameter of {type(self).__name__} must be a NeuralClassifier, since its penalty is "
                f"differentiated. Got {type(last_step(estimator)).__name__} instead; "
                "NeuralClassifier('linear') is the linear one."
            )
        training, validation = self._take_validation(training, validation)
        self._check_network(estimator, validation)
        seeding = Seeding(self.random_state)
        if warn_single_environment(training.environments, type(self).__name__):
            fitted = fit_erm(estimator, training, seeding, validation=validation, selection=self.selection)
            return self._keep_fitted(fitted, validation)
        self.groups_ = training.environment_groups()
        network = seeded_clone(estimator, seeding, "environments")
        fit = NetworkFit(objective=self._objective(), validation=validation, selection=self.selection, stage="training")
        return self._keep_solution(solve_gradient(network, training, self.groups_, seeding, fit), validation)


@dataclass(eq=False, repr=False)
class IRMClassifier(EnvironmentObjectiveClassifier):
    r"""Invariant risk minimization (Arjovsky et al., 2019).

    The best scale of the logits should be the same in every environment. With :math:`R_e(w)` the risk in environment
    :math:`e` of the logits times :math:`w`, the objective is

    .. math:: \frac{1}{n} \sum_e \left[ R_e(1) + \lambda \, R_e'(1)^2 \right].

    Parameters
    ----------
    estimator : NeuralClassifier, a Pipeline that ends in one, or None
        None: columns scaled to unit variance, then a small network.
    penalty_weight : float
        Weight of the penalty after the warm-up; above 1 the whole loss is divided by it.
    warm_up : int
        Steps with a penalty weight of 1 before that.
    variant : "squared" or "unbiased"
        The squared gradient of one batch, or the product of the gradients of its two halves, whose mean is the squared
        gradient of the whole environment.
    selection : str or None
        The rule that selects the epoch.
    random_state : int or None

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.neural import NeuralClassifier
    >>> X, y = np.array([[0.0], [1.0]] * 20), np.array(["no", "yes"] * 20)
    >>> network = NeuralClassifier("linear", max_epochs=2, learning_rate=0.1)
    >>> model = IRMClassifier(network, random_state=0).fit(X, y, environments=np.repeat(["Boston", "Chicago"], 20))
    >>> model.predict([[0.0], [1.0]]).tolist()
    ['no', 'yes']
    """

    _: KW_ONLY
    variant: Literal["squared", "unbiased"] = "squared"

    def _objective(self) -> Objective:
        from holdfast.neural.objectives import IRM

        return IRM(weight=self.penalty_weight, warm_up=self.warm_up, variant=self.variant)


@dataclass(eq=False, repr=False)
class VRExClassifier(EnvironmentObjectiveClassifier):
    r"""Variance risk extrapolation (Krueger et al., 2021).

    The risks of the environments should be equal. The objective is

    .. math:: \frac{1}{n} \sum_e R_e + \lambda \operatorname{Var}_e(R_e).

    Parameters
    ----------
    estimator, penalty_weight, warm_up, selection, random_state
        As for `IRMClassifier`; the penalty is the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.neural import NeuralClassifier
    >>> X, y = np.array([[0.0], [1.0]] * 20), np.array(["no", "yes"] * 20)
    >>> network = NeuralClassifier("linear", max_epochs=2, learning_rate=0.1)
    >>> model = VRExClassifier(network, random_state=0).fit(X, y, environments=np.repeat(["Boston", "Chicago"], 20))
    >>> model.predict([[0.0], [1.0]]).tolist()
    ['no', 'yes']
    """

    _: KW_ONLY
    penalty_weight: float = 100.0

    def _objective(self) -> Objective:
        from holdfast.neural.objectives import VREx

        return VREx(weight=self.penalty_weight, warm_up=self.warm_up)


@dataclass(eq=False, repr=False)
class RGMClassifier(EnvironmentObjectiveClassifier):
    r"""Regret minimization (Jin et al., 2020).

    A head that is trained on the features of the other environments should predict as well as one that is trained on
    the environment itself. With :math:`h_{-e}` and :math:`h_e` these heads, and an environment :math:`e` drawn in each
    step, the objective is

    .. math:: \frac{1}{n} \sum_{e'} R_{e'} + \lambda \left[ R_e(h_{-e}) - R_e(h_e) \right].

    Parameters
    ----------
    estimator, penalty_weight, warm_up, selection, random_state
        As for `IRMClassifier`; the penalty is the regret.
    hidden : int
        Width of the hidden layer of the auxiliary heads, 390 as in the experiments of Bao et al. (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.neural import NeuralClassifier
    >>> X, y = np.array([[0.0], [1.0]] * 20), np.array(["no", "yes"] * 20)
    >>> network = NeuralClassifier("linear", max_epochs=2, learning_rate=0.1)
    >>> model = RGMClassifier(network, random_state=0).fit(X, y, environments=np.repeat(["Boston", "Chicago"], 20))
    >>> model.predict([[0.0], [1.0]]).tolist()
    ['no', 'yes']
    """

    edition: ClassVar[int] = 2  # 1 had heads of 64 units, without dropout, behind the classifier's

    _: KW_ONLY
    penalty_weight: float = 0.1
    hidden: int = 390

    def _objective(self) -> Objective:
        from holdfast.neural.objectives import RGM

        return RGM(weight=self.penalty_weight, warm_up=self.warm_up, hidden=self.hidden)
