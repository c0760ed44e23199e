"""The registry of networks: a name or a callable in, an `nn.Module` out.

A network gets its name from `register_network`, or from an entry point of the group ``holdfast.networks`` in an
installed package. A registered factory is called as ``factory(input_shape=…, n_classes=…, dropout=…, **options)``:

- ``input_shape`` is the shape of one row: ``(n_features,)`` for vectors, ``(channels, height, width)`` for images, and
  ``(n_tokens,)``, the size of the vocabulary, for texts. Texts arrive as (n_rows, length) int64 token numbers, where
  0 is padding and 1 any unknown word (``holdfast.text``).
- A text factory also takes ``vectors``, an (n_tokens, dimension) float tensor of fixed word vectors, or None.
- The module maps a batch to (n_rows, n_classes) logits. Ours derive from `Network` and so have
  ``features(x) -> (n_rows, n_features)`` and ``classifier``, the last linear layer.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from torch import Tensor, nn

from holdfast.exceptions import InputTypeError, ParameterError, PluginError
from holdfast.registry import Registry

Factory: TypeAlias = Callable[..., nn.Module]
FactoryT = TypeVar("FactoryT", bound=Factory)

NETWORKS: Registry[Factory] = Registry(
    "network", group="holdfast.networks", accepts=callable, expected="a class or function that returns an nn.Module"
)


class Network(nn.Module):
    """A network that shows its last hidden layer: logits = classifier(features(x)).

    Subclasses set ``classifier`` (the last `nn.Linear`) and define ``features``. All take ``input_shape`` (of one row),
    ``n_classes`` (the number of outputs) and ``dropout`` (the probability that a unit is dropped during training).
    """

    classifier: nn.Linear

    def features(self, inputs: Tensor) -> Tensor:
        """Return the last hidden layer, (n_rows, n_features)."""
        raise NotImplementedError(f"{type(self).__name__} does not define features().")

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, (n_rows, n_classes)."""
        return self.classifier(self.features(inputs))  # type: ignore[no-any-return]


def register_network(name: str) -> Callable[[FactoryT], FactoryT]:
    """Return a decorator that registers a class or function; `name` is what users write as ``network=``."""

    def register(factory: FactoryT) -> FactoryT:
        NETWORKS.register(name, factory)
        return factory

    return register


def build_network(
    network: str | Factory, *, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0, **options: Any
) -> nn.Module:
    """Build a network by its name in `NETWORKS`, by a callable, or as a copy of a module with its weights.

    A callable takes whichever it likes of ``input_shape`` (of one row; for texts ``(n_tokens,)``), ``n_classes`` (the
    number of outputs), ``dropout`` and the options, for example ``hidden=(64, 64)``.
    """
    arguments: dict[str, Any] = {"input_shape": input_shape, "n_classes": n_classes, "dropout": dropout}
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    if isinstance(network, str):
        if network not in NETWORKS:
            raise ParameterError(
                f"The 'network' parameter must be one of {sorted(NETWORKS)}, a callable that returns an nn.Module, "
                f"or an nn.Module. Got {network!r} instead."
            )
        factory = NETWORKS[network]
        _refuse_unknown_options(network, factory, options)
        built = factory(**arguments, **options)
    elif callable(network):
        built = network(**_accepted(network, arguments), **options)
    else:
        raise InputTypeError(
            f"The 'network' parameter must be a name, a callable or an nn.Module. Got {type(network).__name__} instead."
        )
    if not isinstance(built, nn.Module):
        raise InputTypeError(f"The 'network' callable must return an nn.Module. It returned {type(built).__name__}.")
    return built


def _accepted(factory: Factory, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the callable takes."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(arguments)
    return {name: value for name, value in arguments.items() if name in parameters}


def _refuse_unknown_options(name: str, factory: Factory, options: Mapping[str, Any]) -> None:
    """Refuse options that the factory does not take, and name those that it does."""
    parameters = inspect.signature(factory).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = sorted(set(options) - set(parameters))
    if unknown:
        known = sorted(set(parameters) - {"input_shape", "n_classes", "dropout"})
        raise ParameterError(f"Network {name!r} has no option {unknown[0]!r}. Its options are {known}.")


def reads_text(network: str | Factory) -> bool | None:
    """Return whether a named network reads token numbers; None for what only its author knows."""
    if not isinstance(network, str) or network not in NETWORKS:
        return None
    try:
        return "vectors" in inspect.signature(NETWORKS[network]).parameters
    except PluginError:  # whoever asks for it by name is told
        return None


def has_batch_statistics(network: nn.Module) -> bool:
    """Return whether rows of a batch influence one another's outputs (batch normalization)."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())
