"""Mistakes in shapes, dtypes and arguments: each names the user's line, both values, a remedy."""

# a case is a lambda, so that its line is in this file

from __future__ import annotations

import copy
import importlib
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lumigen as lg
from lumigen import errors, functional, nn
from lumigen.frontend.model import Entry, trace_entry
from lumigen.frontend.spec import Spec

B = lg.Dim("batch", 1, 64)
S = lg.Dim("sequence", 2, 512)


def trace(f: Callable[..., Any], *specs: Spec) -> None:
    trace_entry(Entry("entry", f, tuple((f"x{i}", s) for i, s in enumerate(specs))))


f32, i64, mask = lg.f32, lg.i64, lg.boolean

# what is wrong, the function, its inputs, the error, texts that must be in the message
CASES: list[tuple[Callable[..., Any], list[Spec], type[errors.LumigenError], list[str]]] = [
    (
        lambda x0: x0.split(B),
        [lg.spec(12)],
        errors.DimSpecialised,
        ["[split] dim batch", "how many"],
    ),
    # what is composed bears the name that was called
    (
        lambda x0: lg.masked.var(x0, mask=x0[:2] > 0),
        [lg.spec(3, 4)],
        errors.ShapeMismatch,
        ["[var] ", "(2, 4)"],
    ),
    (
        lambda x0: functional.max_pool2d(x0, 5),
        [lg.spec(1, 4, 4)],
        errors.ShapeMismatch,
        ["[max_pool2d] ", "window of 5"],
    ),
    (
        lambda x0: functional.avg_pool1d(x0, 5),
        [lg.spec(1, B)],
        errors.DimSpecialised,
        ["[avg_pool1d] ", "at least 5"],
    ),
    (
        lambda x0: functional.lp_pool1d(x0, 2, 5),
        [lg.spec(1, 4)],
        errors.ShapeMismatch,
        ["[lp_pool1d] ", "window of 5"],
    ),
    (
        lambda x0: nn.MaxPool1d(5)(x0),
        [lg.spec(1, 4)],
        errors.ShapeMismatch,
        ["[max_pool1d] ", "window of 5"],
    ),
    (
        lambda x0: functional.mse_loss(x0, x0[:2]),
        [lg.spec(3)],
        errors.ShapeMismatch,
        ["[mse_loss] shapes (3,) and (2,)"],
    ),
    (lambda x0: lg.hstack([x0, x0[:1]]), [lg.spec(2, 3)], errors.ShapeMismatch, ["[hstack] "]),
    (lambda x0: x0 - x0[:2], [lg.spec(3)], errors.ShapeMismatch, ["[sub] shapes (3,) and (2,)"]),
    (
        lambda x0: functional.glu(x0),
        [lg.spec(2, 3)],
        errors.BadArgument,
        ["[glu] the size of axis 1 cannot be 3."],
    ),
    (
        lambda x0: functional.group_norm(x0, 3),
        [lg.spec(1, 4, 3)],
        errors.BadArgument,
        ["[group_norm] the channels cannot be 4."],
    ),
    (
        lambda x0: functional.fold(x0, 4, 2),
        [lg.spec(7, 9)],
        errors.BadArgument,
        ["[fold] the columns cannot be 7."],
    ),
    (
        lambda x0: functional.fold(x0, 4, 2),
        [lg.spec(8, 3)],
        errors.ShapeMismatch,
        ["[fold] ", "3 windows", "9"],
    ),
    # what PyTorch refuses
    (
        lambda x0: functional.avg_pool2d(x0, 2, divisor_override=0),
        [lg.spec(1, 4, 4)],
        errors.BadArgument,
        ["[avg_pool2d] divisor_override cannot be 0."],
    ),
    (
        lambda x0: x0.softmax(-1),
        [lg.spec(4, dtype=i64)],
        errors.DtypeMismatch,
        ["[softmax] ", "a float type"],
    ),
    (
        lambda x0: functional.log_softmax(x0, 0),
        [lg.spec(4, dtype=mask)],
        errors.DtypeMismatch,
        ["[log_softmax] ", "a float type"],
    ),
    (
        lambda x0, x1: functional.scaled_dot_product_attention(x0, x0, x0, x1),
        [lg.spec(2, 3, 4), lg.spec(3, 3, dtype=lg.f16)],
        errors.DtypeMismatch,
        ["[scaled_dot_product_attention]", "attn_mask is f16", "bool or f32", ".to(lg.f32)"],
    ),
    (
        lambda x0, x1: nn.MultiheadAttention(4, 2)(x0, x0, x0, attn_mask=x1),
        [lg.spec(3, B, 4), lg.spec(3, 3, dtype=lg.bf16)],
        errors.DtypeMismatch,
        ["attn_mask is bf16", "bool or f32"],
    ),
    # Python counts the parts
    (
        lambda x0: x0.split(4),
        [lg.spec(B)],
        errors.DimSpecialised,
        ["[split] ", "parts of 4", "tensor_split", "unflatten"],
    ),
    (
        lambda x0: x0.unbind(0),
        [lg.spec(B)],
        errors.DimSpecialised,
        ["[unbind] ", "Python counts while the model is traced", "an axis of parts"],
    ),
    (
        lambda x0: x0.chunk(4),
        [lg.spec(B)],
        errors.DimSpecialised,
        ["[chunk] ", "of 4 parts", "tensor_split"],
    ),
    (
        lambda x0, x1: functional.scaled_dot_product_attention(x0, x0, x0, x1),
        [lg.spec(2, 3, 4), lg.spec(3, 3, dtype=i64)],
        errors.DtypeMismatch,
        ["[scaled_dot_product_attention]", "attn_mask is i64", "bool or f32", ".bool()"],
    ),
    (
        lambda x0, x1: functional.scaled_dot_product_attention(x0, x0, x0, x1, enable_gqa=True),
        [lg.spec(2, 3, 4), lg.spec(3, 3, dtype=lg.u8)],
        errors.DtypeMismatch,
        ["[scaled_dot_product_attention]", "attn_mask is u8", ".bool()"],
    ),
    (
        lambda x0, x1: nn.MultiheadAttention(4, 2)(x0, x0, x0, attn_mask=x1),
        [lg.spec(3, B, 4), lg.spec(3, 3, dtype=i64)],
        errors.DtypeMismatch,
        ["[MultiheadAttention]", "attn_mask is i64", ".bool()"],
    ),
    (
        lambda x0, x1: nn.TransformerEncoderLayer(4, 2, 8)(x0, src_key_padding_mask=x1),
        [lg.spec(3, B, 4), lg.spec(B, 3, dtype=lg.i32)],
        errors.DtypeMismatch,
        ["[MultiheadAttention]", "key_padding_mask is i32", ".bool()"],
    ),
    (
        lambda x0, x1: functional.multi_head_attention_forward(
            *(x0, x0, x0, 4, 2, None, None, None, None, False, 0.0, x0, None, False, x1)
        ),
        [lg.spec(3, B, 4), lg.spec(B, 3, dtype=lg.i32)],
        errors.DtypeMismatch,
        ["[multi_head_attention_forward]", "key_padding_mask is i32", ".bool()"],
    ),
    (
        lambda x0, x1: functional.scaled_dot_product_attention(x0, x1, x1),
        [lg.spec(B, 4, 3, 8), lg.spec(B, 2, 3, 8)],
        errors.ShapeMismatch,
        [
            "[scaled_dot_product_attention]",
            "(batch, 4, 3, 8) and (batch, 2, 3, 8)",
            "4 query heads and 2 key heads",
            "enable_gqa=True",
        ],
    ),
    (
        lambda x0: x0[:, 2:2].amax(1),
        [lg.spec(B, 3)],
        errors.BadArgument,
        ["[amax]", "axis 1 of shape (batch, 0)", "no element"],
    ),
    (
        lambda x0: x0[:, :0].amin(),
        [lg.spec(B, 3)],
        errors.BadArgument,
        ["[amin]", "axis 1 of shape (batch, 0)", "no element"],
    ),
    (
        lambda x0: x0[:, 3:].amax((0, 1)),
        [lg.spec(B, 3)],
        errors.BadArgument,
        ["[amax]", "axis 1 of shape (batch, 0)", "no element"],
    ),
    (
        lambda x0: x0.max((0, 1)),
        [lg.spec(B, 3)],
        errors.BadArgument,
        ["[max]", "(0, 1)", "amax"],
    ),
    (
        lambda x0: x0[:, :0].argmax(-1),
        [lg.spec(B, 3)],
        errors.BadArgument,
        ["[argmax]", "axis 1 of shape (batch, 0)", "no element"],
    ),
    (
        lambda x0: x0[:, :0].argmin(),
        [lg.spec(B, 3)],
        errors.BadArgument,
        ["[argmin]", "axis 1 of shape (batch, 0)", "no element"],
    ),
    (
        lambda x0: x0[:, :0].norm(math.inf, 1),
        [lg.spec(B, 3)],
        errors.BadArgument,
        ["[norm]", "axis 1 of shape (batch, 0)", "no element"],
    ),
    (
        lambda x0: x0[x0.shape[1] :, 1:].prod(),
        [lg.spec(B, S)],
        errors.DimSpecialised,
        ["[prod]", "a fixed number, since it is the extent of what is multiplied"],
    ),
    (
        lambda x0: x0[x0.shape[1] :, 1:].roll(4),
        [lg.spec(B, S)],
        errors.DimSpecialised,
        ["[roll]", "a fixed number"],
    ),
    (
        lambda x0: x0 + x0.unfold(0, 4, 4).flatten(),
        [lg.spec(lg.Dim("h", 15, 64))],
        errors.DimSpecialised,
        ["[add] dim h", 'true of lg.Dim("h", 16, 64, multiple_of=4)'],
    ),
    (
        lambda x0, x1: x0 + x1,
        [lg.spec(B, 3), lg.spec(B, 4)],
        errors.ShapeMismatch,
        ["[add]", "(batch, 3)", "(batch, 4)", "axis -1", "3 and 4"],
    ),
    (
        lambda x0, x1: x0 * x1,
        [lg.spec(B, 3), lg.spec(5, 3)],
        errors.DimSpecialised,
        ["[mul]", "dim batch", "1..64", "batch = 5", "(batch, 3)", "(5, 3)"],
    ),
    (
        lambda x0, x1: x0 - x1,
        [lg.spec(B), lg.spec(S)],
        errors.DimSpecialised,
        ["[sub]", "batch = sequence"],
    ),
    (
        lambda x0, x1: x0 < x1,
        [lg.spec(B), lg.spec(100)],
        errors.ShapeMismatch,
        ["[lt]", "batch and 100"],
    ),
    (
        lambda x0, x1: x0 @ x1,
        [lg.spec(B, 3), lg.spec(4, 5)],
        errors.ShapeMismatch,
        ["[matmul]", "(batch, 3)", "(4, 5)", "last axis of the left is 3", "Transpose"],
    ),
    (
        lambda x0, x1: x0 @ x1,
        [lg.spec(2, 3), lg.spec(S, 5)],
        errors.DimSpecialised,
        ["[matmul]", "dim sequence"],
    ),
    (
        lambda x0, x1: x0 @ x1,
        [lg.spec(2, 3), lg.spec(3, 3, dtype=i64)],
        errors.DtypeMismatch,
        ["[matmul]", "i64", "f32"],
    ),
    (lambda x0: x0 @ x0, [lg.spec()], errors.RankMismatch, ["[matmul]", "()"]),
    (
        lambda x0: x0.reshape(7),
        [lg.spec(2, 3)],
        errors.BadReshape,
        ["(2, 3)", "(7,)", "6 elements cannot fill 7"],
    ),
    (
        lambda x0: x0.reshape(-1, 7),
        [lg.spec(B, 3)],
        errors.BadReshape,
        ["3*batch elements are not known to be a multiple of 7"],
    ),
    (
        lambda x0: x0.reshape(-1, 4),
        [lg.spec(2, 3)],
        errors.BadReshape,
        ["6 elements are no multiple of 4"],
    ),
    (
        lambda x0: functional.pixel_unshuffle(x0, 2),
        [lg.spec(1, 1, B, 4)],
        errors.BadArgument,
        ["the height cannot be batch, which is not known to be a multiple of 2"],
    ),
    (lambda x0: x0.reshape(8, 3), [lg.spec(B, 3)], errors.DimSpecialised, ["batch", "24"]),
    (lambda x0: x0.reshape(-1, -1), [lg.spec(4)], errors.BadReshape, ["at most one"]),
    (
        lambda x0: nn.LSTM(8, 4, batch_first=True)(x0)[0],
        [lg.spec(B, 5, 7)],
        errors.ShapeMismatch,
        ["[LSTM]", "(batch, 5, 7)", "(batch, time, 8)", "is 7, and input_size of this LSTM is 8"],
    ),
    (
        lambda x0: nn.GRU(8, 4)(x0)[0],
        [lg.spec(5, 7)],
        errors.ShapeMismatch,
        ["[GRU]", "(5, 7)", "(time, 8)", "Make it with input_size=7"],
    ),
    (
        lambda x0: nn.RNN(8, 4)(x0)[0],
        [lg.spec(5, 2, S)],
        errors.ShapeMismatch,
        ["[RNN]", "(5, 2, sequence)", "Pass an input whose last axis is 8"],
    ),
    (
        lambda x0: nn.LSTM(8, 4)(x0, (x0,))[0],
        [lg.spec(5, 2, 8)],
        errors.BadArgument,
        ["[LSTM] hx cannot be (a tensor). Pass (h, c), two tensors, or None."],
    ),
    (
        lambda x0: nn.LSTM(8, 4)(x0, x0)[0],
        [lg.spec(5, 2, 8)],
        errors.BadArgument,
        ["[LSTM] hx cannot be a tensor. Pass (h, c)"],
    ),
    (
        lambda x0: nn.LSTMCell(8, 4)(x0, (x0, x0, None))[0],
        [lg.spec(2, 8)],
        errors.BadArgument,
        ["[LSTMCell] hx cannot be (a tensor, a tensor, None)."],
    ),
    (
        lambda x0: nn.GRU(8, 4)(x0, (x0, x0))[0],
        [lg.spec(5, 2, 8)],
        errors.BadArgument,
        ["[GRU] hx cannot be (Tensor(", "Pass a tensor or None."],
    ),
    (
        lambda x0: nn.LSTMCell(8, 4)(x0)[0],
        [lg.spec(B, 7)],
        errors.ShapeMismatch,
        ["[LSTMCell]", "(batch, 7)", "(batch, 8)"],
    ),
    (
        lambda x0: nn.GRUCell(8, 4)(x0),
        [lg.spec(5, B, 8)],
        errors.RankMismatch,
        ["[GRUCell]", "(5, batch, 8)", "2 axes (batch, input_size)"],
    ),
    (lambda x0: x0.sum(2), [lg.spec(B, 3)], errors.BadAxis, ["[sum]", "axis 2", "(batch, 3)"]),
    (lambda x0: x0.sum((0, -2)), [lg.spec(2, 3)], errors.BadAxis, ["0, -2"]),
    (lambda x0: x0.permute(0, 0), [lg.spec(2, 3)], errors.BadAxis, ["[permute]", "0, 0"]),
    (lambda x0: x0.softmax(3), [lg.spec(2, 3)], errors.BadAxis, ["[softmax]"]),
    (
        lambda x0: x0.expand(3, 3),
        [lg.spec(2, 3)],
        errors.ShapeMismatch,
        ["[expand]", "(2, 3)", "(3, 3)"],
    ),
    (lambda x0: x0[5], [lg.spec(3)], errors.BadArgument, ["[index]", "5", "-3"]),
    (lambda x0: x0[5], [lg.spec(S)], errors.DimSpecialised, ["[index]", "sequence", "index 5"]),
    (lambda x0: x0["a"], [lg.spec(3)], errors.BadArgument, ["[index]", "'a'"]),
    (lambda x0: x0[0, 0], [lg.spec(3)], errors.BadArgument, ["[index]", "1 axes"]),
    (lambda x0: x0[::0], [lg.spec(3)], errors.BadArgument, ["[slice]", "step"]),
    (lambda x0: x0[0.5:], [lg.spec(3)], errors.BadArgument, ["[slice]", "0.5"]),
    (lambda x0, x1: x0[x1], [lg.spec(3), lg.spec(3)], errors.DtypeMismatch, ["[index]", "integer"]),
    (lambda x0: x0.split(2), [lg.spec(B)], errors.DimSpecialised, ["[split]", "batch"]),
    (lambda x0: x0.split([1, 1]), [lg.spec(3)], errors.ShapeMismatch, ["[split]", "add up to 2"]),
    (lambda x0: x0.chunk(2), [lg.spec(B)], errors.DimSpecialised, ["[chunk]", "batch"]),
    (
        lambda x0: x0.unfold(0, 4, 1),
        [lg.spec(3)],
        errors.ShapeMismatch,
        ["[unfold]", "window of 4"],
    ),
    (lambda x0: x0.unfold(0, 4, 1), [lg.spec(S)], errors.DimSpecialised, ["[unfold]", "sequence"]),
    # sizes that would be negative, for some value of a dim or for all of them
    (
        lambda x0: x0.pad((-1, -1)),
        [lg.spec(B)],
        errors.DimSpecialised,
        ["[pad]", "1..64", 'at least 2, as lg.Dim("batch", 2, 64) is', "leave batch - 2 of axis 0"],
    ),
    (lambda x0: x0.pad((-2, -2)), [lg.spec(3)], errors.BadArgument, ["[pad]", "-1 of axis 0"]),
    (lambda x0: x0.pad((-5, 3)), [lg.spec(4)], errors.BadArgument, ["[pad]", "-1 of axis 0"]),
    (lambda x0: x0.pad((1 - x0.shape[0], 0)), [lg.spec(S)], errors.UserError, ["[pad]", "axis 0"]),
    (lambda x0: x0.unfold(0, 4, 1), [lg.spec(S)], errors.DimSpecialised, ["at least 4"]),
    (lambda x0: x0.unfold(0, 2, 0), [lg.spec(4)], errors.BadArgument, ["[unfold]", "step"]),
    (lambda x0: x0.unfold(0, 0, 1), [lg.spec(4)], errors.BadArgument, ["[unfold]", "size"]),
    (lambda x0: x0.narrow(0, 1, -1), [lg.spec(4)], errors.BadArgument, ["[narrow]", "-1"]),
    (lambda x0: x0.split([5, -2]), [lg.spec(3)], errors.BadArgument, ["[split]", "-2"]),
    (lambda x0: x0.split(0), [lg.spec(3)], errors.BadArgument, ["[split]", "0"]),
    (lambda x0: x0.tensor_split(9), [lg.spec(B)], errors.DimSpecialised, ["[tensor_split]", "9 p"]),
    (
        lambda x0: lg.vander(x0),
        [lg.spec(B)],
        errors.DimSpecialised,
        ["[vander] dim batch", "the number of columns"],
    ),
    (
        lambda x0, x1: lg.linalg.solve(x0, x1),
        [lg.spec(B, 5, 5), lg.spec(2, 5)],
        errors.ShapeMismatch,
        ["[solve] shapes (batch, 5, 5) and (2, 5)", "as many rows", "unsqueeze(-1)"],
    ),
    (
        lambda x0, x1: lg.linalg.solve_triangular(x0, x1, upper=True),
        [lg.spec(5, 5), lg.spec(B, 1)],
        errors.ShapeMismatch,
        ["[solve_triangular] shapes (5, 5) and (batch, 1)", "as many rows"],
    ),
    (
        lambda x0: functional.adaptive_max_pool1d(x0, x0.shape[1] - 2),
        [lg.spec(3, lg.Dim("sequence", 2, 8))],
        errors.DimSpecialised,
        ["[adaptive_max_pool1d] dim sequence", "at least 3", "the number of pieces of sequence"],
    ),
    (
        lambda x0: functional.interpolate(x0, scale_factor=0.5),
        [lg.spec(1, 3, B)],
        errors.DimSpecialised,
        ["[interpolate] dim batch", "(batch)//2) is at least 1", "0.5 of batch elements"],
    ),
    (
        lambda x0: x0.pad((0, 10 - x0.shape[0])),
        [lg.spec(B)],
        errors.DimSpecialised,
        ["[pad] dim batch", "at most 10", "padded with 10 - batch"],
    ),
    (lambda x0: x0.chunk(0), [lg.spec(3)], errors.BadArgument, ["[chunk]", "0"]),
    (lambda x0: x0.expand(-3), [lg.spec(1)], errors.BadArgument, ["[expand]", "-3"]),
    (lambda x0: x0.expand(-1, 4), [lg.spec(4)], errors.BadArgument, ["[expand]", "-1"]),
    (lambda x0: x0.repeat(-1), [lg.spec(4)], errors.BadArgument, ["[repeat]", "-1"]),
    (lambda x0: lg.zeros(x0.shape[0] - 2), [lg.spec(B)], errors.DimSpecialised, ["at least 2"]),
    (lambda x0: x0[: x0.shape[0] - 2], [lg.spec(B)], errors.DimSpecialised, ["[slice]", "batch"]),
    (
        lambda x0, x1: functional.conv2d(x0, x1),
        [lg.spec(1, 1, B, 5), lg.spec(1, 1, 3, 3)],
        errors.DimSpecialised,
        ["batch", "at least 3", "window of 3"],
    ),
    (
        lambda x0, x1: functional.conv2d(x0, x1),
        [lg.spec(1, 1, 70, 5), lg.spec(1, 1, B, 3)],
        errors.DimSpecialised,
        ["[conv2d]", "batch", "the kernel's height"],
    ),
    (
        lambda x0, x1: functional.conv2d(x0, x1, stride=0),
        [lg.spec(1, 1, 5, 5), lg.spec(1, 1, 3, 3)],
        errors.BadArgument,
        ["the step", "0"],
    ),
    (
        lambda x0: functional.max_pool2d(x0, 3),
        [lg.spec(1, 1, B, B)],
        errors.DimSpecialised,
        ["batch", "at least 3"],
    ),
    (
        lambda x0: functional.avg_pool2d(x0, 0),
        [lg.spec(1, 1, 4, 4)],
        errors.BadArgument,
        ["the size", "0"],
    ),
    (lambda x0: x0.narrow(0, 2, 2), [lg.spec(3)], errors.ShapeMismatch, ["[narrow]"]),
    (
        lambda x0: x0.narrow(0, 2, 2),
        [lg.spec(B)],
        errors.DimSpecialised,
        [
            "[narrow] dim batch is declared as 1..64, but here it would have to be at least 4",
            'as lg.Dim("batch", 4, 64) is, since elements 2 to 4 must lie within batch',
        ],
    ),
    (
        lambda x0: x0[-5],
        [lg.spec(lg.Dim("fours", 4, 64, multiple_of=4))],
        errors.DimSpecialised,
        [
            "[index]",
            'at least 5, as lg.Dim("fours", 5, 64, multiple_of=4) is, for index -5 of axis 0',
        ],
    ),
    (
        lambda x0: lg.zeros(4)[x0.shape[0]],
        [lg.spec(B)],
        errors.DimSpecialised,
        [
            "[index]",
            'at most 3, as lg.Dim("batch", 1, 3) is, for index batch of axis 0, which is 4',
        ],
    ),
    (lambda x0: x0.pad((1, 2, 3)), [lg.spec(3)], errors.BadArgument, ["[pad]", "two widths"]),
    (lambda x0: x0.pad((1, 2), "x"), [lg.spec(3)], errors.BadArgument, ["[pad]"]),
    (lambda x0: lg.cat([]), [lg.spec(3)], errors.BadArgument, ["[cat]", "at least one"]),
    (
        lambda x0, x1: lg.cat([x0, x1]),
        [lg.spec(2, 3), lg.spec(2, 4)],
        errors.ShapeMismatch,
        ["[cat]", "(2, 3)", "(2, 4)", "axis 1"],
    ),
    (
        lambda x0, x1: lg.cat([x0, x1]),
        [lg.spec(2, 3), lg.spec(2)],
        errors.ShapeMismatch,
        ["[cat]", "(2,)"],
    ),
    (lambda x0: x0 | True, [lg.spec(3)], errors.DtypeMismatch, ["[bitwise_or]", "f32", "bool"]),
    (lambda x0: ~x0, [lg.spec(3)], errors.DtypeMismatch, ["[bitwise_not]"]),
    (lambda x0: -x0, [lg.spec(3, dtype=mask)], errors.DtypeMismatch, ["[neg]", "bool"]),
    (
        lambda x0: lg.where(x0, x0, 0),
        [lg.spec(3)],
        errors.DtypeMismatch,
        ["[where]", "the condition is f32"],
    ),
    (lambda x0: x0.mean(), [lg.spec(3, dtype=i64)], errors.DtypeMismatch, ["[mean]", "i64"]),
    (
        lambda x0, x1: x0 + x1,
        [lg.spec(B, 3, dtype=lg.u8), lg.spec(3, dtype=lg.i8)],
        errors.DtypeMismatch,
        [
            "[add] the operand of shape (3) is i8, must be u8, as the one of shape (batch, 3) is.",
            "i16",
            "are i8, u8, i32, i64: cast",
            ".to(lg.i32)",
        ],
    ),
    (
        lambda x0, x1: x0.hypot(x1),
        [lg.spec(B, 3, dtype=lg.u8), lg.spec(3, dtype=lg.i8)],
        errors.DtypeMismatch,
        ["[hypot] the operand of shape (3) is i8, must be u8"],
    ),
    (
        lambda x0: x0 & 1,
        [lg.spec(3)],
        errors.DtypeMismatch,
        ["[bitwise_and]", "f32", "integers or bools"],
    ),
    (lambda x0: x0.div(2, rounding_mode="up"), [lg.spec(3)], errors.BadArgument, ["[div]", "'up'"]),
    (
        lambda x0: functional.gelu(x0, "erf"),
        [lg.spec(3)],
        errors.BadArgument,
        ["[gelu]", "'erf'", "'none' or 'tanh'"],
    ),
    (
        lambda x0: functional.conv_transpose2d(x0, x0, stride=(3, 2), output_padding=(2, 2)),
        [lg.spec(1, 1, 4, 4)],
        errors.BadArgument,
        ["[conv_transpose2d] output_padding cannot be 2", "0 to 1, less than the stride"],
    ),
    (
        lambda x0: functional.conv_transpose1d(x0, x0, dilation=3, output_padding=3),
        [lg.spec(1, 1, 4)],
        errors.BadArgument,
        ["[conv_transpose1d] output_padding cannot be 3", "0 to 2"],
    ),
    (
        lambda x0: x0.scatter(1, lg.zeros(2, 9, dtype=lg.i64), x0),
        [lg.spec(2, 3)],
        errors.ShapeMismatch,
        ["[scatter] shapes (2, 9) and (2, 3)", "axis 1 of the index", "what is written"],
    ),
    (
        lambda x0: x0.scatter_add(1, lg.zeros(5, 3, dtype=lg.i64), lg.ones(5, 3)),
        [lg.spec(2, 3)],
        errors.ShapeMismatch,
        ["[scatter_add] shapes (5, 3) and (2, 3)", "axis 0 of the index", "the input"],
    ),
    (
        lambda x0: x0.scatter(1, lg.zeros(2, dtype=lg.i64), x0),
        [lg.spec(2, 3)],
        errors.ShapeMismatch,
        ["[scatter] shapes (2,) and (2, 3)", "as many axes"],
    ),
    (
        lambda x0: x0.index_add(0, lg.zeros(5, dtype=lg.i64), x0),
        [lg.spec(2, 3)],
        errors.ShapeMismatch,
        ["[index_add] shapes (2, 3) and (5, 3)", "a slice along axis 0 for each index"],
    ),
    (
        lambda x0: x0.index_copy(0, lg.zeros(2, dtype=lg.i64), x0[:, :2]),
        [lg.spec(2, 3)],
        errors.ShapeMismatch,
        ["[index_copy] shapes (2, 2) and (2, 3)"],
    ),
    (lambda x0: x0.topk(-1), [lg.spec(3)], errors.BadArgument, ["[topk] k cannot be -1"]),
    (
        lambda x0: lg.rot90(x0, 1, (0, 0)),
        [lg.spec(2, 3)],
        errors.BadArgument,
        ["[rot90]", "(0, 0)"],
    ),
    (lambda x0: x0.clamp(), [lg.spec(3)], errors.BadArgument, ["[clamp]", "min, max or both"]),
    (lambda x0: x0.quantile(2.0), [lg.spec(3)], errors.BadArgument, ["[quantile] q cannot be 2.0"]),
    (
        lambda x0: x0.flatten(1, 0),
        [lg.spec(2, 3)],
        errors.BadArgument,
        ["[flatten]", "cannot be 1"],
    ),
    (
        lambda x0: functional.dropout(x0, 2.0),
        [lg.spec(3)],
        errors.BadArgument,
        ["[dropout] p cannot be 2.0", "between 0 and 1"],
    ),
    (
        lambda x0: functional.fold(x0, (2, 2), 0),
        [lg.spec(1, 4, 4)],
        errors.BadArgument,
        ["[fold] kernel_size cannot be 0"],
    ),
    (lambda x0: x0.movedim((0, 1), (1, 1)), [lg.spec(2, 3)], errors.BadArgument, ["[movedim]"]),
    (lambda x0: x0.diagonal(0, 1, 1), [lg.spec(2, 3)], errors.BadArgument, ["[diagonal]", "dim2"]),
    (lambda x0: x0.t(), [lg.spec(2, 3, 4)], errors.BadArgument, ["[t]", "at most 2"]),
    (lambda x0: x0.tensor_split(0), [lg.spec(4)], errors.BadArgument, ["[tensor_split]", "0"]),
    (
        lambda x0: x0.as_strided((2, 3), (3, 1), 2),
        [lg.spec(7)],
        errors.BadArgument,
        ["[as_strided]", "element 7 is read of 7"],
    ),
    (
        lambda x0: x0.scatter_reduce(0, lg.arange(3), x0, "median"),
        [lg.spec(3)],
        errors.BadArgument,
        ["[scatter_reduce]", "'median'", "'amin'"],
    ),
    (
        lambda x0, x1: x0.index_put((x1, lg.arange(3)), x0[0]),
        [lg.spec(3, 3), lg.spec(3, dtype=lg.boolean)],
        errors.BadArgument,
        ["[index_put]", "a mask among them"],
    ),
    (
        lambda x0: lg.einsum("ij,jk->ik", x0),
        [lg.spec(2, 3)],
        errors.BadArgument,
        ["[einsum]", "1 tensors for 2 terms"],
    ),
    (
        lambda x0: lg.einsum("ijk->ik", x0),
        [lg.spec(2, 3)],
        errors.RankMismatch,
        ["[einsum]", "(2, 3)", "3 axes"],
    ),
    (
        lambda x0: lg.einsum("ij->ii", x0),
        [lg.spec(2, 3)],
        errors.BadArgument,
        ["[einsum]", "each letter of the result once"],
    ),
    (lambda x0: lg.mm(x0, x0[0]), [lg.spec(2, 2)], errors.RankMismatch, ["[mm]", "right", "(2,)"]),
    (lambda x0: lg.matrix_power(x0, -1), [lg.spec(2, 2)], errors.BadArgument, ["[matrix_power]"]),
    (
        lambda x0: lg.linalg.cross(x0, x0),
        [lg.spec(2, 4)],
        errors.ShapeMismatch,
        ["[cross]", "axis -1 must have 3 elements"],
    ),
    (
        lambda x0: functional.conv1d(x0, nn.Parameter(4, 3, 5, name="w")),
        [lg.spec(2, 2, 9)],
        errors.ShapeMismatch,
        ["[conv1d]", "the input has 2 channels"],
    ),
    (
        lambda x0: functional.conv3d(x0, nn.Parameter(4, 3, 5, name="w")),
        [lg.spec(2, 3, 9, 9, 9)],
        errors.RankMismatch,
        ["[conv3d]", "the weight", "5 axes (out, in, depth, height, width)"],
    ),
    (
        lambda x0: functional.conv_transpose2d(x0, nn.Parameter(3, 4, 2, 2, name="w"), padding=9),
        [lg.spec(1, 3, 4, 4)],
        errors.BadArgument,
        ["[conv_transpose2d]", "the height of the result would be -13"],
    ),
    (
        lambda x0: functional.max_pool2d(x0, 3, padding=2),
        [lg.spec(1, 1, 9, 9)],
        errors.BadArgument,
        ["[max_pool2d]", "padding cannot be 2", "half the window"],
    ),
    (
        lambda x0, x1: functional.grid_sample(x0, x1),
        [lg.spec(B, 3, S, 5), lg.spec(B, 4, 4, 3)],
        errors.ShapeMismatch,
        ["[grid_sample] shapes (batch, 3, sequence, 5) and (batch, 4, 4, 3)", "(batch, *sizes, k)"],
    ),
    (
        lambda x0, x1: functional.grid_sample(x0, x1),
        [lg.spec(B, 3, S, 5), lg.spec(4, B, 4, 2)],
        errors.ShapeMismatch,
        ["[grid_sample]", "(4, batch, 4, 2)", "the same batch"],
    ),
    (
        lambda x0, x1: functional.grid_sample(x0[:, :, 1:], x1),
        [lg.spec(3, 3, B, 5), lg.spec(3, 4, 4, 2)],
        errors.DimSpecialised,
        ["[grid_sample] dim batch", "at least 2", "axis 2 of the input has extent batch - 1"],
    ),
    (
        lambda x0: functional.affine_grid(x0, (4, 3, S, 5)),
        [lg.spec(B, 2, 3)],
        errors.ShapeMismatch,
        ["[affine_grid] shapes (batch, 2, 3) and (4, 3, sequence, 5)", "(batch, k, k + 1)"],
    ),
    (
        lambda x0: functional.interpolate(x0, 4, mode="bicubic"),
        [lg.spec(1, 2, 9)],
        errors.BadArgument,
        ["[interpolate]", "'bicubic'", "3 axes"],
    ),
    (
        lambda x0: functional.interpolate(x0, 4, mode="linear"),
        [lg.spec(1, 2, 9, dtype=i64)],
        errors.DtypeMismatch,
        ["[interpolate]", "i64", "as means are taken"],
    ),
    (
        lambda x0: functional.interpolate(x0, 4, 2.0),
        [lg.spec(1, 2, 9)],
        errors.BadArgument,
        ["[interpolate]", "size or scale_factor"],
    ),
    (
        lambda x0: functional.pad(x0, (1, 1), "mirror"),
        [lg.spec(1, 2, 9)],
        errors.BadArgument,
        ["[pad]", "'mirror'", "'reflect'"],
    ),
    (
        lambda x0: functional.pad(x0, (9, 0), "reflect"),
        [lg.spec(1, 2, 9)],
        errors.BadArgument,
        ["[pad]", "axis 2 of extent 9 is padded by 9 and 0"],
    ),
    (
        lambda x0: functional.one_hot(x0),
        [lg.spec(3, dtype=i64)],
        errors.BadArgument,
        ["[one_hot]", "num_classes", "not known while tracing"],
    ),
    (
        lambda x0: functional.batch_norm(x0, None, None),
        [lg.spec(2, 3)],
        errors.BadArgument,
        ["[batch_norm]", "running_mean"],
    ),
    (
        lambda x0: functional.kl_div(x0, x0, reduction="max"),
        [lg.spec(2, 3)],
        errors.BadArgument,
        ["[kl_div]", "'max'", "'batchmean'"],
    ),
    (lambda x0: x0**-1, [lg.spec(3, dtype=i64)], errors.BadArgument, ["[pow]", "-1"]),
    (lambda x0: x0 if x0.sum() > 0 else -x0, [lg.spec(3)], errors.BadArgument, ["[if]", "where("]),
    (lambda x0: len(x0), [lg.spec(B)], errors.BadArgument, ["[len]", "batch"]),
    (lambda x0: x0 + "1", [lg.spec(3)], errors.BadArgument, ["a str"]),
    (lambda x0: x0.norm("nuc"), [lg.spec(3)], errors.BadArgument, ["[norm]", "nuc"]),
    (
        lambda x0: nn.Linear(4, 2)(x0),
        [lg.spec(B, 3)],
        errors.ShapeMismatch,
        ["[linear]", "(batch, 3)", "(2, 4)"],
    ),
    (
        lambda x0: nn.Linear(3, 2)(x0),
        [lg.spec(B, 3, dtype=lg.bf16)],
        errors.DtypeMismatch,
        ["[linear]", "bf16", "f32"],
    ),
    (lambda x0: nn.Linear(3, 2)(x0), [lg.spec(B, 3)], errors.BadArgument, ["lg.Model(name, net)"]),
    (
        lambda x0: nn.Conv2d(3, 4, 3)(x0),
        [lg.spec(B, 2, 8, 8)],
        errors.ShapeMismatch,
        ["[conv2d]", "2 channels"],
    ),
    (
        lambda x0: nn.Conv2d(3, 4, 3)(x0),
        [lg.spec(B, 3)],
        errors.RankMismatch,
        ["[conv2d]", "4 axes"],
    ),
    (
        lambda x0: functional.layer_norm(x0, 4),
        [lg.spec(B, 3)],
        errors.ShapeMismatch,
        ["[layer_norm]", "ends in 3"],
    ),
    (
        lambda x0: functional.gelu(x0, "exact"),
        [lg.spec(3)],
        errors.BadArgument,
        ["[gelu]", "'exact'"],
    ),
    (
        lambda x0: functional.dropout(x0, training=True),
        [lg.spec(3)],
        errors.BadArgument,
        ["[dropout] generator", "lg.Generator(seed)"],
    ),
    (
        lambda x0: lg.rand_like(x0, generator=lg.Generator(x0)),
        [lg.spec(3)],
        errors.DtypeMismatch,
        ["[Generator]", "lg.spec(dtype=lg.i64)"],
    ),
    (
        lambda x0: lg.randint(5, 5, x0.shape, generator=lg.Generator(1)),
        [lg.spec(3)],
        errors.BadArgument,
        ["[randint] high", "more than low, 5"],
    ),
    (lambda x0: x0.retrieve(), [lg.spec(3)], errors.BadArgument, ["[retrieve]"]),
    (lambda x0: [x0, x0], [lg.spec(3)], errors.BadArgument, ["[entry]", "a list", "dict"]),
    (lambda x0: {"int": x0}, [lg.spec(3)], errors.BadArgument, ["'int'", "keyword"]),
    (lambda x0: {"x0": x0}, [lg.spec(3)], errors.BadArgument, ["'x0'", "an input"]),
    (lambda x0: lg.zeros(S), [lg.spec(B)], errors.UnknownDim, ["[entry]", "sequence", "batch"]),
    (
        lambda x0: x0.reshape([1] * 200 + [3]),
        [lg.spec(3)],
        errors.BadArgument,
        ["[reshape] ", "of 201 axes"],
    ),
    (
        lambda x0: lg.zeros(2**40, 2**40) + x0,
        [lg.spec(1)],
        errors.BadArgument,
        ["[zeros] ", "of 2**62 elements or more"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[2].__name__}-{c[3][0]}")
def test_message(case: Any) -> None:
    f, specs, error, texts = case
    with pytest.raises(error) as caught:
        trace(f, *specs)
    text = str(caught.value)
    for wanted in texts:
        assert wanted in text
    assert caught.value.where is not None
    assert Path(caught.value.where.file).name == "test_frontend_errors.py"
    assert len(text.splitlines()) <= 8


def test_an_error_says_in_which_layer_it_is() -> None:
    """Layers of one class run the same line."""

    class Block(nn.Module):
        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.f = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU())

        def forward(self, x: lg.Tensor) -> lg.Tensor:
            return self.f(x)

    def traced(net: nn.Module) -> None:
        model = lg.Model("layers", net)

        @model.entry(x=lg.spec(4, 8))
        def run(x: lg.Tensor) -> lg.Tensor:
            return net(x)

        model.trace()

    with pytest.raises(errors.ShapeMismatch, match=r"py:\d+ \(layer 1\.f\.0\): ") as caught:
        traced(nn.Sequential(Block(8), Block(17)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(errors.ShapeMismatch, match=r"py:\d+: \[linear\]"):
        traced(nn.Linear(17, 3))


def test_the_line_is_the_users() -> None:
    def entry(x0: Any) -> Any:
        y = x0.relu()
        return y + lg.zeros(9)  # this line

    with pytest.raises(errors.ShapeMismatch) as caught:
        trace(entry, lg.spec(3))
    lines = Path(__file__).read_text().splitlines()
    assert caught.value.where is not None
    assert "# this line" in lines[caught.value.where.line - 1]


SPECS: list[tuple[Callable[[], Any], type[errors.LumigenError], str]] = [
    (lambda: lg.spec(0), errors.BadArgument, "at least 1"),
    (lambda: lg.spec(B - 1), errors.BadArgument, "at least 1"),
    (lambda: lg.spec("batch"), errors.BadArgument, "'batch'"),
    (lambda: lg.spec(3, dtype="f32"), errors.BadArgument, "lg.f32"),  # type: ignore[arg-type]
    (lambda: lg.spec(3, range=(0, 1)), errors.BadArgument, "integer dtype"),
    (lambda: lg.spec(3, dtype=i64, range=(2, 1)), errors.BadArgument, "(2, 1)"),
    (lambda: lg.spec(lg.Dim("b", 0, 4)), errors.BadArgument, "0..4"),
    (lambda: lg.spec(lg.Dim("b", 5, 4)), errors.BadArgument, "5..4"),
    (lambda: lg.spec(lg.Dim("b", 1, 4, typical=9)), errors.BadArgument, "typically 9"),
    (lambda: lg.Dim("b", 1.0, 8), errors.BadArgument, "lo of b cannot be 1.0"),  # type: ignore[arg-type]
    (lambda: lg.Dim("b", True, 8), errors.BadArgument, "lo of b cannot be True"),
    (lambda: lg.Dim("b", 2, 8, 2.0), errors.BadArgument, "multiple_of of b cannot be 2.0"),  # type: ignore[arg-type]
    (
        lambda: lg.spec(lg.Dim("b", 2, 8, 2, typical=3)),
        errors.BadArgument,
        "multiple of 2 as typical",
    ),
    (lambda: lg.spec(3, dtype=i64, range=(0.5, 3)), errors.BadArgument, "(0.5, 3)"),  # type: ignore[arg-type]
    (lambda: lg.spec(3, dtype=i64, range=3), errors.BadArgument, "range cannot be 3"),  # type: ignore[arg-type]
    (
        lambda: lg.spec(3, dtype=lg.u8, range=(-1, 300)),
        errors.BadArgument,
        "numbers of u8, 0 to 255",
    ),
    (lambda: lg.spec(3, dtype=i64, range=(0, 2**70)), errors.BadArgument, "numbers of i64"),
    (lambda: lg.spec(dtype=i64, range=(0, 3 - B)), errors.BadArgument, "at least 0 at all dims"),
    (lambda: lg.spec(dtype=i64, range=(B, 9)), errors.BadArgument, "(least, greatest)"),
    (lambda: lg.spec(dtype=lg.u8, range=(0, B + 250)), errors.BadArgument, "numbers of u8"),
    (lambda: lg.spec(3, dtype=bool), errors.BadArgument, "lg.boolean"),  # type: ignore[arg-type]
    (lambda: lg.spec(lg.Dim("my dim", 1, 4)), errors.BadArgument, "'my dim'"),
    (lambda: lg.spec(10**20), errors.BadArgument, "an extent cannot be 2**62 or more"),
    (lambda: lg.spec(10**5000), errors.BadArgument, "an extent cannot be 2**62 or more"),
    (lambda: lg.spec(2**40, 2**40), errors.BadArgument, "of 2**62 elements or more"),
    (lambda: lg.spec(*[1] * 200), errors.BadArgument, "of 200 axes. Pass a shape of at most 64"),
    (lambda: lg.Model("my-model"), errors.BadArgument, "'my-model'"),
    (lambda: lg.Model("class"), errors.BadArgument, "'class'"),
    (lambda: lg.Model("m", version="one"), errors.BadArgument, "'one'"),
    (lambda: lg.Model("m").trace(), errors.BadArgument, "@model.entry"),
    (lambda: lg.Model("m").entry(x=lg.spec(4))(nn.ReLU()), errors.BadArgument, "written with def"),
    (lambda: nn.Parameter(3, 0), errors.BadArgument, "(3, 0)"),
]


@pytest.mark.parametrize(("f", "error", "text"), SPECS, ids=[t for _, _, t in SPECS])
def test_declarations(f: Callable[[], Any], error: type[errors.LumigenError], text: str) -> None:
    with pytest.raises(error) as caught:
        f()
    assert text in str(caught.value)
    assert caught.value.where is not None


def test_a_namespace_says_what_it_has() -> None:
    with pytest.raises(AttributeError, match=r"lumigen.nn has no Conv4d. Did you mean Conv3d or"):
        _ = lg.nn.Conv4d
    with pytest.raises(
        AttributeError, match=r"functional has no lstm. dir\(lumigen.functional\) lists"
    ):
        _ = lg.functional.lstm
    with pytest.raises(AttributeError, match=r"lumigen.nn has no Lstm. Did you mean LSTM\?"):
        _ = lg.nn.Lstm
    with pytest.raises(AttributeError, match=r"no relu6. It is here as lumigen.functional.relu6\."):
        _ = lg.relu6
    with pytest.raises(
        AttributeError, match=r"lumigen has no inv. It is here as lumigen.linalg.inv\."
    ):
        _ = lg.inv
    with pytest.raises(
        AttributeError, match=r"^lumigen.fft has no bogus. It has fftshift, ifftshift\.$"
    ):
        _ = lg.fft.bogus
    with pytest.raises(
        AttributeError, match=r"^lumigen.signal.windows has no han. Did you mean hann\?$"
    ):
        _ = lg.signal.windows.han
    for name in ("special", "signal", "masked", "linalg"):
        with pytest.raises(AttributeError, match=rf"^lumigen\.{name} has no bogus\. "):
            _ = getattr(lg, name).bogus
    with pytest.raises(AttributeError, match=r"lumigen.nn has no States. Did you mean State\?"):
        _ = lg.nn.States
    assert "Linear" in dir(lg.nn)
    assert "Any" not in dir(lg.nn)


@pytest.mark.parametrize(
    ("get", "text"),
    [
        (lambda: lg.nonzero, "lumigen has no nonzero, since the shape of its result depends on"),
        (lambda: lg.stft, "lumigen has no stft, since complex numbers have no dtype here."),
        (lambda: lg.fft.fft, "lumigen.fft has no fft, since complex numbers"),
        (lambda: lg.linalg.svd, "lumigen.linalg has no svd, since it needs eigenvalues or sing"),
        (lambda: lg.ctc_loss, "lumigen has no ctc_loss, since hardly any model that runs has it"),
        (lambda: functional.ctc_loss, "lumigen.functional has no ctc_loss, since hardly any"),
        (lambda: nn.CTCLoss, "lumigen.nn has no CTCLoss, since hardly any"),
        (lambda: lg.tensor([1]).unique, "a Tensor has no unique, since the shape of its result"),
        (lambda: lg.tensor([1]).resize_, "a Tensor has no resize_, since it is in place, or"),
    ],
)
def test_what_is_left_out_is_told_with_the_reason(get: Callable[[], Any], text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        get()
    assert str(caught.value).startswith(text)


def test_a_tensor_says_which_method_was_meant() -> None:
    def misspelt(x: Any) -> Any:
        return x.sofmax(-1)

    with pytest.raises(
        AttributeError, match=r"a Tensor has no sofmax. Did you mean softmax or fmax\?"
    ):
        trace_entry(Entry("entry", misspelt, (("x", lg.spec(4, 8)),)))
    with pytest.raises(
        AttributeError, match=r"a Tensor has no lstm. help\(lumigen\.Tensor\) lists"
    ):
        trace_entry(Entry("entry", lambda x: x.lstm(), (("x", lg.spec(4, 8)),)))


def test_modules_are_imported_as_users_of_pytorch_do() -> None:
    assert importlib.import_module("lumigen.nn") is lg.nn
    assert importlib.import_module("lumigen.functional") is lg.functional
    assert importlib.import_module("lumigen.nn.functional") is lg.functional
    assert importlib.import_module("lumigen.nn.utils.rnn") is nn.utils.rnn


def test_dtypes_have_pytorchs_names() -> None:
    assert (lg.float32, lg.bfloat16, lg.long, lg.uint8) == (lg.f32, lg.bf16, lg.i64, lg.u8)
    assert (lg.float, lg.int, lg.bool) == (lg.f32, lg.i32, lg.boolean)
    with pytest.raises(AttributeError, match=r"lumigen has no multinominal. Did you mean mult"):
        _ = lg.multinominal


def test_a_loop_over_a_dim_is_refused_in_words() -> None:
    model = lg.Model("loop")

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 9), 3))
    def run(x):
        return sum(x[i] for i in range(x.shape[0]))

    with pytest.raises(TypeError, match="batch is known only when the model runs"):
        model.trace()


ARRAY = np.ones((4,), np.float32)

# a call with an argument of a wrong kind, and what its error says behind the line
MISUSES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x @ ARRAY, "numpy.ndarray of shape (4,). Pass a tensor; an array is a parameter"),
    (lambda x: ARRAY @ x, "[operand] an operand cannot be a ndarray."),
    (lambda x: functional.linear(x, ARRAY), "[linear] weight cannot be a numpy.ndarray"),
    (lambda x: functional.linear(x, torch.ones(4, 4)), "[linear] weight cannot be a torch.Tensor of shape (4, 4)."),
    (lambda x: nn.Linear(4, 4)(None), "[Linear] input cannot be None. Pass a tensor."),
    (lambda x: lg.cat([x, None]), "[Tensor(f32[batch, 4]), None]. Pass a sequence, each of it a tensor."),
    (lambda x: lg.exp([1.0]), "[exp] input cannot be [1.0]. Pass a tensor."),
    (lambda x: x.masked_fill([True], 0.0), "[masked_fill] mask cannot be [True]. Pass a tensor."),
    (lambda x: x.reshape("b"), "[reshape] shape[0] cannot be 'b'. Pass an integer or an extent"),
    (lambda x: x.to(torch.float16), "[to] dtype cannot be torch.float16. Pass one of lg.f32"),
    (lambda x: x.to("cuda"), "[to] dtype cannot be 'cuda'. Pass a dtype; where a model runs is said when it is"),
    (lambda x: x.to(torch.device("cpu")), "Pass a dtype; where a model runs is said when it is compiled: lg.compile"),
    (lambda x: x.sum(-1, dtype=np.float32), "dtype cannot be <class 'numpy.float32'>. Pass"),
    (lambda x: nn.Linear(4, 4, dtype=torch.float16)(x), "[Parameter] dtype cannot be torch.float16."),
    (lambda x: x.sum(np.int64(1)), "[sum] dim cannot be np.int64(1). Pass an integer or"),
    (lambda x: lg.where(True, x, x), "[where] condition cannot be True. Pass a tensor."),
    (lambda x: functional.scaled_dot_product_attention(x, None, x), "attention] key cannot be None."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), MISUSES)
