"""The loss of a language model: a linear layer to the vocabulary, then the cross-entropy of each row."""

import lumigen as lg

model = lg.Model("loss")
rows = lg.Dim("rows", 1, 4096, typical=512)


@model.entry(x=lg.spec(rows, 512), weight=lg.spec(32000, 512), target=lg.spec(rows, dtype=lg.i64))
def loss(x, weight, target):
    scores = x @ weight.T  # (rows, vocabulary)
    top = scores.amax(-1)
    total = (scores - top[:, None]).exp().sum(-1)
    chosen = lg.where(lg.arange(32000) == target[:, None], scores, 0).sum(-1)
    return {"loss": total.log() + top - chosen}
