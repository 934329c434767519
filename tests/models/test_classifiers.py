"""The examples that classify images, against transformers and a plain ResNet of PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import Compiled, Interpreted, distance, example, randomised, save, transformer
from torch import nn

from lumigen.dtype import DType, bf16, f32

# As a share of the greatest logit: sums in another order, and 2^-9 of every number held in bf16.
TOLERANCE = {f32: 1e-4, bf16: 2e-2}
SIZE = 32
IMAGES = np.random.default_rng(2).integers(0, 256, (2, SIZE, SIZE, 3), np.uint8)


def pixels(mean: list[float], deviation: list[float]) -> torch.Tensor:
    """(batch, channel, height, width), as processors of images hand them to a model."""
    x = (IMAGES / 255 - mean) / deviation
    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())


def imagenet() -> torch.Tensor:
    return pixels([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


VIT = {
    "hidden_size": 24,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 40,
    "image_size": SIZE,
    "patch_size": 8,
    "num_labels": 7,
}


class Block(nn.Module):
    """torchvision's BasicBlock."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride > 1:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    """torchvision's resnet18, of other widths, and as many stages as there are widths."""

    def __init__(self, widths: tuple[int, ...], labels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.count = len(widths)
        for i, width in enumerate(widths):
            first = Block(widths[max(i - 1, 0)], width, 2 if i else 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(first, Block(width, width, 1)))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1], labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for i in range(self.count):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(self.avgpool(x).flatten(1))


def vit(
    folder: Path, model: str = "ViTForImageClassification", config: str = "ViTConfig"
) -> np.ndarray:
    """The logits that the random model in the folder is to give."""
    reference = transformer(folder, model, config, **VIT)
    with torch.no_grad():
        return reference(pixels([0.5] * 3, [0.5] * 3)).logits.numpy()


def deit(folder: Path) -> np.ndarray:
    return vit(folder, "DeiTForImageClassification", "DeiTConfig")


def taught_deit(folder: Path) -> np.ndarray:
    return vit(folder, "DeiTForImageClassificationWithTeacher", "DeiTConfig")


def resnet18(folder: Path) -> np.ndarray:
    reference = randomised(ResNet((8, 16), 5))
    save(folder, {k: v.numpy() for k, v in reference.state_dict().items() if v.ndim}, {})
    with torch.no_grad():
        return reference(imagenet()).numpy()


def resnet50(folder: Path) -> np.ndarray:
    """Bottlenecks, as transformers has them."""
    sizes = {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [2, 1], "num_labels": 5}
    names = ("ResNetForImageClassification", "ResNetConfig")
    reference = transformer(folder, *names, layer_type="bottleneck", **sizes)
    with torch.no_grad():
        return reference(imagenet()).logits.numpy()


def options(name: str) -> dict[str, str]:
    return {"size": str(SIZE)} if name == "resnet" else {}


def test_a_resnet_is_that_of_torchvision(tmp_path: Path) -> None:
    expected = resnet18(tmp_path)
    context = Interpreted(*example("resnet", tmp_path, **options("resnet")))
    assert distance(context.run("classify", image=IMAGES)["logits"], expected) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
@pytest.mark.parametrize(
    ("name", "made"),
    [("vit", vit), ("vit", deit), ("vit", taught_deit), ("resnet", resnet50)],
)
def test_the_graphs_give_what_transformers_gives(name, made, dtype: DType, tmp_path: Path) -> None:
    expected = made(tmp_path)
    context = Interpreted(*example(name, tmp_path, **options(name)), dtype)
    error = distance(context.run("classify", image=IMAGES)["logits"], expected)
    assert error < (1e-5 if dtype is f32 else TOLERANCE[bf16])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "made", "dtype"),
    [("vit", vit, bf16), ("resnet", resnet18, f32)],
    ids=["vit-bf16", "resnet18-f32"],
)
def test_the_kernels_give_the_logits(name, made, dtype: DType, tmp_path: Path) -> None:
    expected = made(tmp_path)
    context = Compiled(*example(name, tmp_path, **options(name)), dtype)
    found = context.run("classify", image=IMAGES)["logits"]
    assert distance(found, expected) < TOLERANCE[dtype]
    one = context.run("classify", image=IMAGES[1:])["logits"]
    assert distance(one, expected[1:]) < TOLERANCE[dtype]
