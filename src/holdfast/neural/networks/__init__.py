"""Networks by name.

A network gets its name from a line in `NETWORKS`, from `register_network`, or from an entry point of the group
``holdfast.networks`` in an installed package. Its factory is called as
``factory(input_shape=…, n_classes=…, dropout=…, **options)``:

- ``input_shape`` is the shape of one row: ``(n_features,)`` for vectors, ``(channels, height, width)`` for images, and
  ``(n_tokens,)``, the size of the vocabulary, for texts. Texts arrive as (n_rows, length) int64 token numbers, where
  0 is padding and 1 any unknown word (`holdfast.neural.sources.Vocabulary`).
- A text factory also takes ``vectors``, an (n_tokens, dimension) float tensor of fixed word vectors, or None.
- A dict or a Dataset of dicts gives a dict of shapes, and its entries go to ``forward`` by name.
- The module maps a batch to (n_rows, n_classes) logits; for two classes one output will do. Ours derive from `Network`
  and so have ``features(x) -> (n_rows, n_features)`` and ``classifier``, the last linear layer.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from holdfast.exceptions import FeaturesError, HoldfastError, InputTypeError, ParameterError, PluginError
from holdfast.neural.options import check_options
from holdfast.registry import Registry

Factory: TypeAlias = Callable[..., nn.Module]
FactoryT = TypeVar("FactoryT", bound=Factory)

NETWORKS: Registry[Factory] = Registry(
    "network",
    {
        "linear": "holdfast.neural.networks.small:Linear",
        "mlp": "holdfast.neural.networks.small:MLP",
        "cnn": "holdfast.neural.networks.small:CNN",
        "text_cnn": "holdfast.neural.networks.text_cnn:TextCNN",
        "resnet50": "holdfast.neural.networks.imagenet:ResNet50",
        "mobilenet_v2": "holdfast.neural.networks.imagenet:MobileNetV2",
    },
    group="holdfast.networks",
    accepts=callable,
    expected="a class or function that returns an nn.Module",
)


class Network(nn.Module):
    """A network that shows its last hidden layer: logits = classify(features(x)).

    Subclasses set ``classifier`` (the last `nn.Linear`) and define ``features``, and ``classify`` where units are
    dropped between the two. All take ``input_shape`` (of one row), ``n_classes`` (the number of outputs) and
    ``dropout`` (the probability that a unit is dropped during training).
    """

    classifier: nn.Linear

    def features(self, inputs: Tensor) -> Tensor:
        """Return the last hidden layer, before the classifier's dropout, (n_rows, n_features)."""
        raise NotImplementedError(f"{type(self).__name__} does not define features().")

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits for the last hidden layer, (n_rows, n_classes)."""
        return self.classifier(features)  # type: ignore[no-any-return]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, (n_rows, n_classes)."""
        return self.classify(self.features(inputs))


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
        check_network_options(network, options)
        built = factory(**arguments, **options)
    elif callable(network):
        check_network_options(network, options)
        built = network(**_accepted(network, arguments), **options)
    else:
        raise InputTypeError(
            f"The 'network' parameter must be a name, a callable or an nn.Module. Got {type(network).__name__} instead."
        )
    if not isinstance(built, nn.Module):
        raise InputTypeError(f"The 'network' callable must return an nn.Module. It returned {type(built).__name__}.")
    return built


def run_network(network: nn.Module, inputs: Any, n_outputs: int | None = None) -> Tensor:
    """Run a network on a batch and return its outputs, (n_rows, n_outputs).

    A dict goes to the arguments of `forward` by name, or as a whole where `forward` takes one argument that none of
    its keys names. Of an answer with `logits`, such as those of Hugging Face, these are the outputs. One output z where
    `n_outputs` is 2 is that of a binary classifier: it becomes (0, z), whose softmax is (1 − sigmoid(z), sigmoid(z)).
    """
    answer = call_network(network, inputs)
    if not isinstance(answer, Tensor):
        answer = getattr(answer, "logits", answer)
        answer = answer["logits"] if isinstance(answer, Mapping) and "logits" in answer else answer
        answer = answer[0] if isinstance(answer, tuple) else answer
    if not isinstance(answer, Tensor):
        raise InputTypeError(
            f"The network returned {type(answer).__name__}, expected a tensor, or an answer with 'logits'."
        )
    return as_logits(answer, n_outputs)


