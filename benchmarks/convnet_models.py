"""Convolutional networks, written once for two libraries of layers: torch.nn and lumigen.nn."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

SIZES = {"resnet18": 224, "yolov8n": 640}  # height and width of the images, in pixels
LATENT = 64  # of what the block of a diffusion model's network has


def make(  # noqa: C901  # a namespace of layers
    nn: ModuleType, cat: Callable[..., Any]
) -> dict[str, Any]:
    """The networks by name, made of the layers of `nn`; `cat` joins tensors of its library.

    ResNet-18 gives (batch, 1000), the detector in the shape of YOLOv8n (batch, 144, places): 64 numbers of
    boxes and 80 of classes at each of 8400 places, as its three heads leave them. ResNet-50 gives (batch, 1000); a
    block of a diffusion model's network takes (batch, 320, LATENT, LATENT) and gives half as many rows of 640 channels.
    The decoder of its images takes (batch, 4, LATENT, LATENT) and gives images of 8 times as many rows and columns.
    """

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Identity()
            if stride != 1 or inputs != outputs:
                conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.bn1(self.conv1(x)).relu()
            return (self.bn2(self.conv2(y)) + self.shortcut(x)).relu()

    def resnet18():
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        layers.append(nn.MaxPool2d(3, 2, 1))
        inputs = 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            layers += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
            inputs = outputs
        tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
        return nn.Sequential(*layers, *tail)

    class Narrowing(nn.Module):
        def __init__(self, inputs, middle, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, middle, 1, bias=False)
            self.conv2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False)
            self.conv3 = nn.Conv2d(middle, 4 * middle, 1, bias=False)
            self.bn1, self.bn2 = nn.BatchNorm2d(middle), nn.BatchNorm2d(middle)
            self.bn3, self.shortcut = nn.BatchNorm2d(4 * middle), nn.Identity()
            if stride != 1 or inputs != 4 * middle:
                conv = nn.Conv2d(inputs, 4 * middle, 1, stride, bias=False)
                self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(4 * middle))

        def forward(self, x):
            y = self.bn1(self.conv1(x)).relu()
            y = self.bn2(self.conv2(y)).relu()
            return (self.bn3(self.conv3(y)) + self.shortcut(x)).relu()

    def resnet50():
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        layers.append(nn.MaxPool2d(3, 2, 1))
        inputs = 64
        for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                layers.append(Narrowing(inputs, middle, 1 if number else stride))
                inputs = 4 * middle
        tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
        return nn.Sequential(*layers, *tail)

    class Denoising(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
            self.conv1 = nn.Conv2d(inputs, outputs, 3, 1, 1)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1)
            self.act, self.shortcut = nn.SiLU(), nn.Identity()
            if inputs != outputs:
                self.shortcut = nn.Conv2d(inputs, outputs, 1)

        def forward(self, x):
            y = self.conv1(self.act(self.norm1(x)))
            return self.conv2(self.act(self.norm2(y))) + self.shortcut(x)

    def unet_block():
        down = nn.Conv2d(320, 320, 3, 2, 1)
        return nn.Sequential(Denoising(320, 320), down, Denoising(320, 640), Denoising(640, 640))

    class Attending(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.norm = nn.GroupNorm(32, channels)
            self.q, self.k, self.v, self.out = (nn.Conv2d(channels, channels, 1) for _ in range(4))
            self.scale = channels**-0.5

        def forward(self, x):
            y = self.norm(x)
            q, k, v = (m(y).flatten(2) for m in (self.q, self.k, self.v))
            weights = (q.transpose(1, 2) @ k * self.scale).softmax(-1)
            return x + self.out((v @ weights.transpose(1, 2)).reshape(x.shape))

    def vae_decoder():
        layers = [nn.Conv2d(4, 512, 3, 1, 1)]
        layers += [Denoising(512, 512), Attending(512), Denoising(512, 512)]
        inputs = 512
        for number, outputs in enumerate((512, 512, 256, 128)):
            layers += [Denoising(inputs, outputs), Denoising(outputs, outputs)]
            layers.append(Denoising(outputs, outputs))
            if number < 3:
                enlarged = nn.Upsample(scale_factor=2, mode="nearest")
                layers += [enlarged, nn.Conv2d(outputs, outputs, 3, 1, 1)]
            inputs = outputs
        layers += [nn.GroupNorm(32, 128), nn.SiLU(), nn.Conv2d(128, 3, 3, 1, 1)]
        return nn.Sequential(*layers)

    class Conv(nn.Module):
        def __init__(self, inputs, outputs, size=1, stride=1):
            super().__init__()
            self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
            self.bn = nn.BatchNorm2d(outputs)
            self.act = nn.SiLU()

        def forward(self, x):
            return self.act(self.bn(self.conv(x)))

    class Bottleneck(nn.Module):
        def __init__(self, channels, adds):
            super().__init__()
            self.a, self.b, self.adds = (
                Conv(channels, channels, 3),
                Conv(channels, channels, 3),
                adds,
            )

        def forward(self, x):
            y = self.b(self.a(x))
            return x + y if self.adds else y

    class Split(nn.Module):
        def __init__(self, inputs, outputs, count, adds):
            super().__init__()
            half = outputs // 2
            self.a = Conv(inputs, outputs)
            self.m = nn.ModuleList(Bottleneck(half, adds) for _ in range(count))
            self.b = Conv((2 + count) * half, outputs)

        def forward(self, x):
            parts = list(self.a(x).chunk(2, 1))
            for m in self.m:
                parts.append(m(parts[-1]))
            return self.b(cat(parts, 1))

    class Pyramid(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.a, self.b = Conv(channels, channels // 2), Conv(channels * 2, channels)
            self.m = nn.MaxPool2d(5, 1, 2)

        def forward(self, x):
            x = self.a(x)
            y = self.m(x)
            z = self.m(y)
            return self.b(cat([x, y, z, self.m(z)], 1))

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            first = (Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), Split(32, 32, 1, True))
            self.p3 = nn.Sequential(*first, Conv(32, 64, 3, 2), Split(64, 64, 2, True))
            self.p4 = nn.Sequential(Conv(64, 128, 3, 2), Split(128, 128, 2, True))
            last = (Conv(128, 256, 3, 2), Split(256, 256, 1, True), Pyramid(256))
            self.p5 = nn.Sequential(*last)
            self.up = nn.Upsample(scale_factor=2, mode="nearest")
            self.n1, self.n2 = Split(384, 128, 1, False), Split(192, 64, 1, False)
            self.d1, self.n3 = Conv(64, 64, 3, 2), Split(192, 128, 1, False)
            self.d2, self.n4 = Conv(128, 128, 3, 2), Split(384, 256, 1, False)
            self.boxes = nn.ModuleList(self.head(c, 64) for c in (64, 128, 256))
            self.classes = nn.ModuleList(self.head(c, 80) for c in (64, 128, 256))

        @staticmethod
        def head(inputs, outputs):
            convs = (Conv(inputs, outputs, 3), Conv(outputs, outputs, 3))
            return nn.Sequential(*convs, nn.Conv2d(outputs, outputs, 1))

        def forward(self, x):
            p3 = self.p3(x)
            p4 = self.p4(p3)
            p5 = self.p5(p4)
            a = self.n1(cat([self.up(p5), p4], 1))
            b = self.n2(cat([self.up(a), p3], 1))
            c = self.n3(cat([self.d1(b), a], 1))
            d = self.n4(cat([self.d2(c), p5], 1))
            heads = zip((b, c, d), self.boxes, self.classes, strict=True)
            return cat([cat([box(f), kind(f)], 1).flatten(2) for f, box, kind in heads], 2)

    nets = {"resnet18": resnet18(), "yolov8n": Detector()}
    nets |= {"resnet50": resnet50(), "unet_block": unet_block()}
    return nets | {"vae_decoder": vae_decoder()}


def networks() -> dict[str, Any]:
    """In torch, with the same random weights in each process."""
    import torch  # noqa: PLC0415  # the processes of other peers do without it

    torch.manual_seed(0)
    found = make(torch.nn, torch.cat)
    for net in found.values():
        for module in net.eval().modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    return found
