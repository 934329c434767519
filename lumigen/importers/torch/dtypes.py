"""dtypes: those of PyTorch that there are here."""

from __future__ import annotations

import torch

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8

DTYPES: dict[torch.dtype, DType] = {
    torch.float32: f32,
    torch.float16: f16,
    torch.bfloat16: bf16,
    torch.float64: f64,
    torch.int8: i8,
    torch.uint8: u8,
    torch.int32: i32,
    torch.int64: i64,
    torch.bool: boolean,
}