def test_an_argument_of_a_wrong_kind_is_told_with_the_line_of_the_call(call, text):
    with pytest.raises(errors.BadArgument) as caught:
        trace(lambda x0: call(x0), lg.spec(B, 4))  # by its own name
    assert text in str(caught.value)
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line) == (__file__, call.__code__.co_firstlineno)


# a call that Python refuses, and what the error says of it
REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda x: x.softmax(axis=-1),
        "[softmax] it got an unexpected keyword argument 'axis'. Call it as softmax(dim, dtype=None).",
    ),
    (lambda x: functional.gelu(x, aproximate="tanh"), "Call it as gelu(input, approximate='none')."),
    (lambda x: nn.Linear(4), "[Linear] it lacks 1 required positional argument: 'out_features'. Call it as"),
    (lambda x: x.sigmoid(1), "[sigmoid] it takes 1 positional argument but 2 were given. Call it as sigmoid()."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_a_call_that_python_refuses_is_told_with_the_parameters(call, text):
    with pytest.raises(errors.BadCall) as caught:
        trace(lambda x0: call(x0), lg.spec(B, 4))  # by its own name
    assert text in str(caught.value)
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line) == (__file__, call.__code__.co_firstlineno)


def modules() -> list[str]:
    """Those with parameters: of the rest Python says `Tanh() takes no arguments`, and an Identity takes any."""
    kinds = {n: k for n in nn.__all__ if isinstance(k := getattr(nn, n), type)}
    own = {n: k for n, k in kinds.items() if issubclass(k, nn.Module) and k is not nn.Identity}
    return [n for n, k in own.items() if k.__init__ is not object.__init__]


