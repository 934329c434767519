"""One step of decoding: a token's query over a cache of keys and values, in groups of heads.

The caches are inputs, and their next contents outputs.
"""

import math

import lumigen as lg
from lumigen import functional

HEADS, GROUPS, LONGEST, SIZE = 8, 2, 256, 64  # heads of the query; heads of keys and values

model = lg.Model("decode")
batch = lg.Dim("batch", 1, 8)
row, cache = lg.spec(batch, GROUPS, 1, SIZE), lg.spec(batch, GROUPS, LONGEST, SIZE)


def rotate(x, angle):
    """Rotary embedding: halves of a head are the two coordinates of a point."""
    left, right = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return x * angle.cos() + lg.cat([-right, left], -1) * angle.sin()


@model.entry(
    q=lg.spec(batch, HEADS, 1, SIZE),
    k=row,
    v=row,
    k_cache=cache,
    v_cache=cache,
    position=lg.spec(dtype=lg.i64, range=(0, LONGEST - 1)),
)
def step(q, k, v, k_cache, v_cache, position):
    frequency = (lg.arange(SIZE // 2).float() * (-2 * math.log2(10000) / SIZE)).exp2()
    angle = position.float() * frequency
    angle = lg.cat([angle, angle], 0)
    rows = lg.arange(LONGEST)
    here = (rows == position)[:, None]
    keys = lg.where(here, rotate(k, angle), k_cache)
    values = lg.where(here, v, v_cache)
    out = functional.scaled_dot_product_attention(
        rotate(q, angle), keys, values, attn_mask=rows <= position, enable_gqa=True
    )
    return {"out": out, "keys": keys, "values": values}
