"""attention: the fused operators of exported transformers, as onnxruntime defines them (domain com.microsoft)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lumigen.dtype import f32, i32, i64
from lumigen.frontend import Tensor, functional, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.convolutions import centred
from lumigen.importers.onnx.operators.quantised import scales
from lumigen.importers.onnx.values import Known, ints

MICROSOFT = "com.microsoft"


def heads_of(x: Tensor, heads: int) -> Tensor:
    """(batch, seq, heads * size) -> (batch, heads, seq, size)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """What undoes `heads_of`."""
    batch, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * size)


def attended(
    n: OnnxNode,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Tensor | None,
    bias: Tensor | None,
    *,
    causal: bool,
) -> Tensor:
    """softmax(q k^T scale + masks) v over (batch, heads, seq, size); a key that a mask leaves out has a weight of 0."""
    scale = n.attr("scale", 0.0) or 1 / math.sqrt(int(q.shape[-1]))
    if causal:
        ahead = k.shape[2] - q.shape[2]
        at = functions.arange(q.shape[2]).reshape(-1, 1) + ahead
        seen = functions.arange(k.shape[2]) <= at
        keep = seen if keep is None else keep & seen
    mask = keep
    if bias is not None:
        mask = bias if keep is None else functions.where(keep, bias, -math.inf)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def _kept(n: OnnxNode, mask: Tensor, keys: Any) -> Tensor:
    """Which keys a mask of integers keeps: (batch) lengths, (batch, keys), or (batch, queries, keys)."""
    if mask.ndim == 1:
        return (functions.arange(keys) < mask.reshape(-1, 1)).reshape(-1, 1, 1, keys)
    if mask.ndim == 2:
        return (mask != 0).unsqueeze(1).unsqueeze(1)
    if mask.ndim == 3:
        return (mask != 0).unsqueeze(1)
    raise n.unsupported(f"its mask has {mask.ndim} axes", "Export it with a mask of 1 to 3 axes.")


def attention(n: OnnxNode) -> Any:
    if n.has(6):
        raise n.unsupported("it has a length of the past", "Export it without.")
    return of_projections(n, n.tensor(0) @ n.tensor(1), 3, 4, n.maybe(5))


def quantised_attention(n: OnnxNode) -> Any:
    """QAttention: the projections are an exact product of integers, in floats."""
    x, weight = centred(n.tensor(0), n.zero_point(6, 0)), centred(n.tensor(1), n.zero_point(7, 1))
    total = (x @ weight).to(i32).to(f32)
    return of_projections(n, total * (scales(n, 3) * scales(n, 4)), 5, 8, None)