@pytest.mark.parametrize("name", modules())
def test_a_module_says_how_it_is_called(name):
    """By its own name, whichever class has its `__init__`."""
    with pytest.raises(errors.BadCall) as caught:
        getattr(nn, name)(no_such=1)
    text = str(caught.value)
    assert f"[{name}] it " in text
    assert f"Call it as {name}(" in text


def test_a_users_kind_of_a_module_is_told_how_ours_is_called():
    class Mine(nn.Conv2d):
        def __init__(self) -> None:
            super().__init__(3, 8, kernel=3)  # pyright: ignore[reportCallIssue]

    with pytest.raises(
        errors.BadCall, match=r"Call it as Conv2d\(in_channels, out_channels, kernel_size,"
    ):
        Mine()


def test_a_refused_call_of_the_users_own_function_stays_what_it_is():
    def softmax(x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        trace(lambda x0: softmax(x0, axis=1), lg.spec(B, 4))


def test_an_exception_that_no_argument_explains_stays_what_it_is(monkeypatch):
    def broken(*_: Any) -> Any:
        raise TypeError("of ours")

    monkeypatch.setattr("lumigen.frontend.elementary.exp", broken)
    with pytest.raises(TypeError, match="of ours"):
        trace(lambda x0: x0.exp(), lg.spec(B, 4))


# what is passed to numpy, and what the error says of it
TO_NUMPY: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: np.maximum(x, x), "[numpy.maximum] a lumigen tensor cannot be passed to numpy: it is being traced"),
    (lambda x: np.maximum(x, x), "Pass it to lumigen.functional.maximum or to its own method maximum."),
    (lambda x: np.exp(x), "[numpy.exp] a lumigen tensor cannot be passed to numpy"),
    (lambda x: np.abs(x), "Pass it to its own method abs."),
    (lambda x: np.add(x, x), "[numpy.add] a lumigen tensor cannot be passed to numpy"),
    (lambda x: np.add.reduce(x), "[numpy.add] a lumigen tensor cannot be passed to numpy"),
    (lambda x: np.sum(x), "[numpy.sum] a lumigen tensor cannot be passed to numpy"),
    (lambda x: np.concatenate([x, x]), "Pass it to lumigen.functional.cat."),
    (lambda x: np.ones(4) + x, "[operand] an operand cannot be a ndarray."),
    (lambda x: np.ones((4, 4)) @ x.mT, "[operand] an operand cannot be a ndarray."),
    (lambda x: np.put(x, 0, 1), "[numpy.put] a lumigen tensor cannot be passed to numpy"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), TO_NUMPY)
