"""Two models for `lumigen compile --tune`: a block of a transformer, and operations on rows. Weights are inputs."""

import lumigen as lg

WIDTH, HEADS, INNER = 512, 8, 2048
TOKENS = lg.Dim("tokens", 1, 4096, typical=512)
ROWS = lg.Dim("rows", 1, 8192, typical=4096)

block = lg.Model("block", version="1")
rows = lg.Model("rows", version="1")


def normed(x, scale):
    return x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt() * scale


@block.entry(
    x=lg.spec(TOKENS, WIDTH),
    scale=lg.spec(WIDTH),
    **{name: lg.spec(WIDTH, WIDTH) for name in ("query", "key", "value", "back")},
    gate=lg.spec(WIDTH, INNER),
    up=lg.spec(WIDTH, INNER),
    down=lg.spec(INNER, WIDTH),
)
def layer(x, scale, query, key, value, back, gate, up, down):
    h = normed(x, scale)
    size = WIDTH // HEADS
    q, k, v = (
        (h @ w).reshape(x.shape[0], HEADS, size).transpose(0, 1) for w in (query, key, value)
    )
    weights = (q @ k.transpose(1, 2) * size**-0.5).softmax(-1)
    x = x + (weights @ v).transpose(0, 1).reshape(x.shape[0], WIDTH) @ back
    h = normed(x, scale)
    g = h @ gate
    return {"out": x + (g * g.sigmoid() * (h @ up)) @ down}


@rows.entry(x=lg.spec(ROWS, 4096), y=lg.spec(ROWS, 2048))
def each(x, y):
    return {
        "softmax": x.softmax(-1),
        "norm": normed(y, 1.0),
        "gated": y.sigmoid() * y,
        "greatest": x.amax(0),
        "logsumexp": (x * 2).logsumexp(-1),
    }