def of_projections(n: OnnxNode, found: Tensor, mask: int, past: int, bias: Tensor | None) -> Any:
    """Attention of queries, keys and values side by side, and their bias; with a cache of keys and values before.

    `mask` and `past` are the places of operands.
    """
    heads = int(n.attr("num_heads"))
    found = found + n.tensor(2) if n.has(2) else found
    sizes = n.attr("qkv_hidden_sizes", None) or [found.shape[-1] // 3] * 3
    q, k, v = (heads_of(part, heads) for part in found.split(list(sizes), -1))
    if n.attr("do_rotary", 0):
        raise n.unsupported("it has rotary embeddings", "Export it without.")
    present = None
    if n.has(past):
        before = n.tensor(past)
        k, v = functions.cat([before[0], k], 2), functions.cat([before[1], v], 2)
    if n.wants(1):
        present = functions.stack([k, v], 0)
    keep = _kept(n, n.tensor(mask), k.shape[2]) if n.has(mask) else None
    out = attended(n, q, k, v, keep, bias, causal=bool(n.attr("unidirectional", 0)))
    return joined(out) if present is None else (joined(out), present)


def multi_head(n: OnnxNode) -> Any:
    """Attention of projected queries, keys and values, whose biases it adds."""
    heads = int(n.attr("num_heads"))
    q = n.tensor(0)
    if q.ndim == 5:  # (batch, seq, heads, 3, size)
        parts = [q.select(3, i).transpose(1, 2) for i in range(3)]
    elif n.has(1) and n.tensor(1).ndim == 5:  # (batch, seq, heads, 2, size)
        parts = [q, *(n.tensor(1).select(3, i).transpose(1, 2) for i in range(2))]
    elif n.has(1) and n.has(2):
        parts = [q, n.tensor(1), n.tensor(2)]
    else:
        raise n.unsupported("it has no keys or values", "Export it with three inputs.")
    if n.has(3):
        sizes = [int(p.shape[-1]) if p.ndim == 3 else heads * int(p.shape[-1]) for p in parts]
        biases = n.tensor(3).split(sizes, 0)
        parts = [
            p + (b if p.ndim == 3 else b.reshape(heads, 1, -1))
            for p, b in zip(parts, biases, strict=True)
        ]
    q, k, v = (heads_of(p, heads) if p.ndim == 3 else p for p in parts)
    if n.has(6) and n.has(7):
        k, v = functions.cat([n.tensor(6), k], 2), functions.cat([n.tensor(7), v], 2)
    keep = _kept(n, n.tensor(4), k.shape[2]) if n.has(4) else None
    out = attended(n, q, k, v, keep, n.maybe(5), causal=bool(n.attr("unidirectional", 0)))
    return (joined(out), k, v) if n.wants(1) else joined(out)


def grouped(n: OnnxNode) -> Any:
    """Causal attention in which several heads share keys and values, with buffers of those of earlier positions.

    `seqlens_k` (batch) says where each text ends. New keys are written behind the earlier ones, which are as many as
    fit before that end; a buffer that is longer than all positions stays as long as it is.
    """
    heads, groups = int(n.attr("num_heads")), int(n.attr("kv_num_heads"))
    if n.has(11) or n.attr("smooth_softmax", 0) or n.attr("qk_output", 0):
        raise n.unsupported("its softmax has sinks, or it gives scores", "Export it without.")
    q, k, v = _three(n, heads, groups)
    earlier = (n.tensor(5).reshape(-1, 1).to(i64) + 1 - q.shape[2]).clamp(min=0)  # (batch, 1)
    at = earlier + functions.arange(q.shape[2])  # (batch, queries): positions
    if n.attr("do_rotary", 0):
        places = n.tensor(9) if n.has(9) else at
        turn = [n.tensor(i)[places].unsqueeze(1) for i in (7, 8)]
        interleaved = bool(n.attr("rotary_interleaved", 0))
        q, k = (rotated(t, turn[0], turn[1], interleaved=interleaved) for t in (q, k))
    if n.has(3):
        length = _length(n)
        k, v = (written(n.tensor(i), t, earlier, length) for i, t in ((3, k), (4, v)))
    position = functions.arange(k.shape[2])
    keep = position <= at.unsqueeze(-1)
    window = int(n.attr("local_window_size", -1))
    if window >= 0:
        keep = keep & (at.unsqueeze(-1) - window < position)
    keys, values = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
    bias, cap = n.maybe(10), n.attr("softcap", 0.0)
    if cap:
        out = _capped(n, (q, keys, values), keep.unsqueeze(1), bias)
    else:
        out = attended(n, q, keys, values, keep.unsqueeze(1), bias, causal=False)
    return joined(out), k, v


def _three(n: OnnxNode, heads: int, groups: int) -> list[Tensor]:
    """(batch, heads, seq, size): queries, keys and values, each an input or all parts of one."""
    parts = [n.tensor(0)]
    if n.has(1) and n.has(2):
        parts += [n.tensor(1), n.tensor(2)]
    else:
        size = int(parts[0].shape[-1]) // (heads + 2 * groups)
        parts = list(parts[0].split([heads * size, groups * size, groups * size], -1))
    return [heads_of(p, h) for p, h in zip(parts, (heads, groups, groups), strict=True)]


def _length(n: OnnxNode) -> Any:
    """Of the buffers behind a step: as long as before, or as the longest text."""
    before, total = n.tensor(3).shape[2], n.inputs[6] if n.has(6) else None
    if not isinstance(total, Known):  # a run's number, which fits into buffers that are shared
        return before
    return functions.sym_max(before, ints(total.array)[0])


def written(past: Tensor, new: Tensor, earlier: Tensor, length: Any) -> Tensor:
    """(batch, heads, length, size): what is past, and what is new behind the first ones of it."""
    batch, heads, count, size = new.shape
    at = functions.arange(length)
    here = (at >= earlier) & (at - count < earlier)  # (batch, length)
    place = (at - earlier).clamp(0, count - 1)
    held = past.shape[2]
    if held is not length and held != length:
        past = past.index_select(2, at.clamp(0, held - 1))
    wide = place.unsqueeze(1).unsqueeze(-1).expand(batch, heads, length, size)
    return functions.where(here.unsqueeze(1).unsqueeze(-1), new.gather(2, wide), past)


def _capped(n: OnnxNode, parts: Sequence[Tensor], keep: Tensor, bias: Tensor | None) -> Tensor:
    """Attention whose scores stay within a cap."""
    q, k, v = parts
    cap, scale = n.attr("softcap"), n.attr("scale", 0.0) or 1 / math.sqrt(int(q.shape[-1]))
    scores = ((q * scale) @ k.mT / cap).tanh() * cap
    scores = scores if bias is None else scores + bias
    return functions.where(keep, scores, -math.inf).softmax(-1) @ v


def rotated(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Pairs of elements turned: neighbours, or those of the two halves; what the caches do not cover stays."""
    width = 2 * int(cos.shape[-1])
    turned, rest = x.narrow(-1, 0, width), x.narrow(-1, width, x.shape[-1] - width)
    if interleaved:
        pairs = turned.reshape(*turned.shape[:-1], width // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        out = functions.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(*turned.shape)
    else:
        a, b = turned.narrow(-1, 0, width // 2), turned.narrow(-1, width // 2, width // 2)
        out = functions.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return out if width == x.shape[-1] else functions.cat([out, rest], -1)


def rotary(n: OnnxNode) -> Tensor:
    """(batch, seq, hidden) or (batch, heads, seq, size), turned by the caches' rows of the positions."""
    x, at = n.tensor(0), n.tensor(1)
    cos, sin = n.tensor(2), n.tensor(3)
    heads = int(n.attr("num_heads", 0))
    flat = x.ndim == 3
    if flat:
        size = int(x.shape[-1]) // heads if heads else 2 * int(cos.shape[-1])
        x = heads_of(x, int(x.shape[-1]) // size)
    length = x.shape[2]
    places = at if at.ndim == 2 else at.reshape(1, 1) + functions.arange(length)
    turn = [t[places].unsqueeze(1) for t in (cos, sin)]
    out = rotated(x, turn[0], turn[1], interleaved=bool(n.attr("interleaved", 0)))
    return joined(out) if flat else out


ROWS = (
    Operator("Attention", attention, domain=MICROSOFT),
    Operator("QAttention", quantised_attention, domain=MICROSOFT),
    Operator("MultiHeadAttention", multi_head, domain=MICROSOFT),
    Operator("GroupQueryAttention", grouped, domain=MICROSOFT),
    Operator("RotaryEmbedding", rotary, domain=MICROSOFT),
)
