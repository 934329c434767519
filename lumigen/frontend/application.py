"""What a model may carry besides its entries: programs that are emitted with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lumigen.application import TextEntry, TextProgram
from lumigen.dtype import i32, i64
from lumigen.errors import BadArgument, user_location
from lumigen.graph import Graph, Node, tensor_of
from lumigen.index import Dim, Ix, is_nonnegative, ix
from lumigen.tokenizer import Tokenizer
from lumigen.view import Shape


class TextGeneration:
    """A program `bin/<model>` with a command `generate`, which continues texts.

    `prefill` and `decode` name entries of the model that share its states. Each takes the ids of tokens,
    integers in a shape whose axes are 1 but the last, and their position: that of the first of them, an
    integer without axes with a `range` that begins at 0 and ends where the ids still have places,
    `(0, places - tokens)`. It gives the logits, floats, of the token that follows the last one, in the
    same way. `prefill` takes 1 to many ids, a `Dim`; longer prompts come in parts. `decode` takes one.

    `tokenizer` is `weights.tokenizer`. There is a logit for each of its tokens; with `padded` there may
    be more, of tokens that never come. `ends` are the ids that end a text, by default the tokenizer's
    `eos`. BadArgument, when the model is traced, for what is otherwise.
    """

    def __init__(
        self,
        *,
        tokenizer: Tokenizer | None,
        prefill: str = "prefill",
        decode: str = "decode",
        padded: bool = False,
        ends: Sequence[int] | None = None,
    ) -> None:
        self.where = user_location()
        if not isinstance(tokenizer, Tokenizer):
            value = "None" if tokenizer is None else f"a {type(tokenizer).__name__}"
            expected = "weights.tokenizer of weights that have one"
            raise self._wrong("tokenizer", value, expected)
        self.tokenizer = tokenizer
        self.prefill = prefill
        self.decode = decode
        self.padded = padded
        default = () if tokenizer.eos is None else (tokenizer.eos,)
        self.ends = default if ends is None else tuple(ends)

    def _wrong(self, name: str, value: object, expected: str) -> BadArgument:
        return BadArgument(
            where=self.where, op="TextGeneration", name=name, value=value, expected=expected
        )

    def program(self, entries: Mapping[str, Graph]) -> TextProgram:
        """The program over these entries."""
        count = len(self.tokenizer.tokens)
        for id in self.ends:
            if not 0 <= id < count:
                raise self._wrong("ends", id, f"ids from 0 to {count - 1}")
        prefill, tokens, last = self._entry("prefill", self.prefill, entries)
        decode, one, end = self._entry("decode", self.decode, entries)
        if not isinstance(tokens, Dim) or tokens.lo != 1 or tokens.multiple_of != 1:
            expected = (
                'an entry for 1 to many ids, such as lg.spec(lg.Dim("tokens", 1, 64), dtype=lg.i64)'
            )
            raise self._wrong("prefill", f"{self.prefill!r}, of {tokens} ids", expected)
        if one != ix(1):
            expected = "an entry for one id, lg.spec(1, dtype=lg.i64)"
            raise self._wrong("decode", f"{self.decode!r}, of {one} ids", expected)
        length, same = ((e.bounds()[1] or 0) + 1 for e in (last, end))
        if length != same:
            value = f"{self.decode!r}, with {same} positions"
            raise self._wrong("decode", value, f"an entry with {length}, as {self.prefill!r} has")
        if not is_nonnegative(length - ix(tokens) - last):
            name, value = f"{prefill.position} of {prefill.entry}", f"of the range (0, {last})"
            expected = f"its spec range=(0, {length} - {tokens}), which leaves room for the tokens"
            raise self._wrong(name, value, expected)
        return TextProgram(prefill, decode, tokens.hi, length, self.tokenizer, self.ends)

    def _entry(
        self, role: str, name: str, entries: Mapping[str, Graph]
    ) -> tuple[TextEntry, Dim | Ix, Ix]:
        """The entry, how many ids it takes, the greatest position that they may begin at."""
        if name not in entries:
            expected = f"the name of an entry: {', '.join(entries)}"
            raise self._wrong(role, repr(name), expected)
        graph = entries[name]
        ids = [n for n in graph.inputs if n.dtype in (i32, i64) and _is_line(n.shape)]
        positions = [n for n in graph.inputs if n.dtype in (i32, i64) and not n.shape]
        if len(ids) != 1 or len(positions) != 1 or len(graph.inputs) != 2:
            taken = ", ".join(map(_text, graph.inputs))
            expected = "an entry of two inputs, ids: i64[tokens] and position: i64[]"
            raise self._wrong(role, f"{name!r}, which takes {taken}", expected)
        position = tensor_of(positions[0])
        if position.range is None or position.range[0] != 0:
            expected = "its spec a range from 0 to the last position, such as range=(0, 511)"
            raise self._wrong(
                f"{position.name} of {name}", f"of the range {position.range}", expected
            )
        found = TextEntry(
            name, tensor_of(ids[0]).name, position.name, self._logits(role, name, graph)
        )
        extent = ids[0].shape[-1]
        dims = (a for a in extent.atoms() if isinstance(a, Dim) and ix(a) == extent)
        most = ix(position.range[1]) if position.most is None else position.most
        return found, next(dims, extent), most

    def _logits(self, role: str, entry: str, graph: Graph) -> str:
        count = len(self.tokenizer.tokens)
        outputs = [(name, e) for name, e in graph.outputs if e.dtype.is_float]
        fitting = [(name, e) for name, e in outputs if _is_line(e.shape) and e.shape[-1].is_const]
        if len(graph.outputs) != 1 or len(fitting) != 1:
            given = ", ".join(
                f"{name}: {e.dtype}[{_extents(e.shape)}]" for name, e in graph.outputs
            )
            expected = f"an entry whose one output is the logits after the last token, f32[{count}]"
            raise self._wrong(role, f"{entry!r}, which gives {given}", expected)
        name, edge = fitting[0]
        found = edge.shape[-1].const
        if found < count or (found > count and not self.padded):
            value = f"{count} tokens, where {entry} gives {found} logits"
            remedy = " padded=True, if the logits after those of the tokens are padding, or"
            expected = (
                f"{remedy if found > count else ''} the tokenizer that the model was trained with"
            )
            raise self._wrong("tokenizer", value, expected.strip())
        return name


def _is_line(shape: Shape) -> bool:
    """Whether all axes are 1 but the last."""
    return bool(shape) and all(e.is_const and e.const == 1 for e in shape[:-1])


def _extents(shape: Shape) -> str:
    return ", ".join(map(str, shape))


def _text(n: Node) -> str:
    return f"{tensor_of(n).name}: {n.dtype}[{_extents(n.shape)}]"