def call_network(network: nn.Module, inputs: Any) -> Any:
    """Return what a network answers to a batch; entries of a dict go to `forward` by name, or as a whole."""
    return network(**inputs) if isinstance(inputs, Mapping) and _by_name(network, inputs) else network(inputs)


def as_logits(outputs: Tensor, n_outputs: int | None) -> Tensor:
    """Return outputs with one column for each class; one output z of a binary classifier becomes (0, z)."""
    outputs = outputs.unsqueeze(1) if outputs.ndim == 1 else outputs
    if n_outputs == 2 and outputs.shape[1:] == (1,):
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    return outputs


def _by_name(network: nn.Module, inputs: Mapping[str, Any]) -> bool:
    """Return whether `forward` takes the entries of a dict by name."""
    parameters = inspect.signature(network.forward).parameters.values()
    named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL}
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    return any(p.kind is p.VAR_KEYWORD for p in parameters) or len(required) != 1 or not named.isdisjoint(inputs)


def check_outputs(network: nn.Module, inputs: Any, n_outputs: int) -> None:
    """Run a network on some rows before it is trained; refuse one that cannot read them or whose outputs do not fit."""
    was_training = network.training
    network.eval()
    entries = inputs if isinstance(inputs, Mapping) else {"X": inputs}
    shown = ", ".join(f"{name} {tuple(entry.shape)} {str(entry.dtype)[6:]}" for name, entry in entries.items())
    try:
        with torch.no_grad():
            outputs = run_network(network, inputs, n_outputs)
    except HoldfastError:
        raise
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as problem:
        integers = not any(entry.is_floating_point() for entry in entries.values())
        advice = " Integers stay integers in a dict or Dataset: use floats for measurements." if integers else ""
        if any(entry.ndim == 4 and entry.shape[3] <= 4 < entry.shape[1] for entry in entries.values()):
            advice = " If the channels are last, put them first: image.transpose(2, 0, 1)."
        raise FeaturesError(
            f"The network {type(network).__name__} cannot read the first rows of X ({shown}): {problem}.{advice}"
        ) from problem
    finally:
        network.train(was_training)
    n_rows = len(next(iter(entries.values())))
    if outputs.shape != (n_rows, n_outputs):
        one = " (or one, for two classes)" if n_outputs == 2 else ""
        needed = f"{n_outputs} outputs{one}, one for each class" if n_outputs > 1 else "one output"
        raise ParameterError(
            f"The network {type(network).__name__} gives outputs of shape {tuple(outputs.shape)} for {n_rows} rows, "
            f"but {needed} are needed: shape ({n_rows}, {n_outputs}). Change its last layer."
        )


def _accepted(factory: Factory, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the callable takes."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(arguments)
    return {name: value for name, value in arguments.items() if name in parameters}


def check_network_options(network: str | Factory, options: Iterable[str]) -> None:
    """Refuse options that a network does not take, and name those that it does; a module has its settings already."""
    factory = NETWORKS[network] if isinstance(network, str) and network in NETWORKS else network
    if callable(factory) and not isinstance(factory, nn.Module):
        name = network if isinstance(network, str) else getattr(network, "__name__", network)
        check_options(f"Network {name!r}", "network", factory, options)


def takes_option(network: str | Factory, option: str) -> bool:
    """Return whether a network can be built with an option, as far as its signature tells."""
    try:
        check_network_options(network, [option])
    except ParameterError:
        return False
    return True


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
