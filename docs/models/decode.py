"""One step of decoding: a token's query over caches of keys and values, in groups of heads.

A context keeps the caches of one text.
"""

import math

import lumigen as lg
from lumigen import functional, nn

HEADS, GROUPS, LONGEST, SIZE = 8, 2, 256, 64  # heads of the query; heads of keys and values

model = lg.Model("decode")
keys = nn.State("keys", (GROUPS, LONGEST, SIZE))
values = nn.State("values", (GROUPS, LONGEST, SIZE))
row = lg.spec(GROUPS, 1, SIZE)


def rotate(x, angle):
    """Rotary embedding: halves of a head are the two coordinates of a point."""
    left, right = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return x * angle.cos() + lg.cat([-right, left], -1) * angle.sin()


@model.entry(
    q=lg.spec(HEADS, 1, SIZE),
    k=row,
    v=row,
    position=lg.spec(dtype=lg.i64, range=(0, LONGEST - 1)),
)
def step(q, k, v, position):
    frequency = (lg.arange(SIZE // 2).float() * (-2 * math.log2(10000) / SIZE)).exp2()
    angle = position.float() * frequency
    angle = lg.cat([angle, angle], 0)
    keys[:, position : position + 1] = rotate(k, angle)
    values[:, position : position + 1] = v
    return functional.scaled_dot_product_attention(
        rotate(q, angle), keys, values, attn_mask=lg.arange(LONGEST) <= position, enable_gqa=True
    )