def test_functions_of_numpy_take_no_tensors(call, text):
    with pytest.raises(errors.BadArgument) as caught:
        trace(lambda x0: call(x0), lg.spec(B, 4))  # by its own name
    assert text in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


def test_numbers_of_numpy_stand_left_of_operators():
    def check(x0):
        two = np.float32(2)
        assert np.shape(x0) == x0.shape
        assert np.ndim(x0) == 2
        for theirs, ours in (
            (two * x0, 2.0 * x0),
            (two - x0, 2.0 - x0),
            (two / x0, 2.0 / x0),
            (two**x0, 2.0**x0),
            (two < x0, x0 > 2.0),
            (np.array(2.0) >= x0, x0 <= 2.0),
            (np.int64(3) % x0.long(), 3 % x0.long()),
            (np.True_ & (x0 > 0), True & (x0 > 0)),
        ):
            assert theirs.edge == ours.edge
        return x0

    trace(check, lg.spec(B, 4))


# calls while nothing is traced, and what the error says of them
OUTSIDE: list[tuple[Callable[[], Any], str]] = [
    (lambda: lg.spec("batch"), "[spec] an extent cannot be 'batch'. Pass a dim, with its least and its greatest"),
    (lambda: lg.spec((2, 3)), "[spec] an extent cannot be (2, 3). Pass extents one by one: lg.spec(2, 3)."),
    (lambda: lg.Dim("batch"), "[Dim] a dim cannot be lg.Dim('batch'). Pass a name, the least and the greatest size,"),
    (lambda: lg.Dim("batch", min=1, max=2), "[Dim] a dim cannot be lg.Dim('batch', min=1, max=2)."),
    (lambda: lg.Dim(3, 1, 2), "[Dim] a dim cannot be lg.Dim(3, 1, 2). Pass a name"),
    (lambda: lg.Model(3), "[Model] name cannot be 3. Pass a text."),
    (lambda: lg.Model("m", 3), "[Model] net cannot be of type int. Pass a module of lumigen.nn, or modules"),
    (lambda: lg.Model("m", torch.nn.Linear(1, 1)), "net cannot be of type Linear, a module of torch. Pass"),
    (lambda: nn.Sequential(3), "[Sequential] part 0 cannot be of type int. Pass a module of lumigen.nn."),
    (lambda: nn.Sequential(nn.ReLU(), functional.relu), "part 1 cannot be of type function. Pass a module of"),
    (lambda: nn.Sequential({"a": torch.nn.ReLU()}), "part a cannot be of type ReLU, a module of torch."),
    (lambda: nn.ModuleList([nn.ReLU()]).append(None), "[ModuleList] part 1 cannot be of type NoneType."),
    (lambda: nn.ModuleDict({"a": 3}), "[ModuleDict] part a cannot be of type int."),
    (lambda: nn.ParameterList([nn.ReLU()]), "[ParameterList] part 0 cannot be of type ReLU. Pass a parameter."),
    (lambda: lg.Model("m", nn.Linear), "[Model] net cannot be of type type."),
    (lambda: lg.Model("m", version=1), "[Model] version cannot be 1. Pass a text."),
    (lambda: lg.compile(nn.Linear(2, 2)), "[compile] model cannot be of type Linear. Pass an lg.Model."),
    (lambda: nn.Linear(2, 2).load_state_dict(None), "[load_state_dict] state_dict cannot be of type NoneType. Pass"),
    (lambda: nn.Linear(2, 2).load_state_dict("w.pt"), "[load_state_dict] state_dict cannot be of type str."),
    (lambda: nn.LSTM(3, None), "[LSTM] hidden_size cannot be None. Pass an integer."),
    (lambda: nn.Conv2d("a", 3, 3), "[Conv2d] in_channels cannot be 'a'. Pass an integer."),
    (lambda: nn.Linear(2, 2).to("cuda"), "Pass a dtype; where a model runs is said when it is compiled"),
    (lambda: lg.full((2,), 2**70), "[full] a number cannot be an integer of 71 bits. Pass a number from -2**63 to"),
    (lambda: lg.full((2,), 2**63), "[full] a number cannot be 9223372036854775808. Pass a number from -2**63 to"),
    (lambda: lg.full((2,), 256, dtype=lg.u8), "[full] a number cannot be 256. Pass a number from 0 to 255 for u8."),
    (lambda: lg.zeros(2, dtype=lg.u8).pad((1, 0), -1), "[pad] a number cannot be -1. Pass a number from 0 to 255"),
    (lambda: lg.pow(2, 3), "[pow] an operand cannot be 2 and 3. Pass a tensor."),
    (lambda: lg.xlogy(2, 3.5), "[xlogy] an operand cannot be 2 and 3.5. Pass a tensor."),
    (lambda: lg.isin(2, 3), "[isin] an operand cannot be 2 and 3. Pass a tensor."),
    (lambda: lg.arange(2) < 2**63, "[constant] a number cannot be 9223372036854775808."),
    (lambda: lg.sym_max(3, 4.5), "[sym_max] b cannot be 4.5. Pass a size: an integer, a dim or"),
    (lambda: lg.sym_min("n", 2), "[sym_min] a cannot be 'n'. Pass a size"),
    (lambda: nn.Linear(3, 4)(np.ones((2, 3))), "[linear] the input cannot be a ndarray. Pass tensors of this trace"),
    (lambda: nn.Conv2d(3, 4, 3)(torch.ones(1, 3, 8, 8)), "[conv2d] the input cannot be a Tensor. Pass tensors of"),
    (
        lambda: nn.ReLU6().load_state_dict([("weight", 1)]),
        "[load_state_dict] state_dict cannot be of type list. Pass arrays by name",
    ),
    (
        lambda: nn.Linear(2, 2).load_state_dict(dict.fromkeys(("weight", "bias"), torch.eye(2).to_sparse())),
        "[load_state_dict] weights cannot be 'weight': a Tensor (torch.float32 torch.sparse_coo cpu). Pass names with",
    ),
    (lambda: lg.full((2,), 10**400, lg.f32), "[full] a number cannot be an integer of 1329 bits. Pass a float"),
    (lambda: lg.full((2,), math.nan, lg.i32), "[full] a number cannot be nan, which is no integer."),
    (lambda: lg.full((2**70,), 1.0), "[full] the size of axis 0 cannot be 1180591620717411303424. Pass sizes below"),
    (lambda: lg.tensor([[1, 2], [3]]), "[tensor] data cannot be a list of this kind."),
    (lambda: lg.tensor("a"), "[tensor] data cannot be a str of this kind. Pass a number, nested lists"),
    (lambda: lg.tensor(np.ones(2, np.complex64)), "data cannot be a ndarray of this kind."),
    (lambda: lg.tensor([lg.zeros(2)]), "[tensor] data cannot be a list of this kind."),
    (lambda: lg.tensor([0.5], dtype=torch.float16), "[tensor] dtype cannot be torch.float16."),
    (lambda: lg.tensor(np.arange(65)), "65 numbers. Pass at most 64, and more as a buffer of a module, self.reg"),
    (lambda: lg.arange(2**70), "[arange] the size of axis 0 cannot be 1180591620717411303424."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), OUTSIDE)
