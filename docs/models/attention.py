"""Causal attention, written as two matrix products with a softmax between them."""

import math

import lumigen as lg

model = lg.Model("attention")
sequence = lg.Dim("sequence", 1, 512, typical=128)
heads = lg.spec(lg.Dim("batch", 1, 8), 12, sequence, 64)  # (batch, heads, sequence, size)


@model.entry(q=heads, k=heads, v=heads)
def attend(q, k, v):
    scores = q @ k.transpose(-2, -1) / 8
    rows = lg.arange(q.shape[2])
    seen = rows[None, :] <= rows[:, None]  # (query, key)
    scores = lg.where(seen, scores, -math.inf)
    return {"out": scores.softmax(-1) @ v}
