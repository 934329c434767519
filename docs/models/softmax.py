"""Softmax with a temperature, from sums, maxima and exponentials."""

import lumigen as lg

model = lg.Model("softmax")


@model.entry(x=lg.spec(lg.Dim("batch", 1, 64), 1000, dtype=lg.f32))
def normalise(x):
    x = x / 8
    e = (x - x.amax(-1, keepdim=True)).exp()
    return {"probs": e / e.sum(-1, keepdim=True)}