def test_a_wrong_call_outside_of_an_entry_is_told_with_its_line(call, text):
    with pytest.raises(errors.BadArgument) as caught:
        call()
    assert text in str(caught.value)
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line) == (__file__, call.__code__.co_firstlineno)


def test_dims_are_copied_and_pickled():
    assert copy.deepcopy(B).name == pickle.loads(pickle.dumps(B)).name == "batch"
    assert lg.Dim(name="batch", lo=1, hi=64).hi == 64


@pytest.mark.parametrize("name", ["cuda", "cpu"])
def test_a_module_is_on_no_device(name):
    with pytest.raises(AttributeError, match=r"a Linear has no .*--target cuda"):
        getattr(nn.Linear(2, 2), name)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'wieght'"):
        _ = nn.Linear(2, 2).wieght


def assigned(x: Any) -> Any:
    x[0] = 1.0
    return x


# what asks a tensor for its values, and what the error says of it
VALUELESS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x if x.sum() > 0 else -x, "[if] a tensor cannot be read while the model is traced: it has no numbers"),
    (lambda x: x * float(x.sum()), "[float] a tensor cannot be read"),
    (lambda x: x * int(x.sum()), "[int] a tensor cannot be read"),
    (lambda x: range(x.sum()), "[index] a tensor cannot be read"),
    (lambda x: x * x.sum().item(), "[item] a tensor cannot be read"),
    (lambda x: x * x.tolist()[0], "[tolist] a tensor cannot be read"),
    (lambda x: x + np.asarray(x), "[numpy] a tensor cannot be read"),
    (assigned, "[x[...] = y] a tensor cannot be assigned to: it is a value, and no memory. Pass it to where("),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), VALUELESS)
