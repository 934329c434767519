"""Amounts for people: bytes, counts, times."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes for people."""
    return f"{_scaled(count, 1024, ('', 'Ki', 'Mi', 'Gi', 'Ti'))}B"


def number(count: float) -> str:
    """A count for people."""
    return _scaled(count, 1000, ("", "k", "M", "G", "T")).rstrip()


def _scaled(count: float, base: int, prefixes: tuple[str, ...]) -> str:
    power = 0
    while abs(count) >= base and power < len(prefixes) - 1:
        count /= base
        power += 1
    digits = f"{count:.0f}" if power == 0 or abs(count) >= 100 else f"{count:.1f}"
    return f"{digits} {prefixes[power]}"


def duration(seconds: float) -> str:
    """A time for people."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
