"""The same digits as images: two convolutions, each pooled, and a layer on top."""

import lumigen as lg
from lumigen import nn

net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(64, 10),
)
model = lg.Model("digits_cnn", net, version="0.1.0")


@model.entry(image=lg.spec(lg.Dim("batch", 1, 64), 1, 8, 8, dtype=lg.f32))
def classify(image):
    return {"probs": net(image).softmax(-1)}
