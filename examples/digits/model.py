"""Handwritten digits, 8 x 8 pixels: a network of two layers."""

import lumigen as lg
from lumigen import nn

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
model = lg.Model("digits", net, version="0.1.0")


@model.entry(x=lg.spec(lg.Dim("batch", 1, 64), 64, dtype=lg.f32))
def classify(x):
    return {"probs": net(x).softmax(-1)}
