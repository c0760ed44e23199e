"""ResNet-50 and MobileNetV2 with torchvision's parameter names, so that its weights load."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.neural.networks import Network
from holdfast.neural.networks.pretrained import ImageNetNormalization, check_images, load_weights

_EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut; the 3x3 convolution has the stride."""

    def __init__(self, n_inputs: int, width: int, stride: int) -> None:
        super().__init__()
        n_outputs = width * _EXPANSION
        self.conv1 = nn.Conv2d(n_inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, n_outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(n_outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or n_inputs != n_outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_inputs, n_outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(n_outputs)
            )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (n_rows, 4 * width, height / stride, width / stride) maps."""
        shortcut = inputs if self.downsample is None else self.downsample(inputs)
        maps = F.relu(self.bn1(self.conv1(inputs)), inplace=True)
        maps = F.relu(self.bn2(self.conv2(maps)), inplace=True)
        return F.relu(self.bn3(self.conv3(maps)) + shortcut, inplace=True)


class ResNet50(Network):
    """ResNet-50 (He et al. 2016), the stride in the 3x3 convolution as torchvision has it.

    Images are (3, height, width) with entries in [0, 1], which the network normalizes as for ImageNet. `weights` is a
    `.pth` or `.safetensors` file with torchvision's names; a last layer of another size is left out.
    """

    def __init__(
        self, *, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0, weights: Path | str | None = None
    ) -> None:
        super().__init__()
        check_images("resnet50", input_shape)
        self.normalization = ImageNetNormalization()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _layer(64, 64, n_blocks=3, stride=1)
        self.layer2 = _layer(256, 128, n_blocks=4, stride=2)
        self.layer3 = _layer(512, 256, n_blocks=6, stride=2)
        self.layer4 = _layer(1024, 512, n_blocks=3, stride=2)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(512 * _EXPANSION, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if weights is not None:
            load_weights(self, weights, head="fc")

    @property
    def classifier(self) -> nn.Linear:  # type: ignore[override]
        """The last layer, which torchvision calls `fc`."""
        return self.fc

    def features(self, inputs: Tensor) -> Tensor:
        """Return the pooled maps, (n_rows, 2048)."""
        maps = F.relu(self.bn1(self.conv1(self.normalization(inputs))), inplace=True)
        maps = F.max_pool2d(maps, 3, stride=2, padding=1)
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        return maps.mean(dim=(2, 3))  # type: ignore[no-any-return]

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits, with units dropped first."""
        return self.classifier(self.dropout(features))  # type: ignore[no-any-return]


def _layer(n_inputs: int, width: int, *, n_blocks: int, stride: int) -> nn.Sequential:
    """Return blocks of which the first strides."""
    first = Bottleneck(n_inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(width * _EXPANSION, width, 1) for _ in range(n_blocks - 1)))


# Expansion, channels, blocks, stride of the first block (Sandler et al. 2018, table 2).
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
_FIRST, _LAST = 32, 1280


class InvertedResidual(nn.Module):
    """Widen, convolve each channel by itself, narrow; with a shortcut where the shape stays."""

    def __init__(self, n_inputs: int, n_outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = n_inputs * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [_convolution(n_inputs, width, size=1)]
        layers += [
            _convolution(width, width, stride=stride, n_groups=width),
            nn.Conv2d(width, n_outputs, 1, bias=False),
            nn.BatchNorm2d(n_outputs),
        ]
        self.conv = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and n_inputs == n_outputs

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (n_rows, n_outputs, height / stride, width / stride) maps."""
        maps: Tensor = self.conv(inputs)
        return inputs + maps if self.has_shortcut else maps


class Head(nn.Sequential):
    """Dropout and the last linear layer: torchvision's `classifier`, with the sizes of a linear layer."""

    def __init__(self, n_features: int, n_classes: int, dropout: float) -> None:
        super().__init__(nn.Dropout(dropout), nn.Linear(n_features, n_classes))
        self.in_features = n_features
        self.out_features = n_classes


class MobileNetV2(Network):
    """MobileNetV2 of width 1.

    Images are (3, height, width) with entries in [0, 1], which the network normalizes as for ImageNet. `weights` is a
    `.pth` or `.safetensors` file with torchvision's names; a last layer of another size is left out.
    """

    classifier: Head  # type: ignore[assignment]

    def __init__(
        self, *, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0, weights: Path | str | None = None
    ) -> None:
        super().__init__()
        check_images("mobilenet_v2", input_shape)
        self.normalization = ImageNetNormalization()
        layers: list[nn.Module] = [_convolution(3, _FIRST, stride=2)]
        n_inputs = _FIRST
        for expansion, n_outputs, n_blocks, stride in _STAGES:
            for block in range(n_blocks):
                layers.append(InvertedResidual(n_inputs, n_outputs, stride if block == 0 else 1, expansion))
                n_inputs = n_outputs
        layers.append(_convolution(n_inputs, _LAST, size=1))
        # torchvision's name is also that of our method, which wins in `self.features`: the layers are looked up by key.
        self._modules["features"] = nn.Sequential(*layers)
        self.classifier = Head(_LAST, n_classes, dropout)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        if weights is not None:
            load_weights(self, weights, head="classifier.1")

    def features(self, inputs: Tensor) -> Tensor:
        """Return the pooled maps, (n_rows, 1280)."""
        layers = self._modules["features"]
        maps: Tensor = layers(self.normalization(inputs))  # type: ignore[misc]
        return maps.mean(dim=(2, 3))


def _convolution(n_inputs: int, n_outputs: int, *, size: int = 3, stride: int = 1, n_groups: int = 1) -> nn.Sequential:
    """Return a convolution, its batch normalization and ReLU6."""
    return nn.Sequential(
        nn.Conv2d(n_inputs, n_outputs, size, stride=stride, padding=size // 2, groups=n_groups, bias=False),
        nn.BatchNorm2d(n_outputs),
        nn.ReLU6(inplace=True),
    )
