"""Trains both networks on scikit-learn's digits and writes digits.safetensors and cnn.safetensors.

Numpy only, some seconds, the same numbers from the same seed. Layers stand where they stand in
model.py and cnn.py, so that their weights carry the same names.
"""

from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

HERE = Path(__file__).parent


class Linear:
    def __init__(self, rng, inputs, outputs):
        self.weight = rng.standard_normal((outputs, inputs)) * np.sqrt(2 / inputs)
        self.bias = np.zeros(outputs)

    def forward(self, x):
        self.x = x
        return x @ self.weight.T + self.bias

    def backward(self, g):
        self.gradients = {"weight": g.T @ self.x, "bias": g.sum(0)}
        return g @ self.weight


class Conv2d:
    """3 x 3 with padding 1."""

    def __init__(self, rng, inputs, outputs):
        self.weight = rng.standard_normal((outputs, inputs, 3, 3)) * np.sqrt(2 / (9 * inputs))
        self.bias = np.zeros(outputs)

    def forward(self, x):
        self.windows = _windows(x)
        out = np.einsum("bchwrs,ocrs->bohw", self.windows, self.weight, optimize=True)
        return out + self.bias[:, None, None]

    def backward(self, g):
        weight = np.einsum("bohw,bchwrs->ocrs", g, self.windows, optimize=True)
        self.gradients = {"weight": weight, "bias": g.sum((0, 2, 3))}
        turned = self.weight[:, :, ::-1, ::-1]
        return np.einsum("bohwrs,ocrs->bchw", _windows(g), turned, optimize=True)


def _windows(x):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sliding_window_view(padded, (3, 3), axis=(2, 3))


class ReLU:
    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, g):
        return g * self.on


class MaxPool2d:
    """2 x 2."""

    def forward(self, x):
        b, c, h, w = x.shape
        tiles = x.reshape(b, c, h // 2, 2, w // 2, 2)
        out = tiles.max((3, 5))
        self.first = tiles == out[:, :, :, None, :, None]
        return out

    def backward(self, g):
        tiles = self.first * g[:, :, :, None, :, None]
        b, c, h, _, w, _ = tiles.shape
        return tiles.reshape(b, c, 2 * h, 2 * w)


class Flatten:
    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, g):
        return g.reshape(self.shape)


def run(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x


def train(layers, x, labels, rng, epochs=30, batch=32, rate=2e-3):
    """Adam on the cross entropy."""
    moments = {}
    step = 0
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(len(x)), len(x) // batch):
            logits = run(layers, x[rows])
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(rows)), labels[rows]] -= 1
            g = p / len(rows)
            for layer in reversed(layers):
                g = layer.backward(g)
            step += 1
            for i, layer in enumerate(layers):
                for name, value in getattr(layer, "gradients", {}).items():
                    m, v = moments.get((i, name), (0.0, 0.0))
                    m, v = 0.9 * m + 0.1 * value, 0.999 * v + 0.001 * value**2
                    moments[i, name] = m, v
                    unbiased = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
                    setattr(layer, name, getattr(layer, name) - rate * unbiased)


def weights(layers):
    """Names as of nn.Sequential: the layer's number, then weight or bias."""
    return {
        f"{i}.{name}": getattr(layer, name).astype(np.float32)
        for i, layer in enumerate(layers)
        for name in ("weight", "bias")
        if hasattr(layer, name)
    }


def data():
    """Pixels from 0 to 1 and labels; 360 digits, chosen at random, are for testing only."""
    digits = load_digits()
    order = np.random.default_rng(2).permutation(len(digits.data))
    x, labels = digits.data[order] / 16, digits.target[order]
    return (x[360:], labels[360:]), (x[:360], labels[:360])


def main():
    (x, labels), (test, truth) = data()
    rng = np.random.default_rng(0)
    mlp = [Linear(rng, 64, 128), ReLU(), Linear(rng, 128, 10)]
    cnn = [Conv2d(rng, 1, 8), ReLU(), MaxPool2d(), Conv2d(rng, 8, 16), ReLU(), MaxPool2d()]
    cnn += [Flatten(), Linear(rng, 64, 10)]
    for name, layers, shape in (("digits", mlp, (64,)), ("cnn", cnn, (1, 8, 8))):
        train(layers, x.reshape(-1, *shape), labels, np.random.default_rng(1))
        right = run(layers, test.reshape(-1, *shape)).argmax(1) == truth
        save_file(weights(layers), HERE / f"{name}.safetensors")
        print(f"{name}.safetensors: {right.mean():.1%} of {len(right)} test digits are right")


if __name__ == "__main__":
    main()