def test_values_cannot_be_asked_for(call, text):
    with pytest.raises(errors.BadArgument) as caught:
        trace(lambda x0: call(x0), lg.spec(B, 4))  # by its own name
    assert text in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


@pytest.mark.parametrize(
    "read", [bool, float, lambda x: x.numpy(), lambda x: x.tolist(), np.asarray]
)
def test_values_cannot_be_asked_for_where_nothing_runs(read):
    for x in (lg.tensor([1.0]), lg.Graph().tensor((1,)).set([1.0]) * 2):
        with pytest.raises(
            errors.BadArgument, match=r"nothing runs.*y\.retrieve\(\).*lg\.Graph"
        ) as caught:
            read(x)
        assert caught.value.where is not None
        assert caught.value.where.file == __file__


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("add_", "a Tensor has no add_. A Tensor is a value, and no memory: write x = x.add(...)."),
        (
            "cuda",
            "a Tensor has no cuda. The target of the compilation, such as `--target cuda`, decides",
        ),
        ("requires_grad", "a Tensor has no requires_grad. Nothing is differentiated"),
    ],
)
def test_what_tensors_elsewhere_have_is_told(name, text):
    with pytest.raises(AttributeError) as caught:
        trace(lambda x0: getattr(x0, name), lg.spec(B, 4))
    assert text in str(caught.value)


