"""Prints which entries of torch's list pass, with the first mistake of those that do not.

Usage: python tests/parity/survey.py [NAME ...] [--few N]
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import torch
from exclusions import left_out
from opinfo import OPS, called, check, dtypes_of, samples
from table import CALLS

from lumigen.frontend.excluded import reason

WANTED = (torch.float32, torch.int64, torch.bool)


def verdict(name: str, most: int | None) -> tuple[str, str]:
    op = OPS[name]
    call = called(name, CALLS)
    if reason(name):
        return "excluded", reason(name) or ""
    if call is None:
        return "missing", ""
    count = 0
    failed = 0
    first = ""
    for dtype in dtypes_of(op, WANTED):
        try:
            for i, sample in enumerate(samples(op, dtype)):
                if most is not None and i >= most:
                    break
                if left_out(name, sample):
                    continue
                count += 1
                try:
                    check(op, call, sample)
                except Exception as e:  # noqa: BLE001
                    failed += 1
                    if not first:
                        what = shown(sample)
                        first = f"{dtype} {type(e).__name__}: {' '.join(str(e).split())[:300]} :: {what[:300]}"
        except Exception as e:  # noqa: BLE001
            first = f"samples: {type(e).__name__}: {e}"[:200]
            failed += 1
    if failed:
        return "fails", f"{failed}/{count} {first}"
    return ("passes" if count else "empty"), str(count)


def shown(sample: object) -> str:
    def one(x: object) -> str:
        if isinstance(x, torch.Tensor):
            return f"T{str(x.dtype)[6:]}{list(x.shape)}"
        if isinstance(x, tuple | list):
            return f"({', '.join(map(one, x))})"
        return repr(x)

    kwargs = ", ".join(f"{k}={one(v)}" for k, v in sample.kwargs.items())
    return f"{one(sample.args)} {kwargs}"


def main() -> None:
    args = sys.argv[1:]
    most = int(args[args.index("--few") + 1]) if "--few" in args else None
    names = [a for a in args if not a.startswith("--") and not a.isdigit()]

    total: Counter[str] = Counter()
    for name in OPS:
        if names and not any(name == n or name.split("|")[0] == n for n in names):
            continue
        start = time.perf_counter()
        status, detail = verdict(name, most)
        total[status] += 1
        spent = time.perf_counter() - start
        if status not in ("passes", "excluded") or names:
            print(f"{status:8} {name:45} {spent:5.1f}s {detail}", flush=True)
        elif spent > 8:
            print(f"slow     {name:45} {spent:5.1f}s {detail}", flush=True)
    print(total, len(OPS))


if __name__ == "__main__":
    main()
