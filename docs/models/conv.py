"""A padded convolution of images, channels before rows, with a bias and a relu."""

import lumigen as lg
from lumigen import nn

net = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU())
model = lg.Model("conv", net)


@model.entry(x=lg.spec(lg.Dim("batch", 1, 64), 16, 28, 28))
def run(x):
    return {"y": net(x)}
