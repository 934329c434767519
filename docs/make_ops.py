"""Writes ops.md: every op of PyTorch's own list, and whether it is offered here.

What it says comes from the tables of tests/parity, which run PyTorch's samples of each op.
Usage: python docs/make_ops.py   (a test fails where the page is stale)
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "ops.md"
sys.path.insert(0, str(ROOT / "tests" / "parity"))

from exclusions import DRAWN, PARTLY  # noqa: E402
from opinfo import OPS  # noqa: E402

from lumigen.frontend.excluded import EXCLUDED, reason  # noqa: E402

HEAD = """# Ops

Every forward entry of PyTorch 2.13's own list of ops (`op_db`, an entry being an op or a variant of one), and whether
it is offered here under the same name: as a function of `lg`, a method of a tensor, or in `lg.functional`, `lg.linalg`,
`lg.special`, `lg.masked`, `lg.signal.windows`. `python docs/make_ops.py` writes this page from the tables of
`tests/parity`, whose tests run PyTorch's samples of every entry that is offered, in f32, i64 and bool where PyTorch
has them, and two of each in every other dtype.

| | entries | of all |
| --- | --- | --- |
| pass all samples | {whole} | {whole_share} |
| pass in shape and dtype: their numbers are drawn | {drawn} | {drawn_share} |
| pass, some samples left out | {partly} | {partly_share} |
| not offered | {out} | {out_share} |
| all | {total} | |

Of the {left} entries that are not excluded for a reason below, all pass: {whole} with every sample, {drawn} in shapes
and dtypes, as numbers that are drawn are of a generator of our own, and {partly} but for the samples that the table
names.
"""


def share(part, whole):
    return f"{100 * part / whole:.1f} %"


def wrapped(names):
    return ", ".join(f"`{n}`" for n in names)


def escaped(name):
    """A bar would begin a cell of the table."""
    return name.replace("|", "\\|")


def render():
    offered = [n for n in OPS if reason(n) is None]
    partly = [n for n in offered if n in PARTLY]
    whole = [n for n in offered if n not in PARTLY and n not in DRAWN]
    counts = {
        "whole": len(whole),
        "drawn": len(DRAWN),
        "partly": len(partly),
        "out": len(OPS) - len(offered),
    }
    facts = counts | {f"{k}_share": share(v, len(OPS)) for k, v in counts.items()}
    parts = [HEAD.format(**facts, total=len(OPS), left=len(offered)), "## Offered\n"]
    spaces = {}
    for n in whole:
        space = n.rpartition(".")[0] or "torch"
        spaces.setdefault(space, []).append(n.rpartition(".")[2])
    parts += [f"* {space}: {wrapped(sorted(names))}\n" for space, names in spaces.items()]
    parts.append(f"## Offered, drawn by a generator\n\n{wrapped(sorted(DRAWN))}\n")
    parts.append("## Offered, some samples left out\n\n| entry | left out, since |\n| --- | --- |")
    parts += [f"| `{escaped(n)}` | {PARTLY[n][1]} |" for n in sorted(partly)]
    parts.append("\n## Not offered\n")
    parts += [f"* {why}: {wrapped(names)}\n" for why, names in EXCLUDED.items()]
    return "\n".join(parts)


def main():
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    after = render()
    if after != before:
        PAGE.write_text(after, encoding="utf-8")
    print(f"{PAGE.name}: {'unchanged' if after == before else 'written'}")


if __name__ == "__main__":
    main()
