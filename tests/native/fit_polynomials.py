"""Fit the polynomials of vmath.h: near-minimax in relative error, with coefficients that are floats.

Run: python fit_polynomials.py (needs mpmath and numpy). It prints every coefficient, and the error
that the rounded polynomial keeps when it is evaluated exactly. The fit is Lawson's: least squares,
reweighted by the error until the peaks are level; unlike Remez it needs no alternation, so terms
may be left out or fixed. Coefficients are rounded one at a time, the largest term first, and the
rest is fitted again after each, so that later terms absorb the rounding of earlier ones.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 40
POINTS = 120
ROUNDS = 12


def fit(rows, right):
    """Coefficients c that make max |rows @ c - right| small."""
    weights = [mp.mpf(1)] * len(right)
    n = len(rows[0])
    for _ in range(ROUNDS):
        normal = mp.matrix(n, n)
        moment = mp.matrix(n, 1)
        for row, y, w in zip(rows, right, weights, strict=True):
            for i in range(n):
                moment[i] += w * row[i] * y
                for j in range(n):
                    normal[i, j] += w * row[i] * row[j]
        solved = mp.lu_solve(normal, moment)
        c = [solved[i] for i in range(n)]
        errors = [abs(mp.fdot(row, c) - y) for row, y in zip(rows, right, strict=True)]
        scaled = [w * e for w, e in zip(weights, errors, strict=True)]
        total = mp.fsum(scaled)
        weights = [s / total + mp.mpf(10) ** -12 for s in scaled]
    return c


def fit_floats(target, exponents, weight, low, high):
    """Coefficients of x^p, p in exponents, so that sum(c x^p) is near target(x), relative to weight(x)."""
    middle, half = (low + high) / 2, (high - low) / 2
    xs = [middle + half * mp.cos(mp.pi * (i + mp.mpf("0.5")) / POINTS) for i in range(POINTS)]
    rows = [[x**p / weight(x) for p in exponents] for x in xs]
    right = [target(x) / weight(x) for x in xs]
    fixed = []
    for i in range(len(exponents)):
        left = [y - mp.fdot(row[:i], fixed) for row, y in zip(rows, right, strict=True)]
        fixed.append(mp.mpf(float(np.float32(float(fit([row[i:] for row in rows], left)[0])))))
    worst = max(abs(mp.fdot(row, fixed) - y) for row, y in zip(rows, right, strict=True))
    return fixed, worst


def show(name, coefficients, worst):
    print(f"{name}: relative error 2^{float(mp.log(worst, 2)):.2f}")
    for c in coefficients:
        print(f"  {float(c):.9g}f")


def split(name, value, parts):
    """A constant as an unevaluated sum of floats, the largest first."""
    for _ in range(parts):
        part = mp.mpf(float(np.float32(float(value))))
        print(f"{name}: {float(part):.9g}f")
        value -= part


def main():
    exp2 = lambda f: mp.mpf(2) ** f  # noqa: E731
    half = mp.mpf("0.50001")  # rounding x to n may leave |x - n| a little above 1/2
    show("2^f - 1", *fit_floats(lambda f: exp2(f) - 1, range(1, 7), exp2, -half, half))

    log2 = lambda r: mp.log(1 + r, 2)  # noqa: E731
    low, high = mp.sqrt(mp.mpf("0.5")) - 1, mp.sqrt(mp.mpf(2)) - 1
    log2e = 1 / mp.log(2)
    split("log2(e)", log2e, 2)
    for last in (8, 9, 10):
        fitted = fit_floats(
            lambda r: log2(r) - r * log2e, range(2, last + 1), lambda r: abs(log2(r)), low, high
        )
        show(f"log2(1 + r) - r log2(e), r^2 .. r^{last}", *fitted)

    edge = mp.pi / 2 + mp.mpf("0.001")
    show(
        "sin(r) - r",
        *fit_floats(lambda r: mp.sin(r) - r, range(3, 10, 2), mp.sin, mp.mpf(2) ** -20, edge),
    )
    split("pi", mp.pi, 3)
    mp.mp.dps = 100
    bits = int(mp.floor(mp.mpf(2) ** 224 / mp.pi))
    print("1/pi:", ", ".join(f"0x{(bits >> (32 * i)) & 0xFFFFFFFF:08x}" for i in range(6, -1, -1)))


if __name__ == "__main__":
    main()
