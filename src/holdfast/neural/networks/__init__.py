"""Networks by name: one registry, one module for each family.

Importing a module below registers its networks; a new family needs one import line here, or `register_network` in
the user's own code.
"""

from holdfast.neural.networks.registry import (
    NETWORKS,
    Factory,
    Network,
    as_logits,
    build_network,
    check_outputs,
    has_batch_statistics,
    reads_text,
    register_network,
    run_network,
)

# isort: split
# The families register themselves, so they come after the registry.
from holdfast.neural.networks import imagenet, small, text_cnn  # noqa: F401

__all__ = [
    "NETWORKS",
    "Factory",
    "Network",
    "as_logits",
    "build_network",
    "check_outputs",
    "has_batch_statistics",
    "reads_text",
    "register_network",
    "run_network",
]