def test_a_result_that_is_no_result_is_told_with_what_it_holds_and_its_line():
    def pair(x0: Any) -> Any:
        y = x0 + 1
        return y, (x0, 3)

    def either(x0: Any) -> Any:
        if x0.shape[1] == 4:
            return None
        return x0

    with pytest.raises(errors.BadArgument) as caught:
        trace(pair, lg.spec(B, 4))
    assert (
        "cannot be a tuple of (Tensor(f32[batch, 4]), tuple of (Tensor(f32[batch, 4]), int))"
        in str(caught.value)
    )
    assert caught.value.where is not None
    assert caught.value.where.line == pair.__code__.co_firstlineno + 2
    with pytest.raises(errors.BadArgument, match="the result cannot be None") as caught:
        trace(either, lg.spec(B, 4))
    assert caught.value.where is not None
    assert caught.value.where.line == either.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("name", "args", "least"),
    [
        ("max_pool2d", (2,), 2),
        ("avg_pool1d", (2,), 1),
        ("lp_pool2d", (2, 2), 2),
        ("adaptive_avg_pool2d", (2,), 2),
        ("adaptive_max_pool3d", (2,), 3),
        ("pixel_shuffle", (2,), 3),
        ("pixel_unshuffle", (2,), 3),
        ("channel_shuffle", (2,), 3),
        ("group_norm", (1,), 2),
        ("tril", (), 2),
        ("triu", (), 2),
        ("diag_embed", (), 1),
    ],
)
def test_an_input_of_too_few_axes_is_told_with_its_shape(name, args, least):
    call = getattr(lg.functional, name, None) or getattr(lg, name)
    shape = (2,) * (least - 1)
    with pytest.raises(errors.RankMismatch) as caught:
        trace(lambda x0: call(x0, *args), lg.spec(*shape))
    assert f"[{name}] the input has shape" in str(caught.value)
    assert f"at least {least} ax" in str(caught.value)
    trace(lambda x0: call(x0, *args), lg.spec(*(4,) * least))
