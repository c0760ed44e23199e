"""Settings, device and precision."""

import numpy as np
import pytest
import torch

from holdfast.exceptions import ParameterError
from holdfast.neural.settings import TrainingSettings, autocast, has_bf16_hardware, resolve_device, resolve_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_epochs": 0}, "'max_epochs' parameter must be a positive integer. Got 0 instead"),
        ({"steps_per_epoch": 2.5}, "'steps_per_epoch' parameter must be a positive integer. Got 2.5 instead"),
        ({"batch_size": True}, "'batch_size' parameter must be a positive integer. Got True instead"),
        ({"patience": 0}, "'patience' parameter must be a positive integer or None. Got 0 instead"),
        (
            {"selection_rows": 0},
            "'training__selection_rows' parameter must be a positive integer or None. Got 0 instead",
        ),
        ({"learning_rate": 0}, "'learning_rate' parameter must be a positive number. Got 0 instead"),
        ({"learning_rate": float("nan")}, "'learning_rate' parameter must be a positive number. Got nan"),
        ({"weight_decay": -1}, "'weight_decay' parameter must be a number of at least 0. Got -1 instead"),
        (
            {"weight_averaging": 1.0},
            "'training__weight_averaging' parameter must be a decay between 0 and 1, or None. Got 1.0",
        ),
        (
            {"scheduler": "step"},
            "'scheduler' parameter must be 'cosine', a callable such as .*StepLR, or None. Got 'step'",
        ),
        (
            {"precision": "fp16"},
            r"'training__precision' parameter must be one of \['auto', 'fp32', 'bf16'\]. Got 'fp16'",
        ),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    """Each message says what was expected and what came."""
    with pytest.raises(ParameterError, match=message):
        TrainingSettings(**settings)


def test_numpy_numbers_are_numbers():
    """A grid search hands over numpy integers and floats."""
    assert TrainingSettings(max_epochs=np.int64(3), learning_rate=np.float32(0.1)).max_epochs == 3


def test_device_is_resolved_once_and_errors_are_clear():
    """auto, a name, an unknown one, and a missing accelerator."""
    assert resolve_device("cpu") == CPU
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ParameterError, match="must be 'auto' or a torch device .* Got 'gpu' instead"):
        resolve_device("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ParameterError, match="torch finds no CUDA device. Use device='auto'"):
            resolve_device("cuda:0")


def test_auto_precision_follows_the_hardware(monkeypatch):
    """bfloat16 only where the CPU multiplies it in hardware; an explicit choice wins."""
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert (has_bf16_hardware(CPU), resolve_precision("auto", CPU)) == (False, "fp32")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    assert resolve_precision("auto", CPU) == "bf16"
    assert resolve_precision("fp32", CPU) == "fp32"


def test_bf16_context_computes_in_bfloat16():
    """Matrix products inside the context come out as bfloat16, outside as float32."""
    with autocast("bf16", CPU)():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with autocast("fp32", CPU)():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
