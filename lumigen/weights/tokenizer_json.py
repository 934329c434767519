"""tokenizer.json of Hugging Face, and what tokenizer_config.json says beside it, as plain data.

Promises the ids of the `tokenizers` library for BPE (of bytes, or of characters with metaspaces), Unigram and
WordPiece; any part of a file that is not known here is refused by its name.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from lumigen.tokenizer import GPT2, Added, TextStep, Tokenizer
from lumigen.tokenizer.data import Spelling
from lumigen.tokenizer.doubling import doubles
from lumigen.tokenizer.patterns import CLUSTER, WORD, compiled
from lumigen.weights.charsmap import read_charsmap
from lumigen.weights.json_text import MAX_CONFIG, bounded_text, json_object
from lumigen.weights.stored import bad

FILE = "tokenizer.json"
MAX_BYTES = 200_000_000
MAX_TOKENS = 10_000_000

Json: TypeAlias = dict[str, Any]
REMEDY = (
    "Compare the file with its original; with --set program=false a model is compiled without the program "
    "that reads it."
)
BEHAVIOURS = {
    "Isolated": "isolate",
    "Removed": "remove",
    "MergedWithPrevious": "with_previous",
    "MergedWithNext": "with_next",
}


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer beside weights; None where there is no tokenizer.json."""
    file = folder / FILE
    if not file.is_file():
        return None
    return _TokenizerReader(file, json_object(file, bounded_text(file, MAX_BYTES))).read()


@dataclass
class _Parts:
    """What the parts of a file come to, in the order in which they are read."""

    normalize: list[TextStep] = field(default_factory=list[TextStep])
    split: list[TextStep] = field(default_factory=list[TextStep])
    spelling: Spelling = "plain"
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    strips: bool = False
    tidy: bool = False


class _TokenizerReader:
    def __init__(self, file: Path, top: Json) -> None:
        self.file = file
        self.top = top

    def wrong(self, why: str) -> Exception:
        return bad(self.file, why, REMEDY)

    def part(self, of: Json, key: str) -> Json:
        """An object in another; empty where it is null or left out."""
        value = of.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(f"its {key} is not an object")
        return cast("Json", value)

    def parts(self, of: Json, key: str) -> list[Json]:
        """A list of objects in another."""
        value = of.get(key)
        items = cast("list[Any]", value) if isinstance(value, list) else None
        if items is None or not all(isinstance(v, dict) for v in items):
            raise self.wrong(f"its {key} is not a list of objects")
        return cast("list[Json]", items)

    def text(self, of: Json, key: str, default: str = "") -> str:
        value = of.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(f"its {key} is no text")
        return default if value is None else value

    def flag(self, of: Json, key: str, *, default: bool = False) -> bool:
        value = of.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(f"its {key} is neither true nor false")
        return default if value is None else value

    def read(self) -> Tokenizer:
        model = self.part(self.top, "model")
        kind = self.text(model, "type") or ("BPE" if "merges" in model else "WordPiece")
        if kind not in ("BPE", "Unigram", "WordPiece"):
            raise self.wrong(
                f"its model is of the kind {kind[:40]}, of which BPE, Unigram and WordPiece are read"
            )
        if kind == "Unigram":
            vocab = {i: text for i, (text, _) in enumerate(self.scored(model))}
        else:
            vocab = self.vocabulary(model)
        tokens, added = self.with_added(vocab)
        if not tokens:
            raise self.wrong("it has no tokens")
        parts = _Parts()
        self.normalizer(self.part(self.top, "normalizer"), parts)
        self.pre_tokenizer(self.part(self.top, "pre_tokenizer"), parts)
        self.decoder(self.part(self.top, "decoder"), parts)
        self.post_processor(self.part(self.top, "post_processor"), parts)
        for step in (*parts.normalize, *parts.split):
            self.check_pattern(step)
        ids = {text: i for i, text in enumerate(tokens)}
        unknown = model.get("unk_token")
        common: dict[str, Any] = {
            "added": added,
            "normalize": tuple(parts.normalize),
            "split": tuple(parts.split),
            "before": parts.before,
            "after": parts.after,
            "unknown": ids.get(unknown) if isinstance(unknown, str) else None,
            "strip_space": parts.strips,
            "tidy": parts.tidy,
            **self.beside(ids),
        }
        make = {"BPE": self.merged, "Unigram": self.unigram, "WordPiece": self.pieces}[kind]
        return make(model, parts.spelling, tokens, common)

    def pieces(self, model: Json, _: Spelling, tokens: tuple[str, ...], common: Json) -> Tokenizer:
        longest = model.get("max_input_chars_per_word", 100)
        if type(longest) is not int or longest < 0:
            raise self.wrong("its max_input_chars_per_word is no count")
        marks = self.text(model, "continuing_subword_prefix", "##")
        return Tokenizer(
            "wordpiece", "words", tokens, continuing=marks, longest_word=longest, **common
        )

    def unigram(
        self, model: Json, spelling: Spelling, tokens: tuple[str, ...], common: Json
    ) -> Tokenizer:
        scores = tuple(score for _, score in self.scored(model))
        chosen = model.get("unk_id")
        if chosen is not None and (type(chosen) is not int or not 0 <= chosen < len(scores)):
            raise self.wrong(f"its unk_id is {str(chosen)[:40]}, of {len(scores)} tokens")
        common["unknown"] = chosen
        return Tokenizer(
            "unigram",
            spelling,
            tokens,
            scores=scores,
            byte_fallback=self.flag(model, "byte_fallback"),
            fuse_unknown=True,
            **common,
        )

    def merged(
        self, model: Json, spelling: Spelling, tokens: tuple[str, ...], common: Json
    ) -> Tokenizer:
        if self.text(model, "continuing_subword_prefix") or model.get("dropout"):
            raise self.wrong(
                "its BPE has a continuing_subword_prefix or dropout, which are not read"
            )
        return Tokenizer(
            "merges",
            spelling,
            tokens,
            merges=self.merges(model),
            byte_fallback=self.flag(model, "byte_fallback"),
            fuse_unknown=self.flag(model, "fuse_unk"),
            ignore_merges=self.flag(model, "ignore_merges"),
            end_of_word=self.text(model, "end_of_word_suffix"),
            **common,
        )

    def check_pattern(self, step: TextStep) -> None:
        if step.name in ("replace_pattern", *BEHAVIOURS.values()):
            try:
                compiled(step.pattern)
            except ValueError as e:
                raise self.wrong(f"it splits texts by what is not read: {str(e)[:120]}") from None
            with suppress(
                ValueError
            ):  # which has no program: its program is refused where one is made
                if doubles(step.pattern):
                    shown = f"{step.pattern[:80]!r}"
                    raise self.wrong(
                        f"texts of {shown} could take for ever: it tries too many ways"
                    )

    # --- tokens -----------------------------------------------------------------------------------

    def scored(self, model: Json) -> tuple[tuple[str, float], ...]:
        """The texts of Unigram with the logarithms of how likely they are."""
        rows = model.get("vocab")
        if not isinstance(rows, list) or not rows:
            raise self.wrong("its vocab is no list of texts and scores")
        found: list[tuple[str, float]] = []
        for i, row in enumerate(cast("list[Any]", rows)):
            match row:
                case [str(text), (int() | float()) as score] if not isinstance(score, bool):
                    self.check_id(i, text)
                case _:
                    raise self.wrong(f"its token {i} is {str(row)[:40]}, no text and score")
            if not -1e300 < score < 1e300:  # neither nan nor a number that float() refuses
                raise self.wrong(f"its token {text[:40]!r} has the score {str(score)[:40]}")
            found.append((text, float(score)))
        return tuple(found)

    def vocabulary(self, model: Json) -> dict[int, str]:
        by_id: dict[int, str] = {}
        for text, i in self.part(model, "vocab").items():
            self.check_id(i, text)
            if i in by_id:
                raise self.wrong(f"its tokens {by_id[i][:40]!r} and {text[:40]!r} have one id, {i}")
            by_id[i] = text
        return by_id

    def with_added(self, vocab: dict[int, str]) -> tuple[tuple[str, ...], tuple[Added, ...]]:
        """All texts by id, and the added tokens."""
        by_id = dict(vocab)
        added: list[Added] = []
        for row in self.parts(self.top, "added_tokens") if "added_tokens" in self.top else []:
            text, i = self.text(row, "content"), row.get("id")
            self.check_id(i, text)
            index = cast("int", i)
            by_id[index] = text
            added.append(
                Added(
                    index,
                    text,
                    special=self.flag(row, "special"),
                    strip_left=self.flag(row, "lstrip"),
                    strip_right=self.flag(row, "rstrip"),
                    single_word=self.flag(row, "single_word"),
                )
            )
        count = max(by_id, default=-1) + 1
        if count > 4 * len(by_id) + 1000:
            raise self.wrong(f"its ids go up to {count - 1}, for {len(by_id)} tokens")
        return tuple(by_id.get(i, "") for i in range(count)), tuple(added)

    def check_id(self, i: object, text: str) -> None:
        if type(i) is not int or not 0 <= i < MAX_TOKENS:
            raise self.wrong(f"its token {text[:40]!r} has the id {str(i)[:40]}")
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise self.wrong(f"its token {i} has half a character")

    def merges(self, model: Json) -> tuple[tuple[str, str], ...]:
        rows = model.get("merges")
        if not isinstance(rows, list):
            raise self.wrong("its merges are not a list")
        found: list[tuple[str, str]] = []
        for row in cast("list[Any]", rows):
            parts = row.split(" ") if isinstance(row, str) else row
            pair = tuple(cast("list[Any]", parts)) if isinstance(parts, list) else ()
            if len(pair) != 2 or not all(isinstance(p, str) for p in pair):
                raise self.wrong(f"its merge {str(row)[:40]!r} is no pair")
            found.append(cast("tuple[str, str]", pair))
        return tuple(found)

    # --- what is done to texts --------------------------------------------------------------------

    def normalizer(self, row: Json, into: _Parts) -> None:
        if not row:
            return
        kind = self.text(row, "type")
        simple = {
            **{k: k.lower() for k in ("NFC", "NFD", "NFKC", "NFKD")},
            "Lowercase": "lower",
            "StripAccents": "strip_accents",
        }
        match kind:
            case "Sequence":
                for inner in self.parts(row, "normalizers"):
                    self.normalizer(inner, into)
            case "Prepend":
                into.normalize.append(TextStep("prepend", text=self.text(row, "prepend")))
            case "Replace":
                into.normalize.append(self.replacement(row))
            case "Strip":
                sides = ("strip_left", "strip_right")
                into.normalize += [TextStep(s) for s in sides if self.flag(row, s)]
            case "BertNormalizer":
                self.bert(row, into)
            case "Precompiled":
                into.normalize += self.precompiled(row)
            case _ if kind in simple:
                into.normalize.append(TextStep(simple[kind]))
            case _:
                raise self.wrong(f"its normalizer {kind[:40]} is not known")

    def bert(self, row: Json, into: _Parts) -> None:
        lower = self.flag(row, "lowercase", default=True)
        chosen = {
            "clean": self.flag(row, "clean_text", default=True),
            "space_ideographs": self.flag(row, "handle_chinese_chars", default=True),
            "nfd": (accents := self.flag(row, "strip_accents", default=lower)),
            "strip_accents": accents,
            "lower": lower,
        }
        into.normalize += [TextStep(name) for name, wanted in chosen.items() if wanted]

    def precompiled(self, row: Json) -> list[TextStep]:
        try:
            data = base64.b64decode(self.text(row, "precompiled_charsmap"), validate=True)
            table = read_charsmap(data) if data else ()
        except (binascii.Error, ValueError) as e:
            raise self.wrong(f"its precompiled_charsmap cannot be read: {e}") from None
        return [TextStep("map", CLUSTER, table=table)] if table else []

    def replacement(self, row: Json) -> TextStep:
        literal, pattern = self.pattern(row)
        text = self.text(row, "content")
        return (
            TextStep("replace", literal, text)
            if literal
            else TextStep("replace_pattern", pattern, text)
        )

    def pattern(self, row: Json) -> tuple[str, str]:
        """A literal, or a regular expression."""
        given = self.part(row, "pattern")
        literal, pattern = self.text(given, "String"), self.text(given, "Regex")
        if not literal and not pattern:
            raise self.wrong("it replaces or splits by nothing")
        return literal, pattern

    def pre_tokenizer(self, row: Json, into: _Parts) -> None:
        if not row:
            return
        kind = self.text(row, "type")
        known: dict[str, Callable[[Json, _Parts], None]] = {
            "Sequence": self.sequence,
            "ByteLevel": self.byte_level,
            "Metaspace": self.metaspace,
            "Split": self.split,
            "Digits": self.digits,
            "BertPreTokenizer": self.bert_words,
            "Whitespace": self.words,
            "WhitespaceSplit": self.spaces,
            "Punctuation": self.punctuation,
        }
        if kind not in known:
            raise self.wrong(f"its pre_tokenizer {kind[:40]} is not known")
        if into.spelling == "bytes":
            raise self.wrong(
                f"its pre_tokenizer {kind} comes after ByteLevel, where it is not read"
            )
        known[kind](row, into)

    def sequence(self, row: Json, into: _Parts) -> None:
        for inner in self.parts(row, "pretokenizers"):
            self.pre_tokenizer(inner, into)

    def byte_level(self, row: Json, into: _Parts) -> None:
        if self.flag(row, "add_prefix_space", default=True):
            if into.split:
                raise self.wrong("its ByteLevel adds spaces to parts, which is not read")
            into.normalize.append(TextStep("prepend_missing", text=" "))
        if self.flag(row, "use_regex", default=True):
            into.split.append(TextStep("isolate", GPT2))
        into.spelling = "bytes"

    def metaspace(self, row: Json, into: _Parts) -> None:
        mark = self.text(row, "replacement", "\u2581")
        scheme = self.scheme(row)
        into.split.append(TextStep("replace", " ", mark))
        if scheme != "never":
            name = "prepend_missing" if scheme == "always" else "prepend_first"
            into.split.append(TextStep(name, text=mark))
        if self.flag(row, "split", default=True):
            into.split.append(TextStep("with_next", mark))

    def scheme(self, row: Json) -> str:
        default = "always" if self.flag(row, "add_prefix_space", default=True) else "never"
        found = self.text(row, "prepend_scheme", default)
        if found not in ("always", "first", "never"):
            raise self.wrong(f"its prepend_scheme is {found[:40]}")
        return found

    def split(self, row: Json, into: _Parts) -> None:
        literal, pattern = self.pattern(row)
        text = "".join(f"\\{c}" if c in r"\.^$*+?{}[]()|/-" else c for c in literal) or pattern
        into.split.append(self.cut(row, text))

    def cut(self, row: Json, pattern: str, default: str = "Isolated") -> TextStep:
        behaviour = self.text(row, "behavior", default)
        if behaviour not in BEHAVIOURS:
            raise self.wrong(f"it splits with the behavior {behaviour[:40]}, which is not read")
        inverts = self.flag(row, "invert")
        return TextStep(BEHAVIOURS[behaviour], pattern, "invert" if inverts else "")

    def digits(self, row: Json, into: _Parts) -> None:
        alone = self.flag(row, "individual_digits")
        into.split.append(TextStep("isolate", r"\p{N}" if alone else r"\p{N}+"))

    def bert_words(self, _: Json, into: _Parts) -> None:
        into.split += [TextStep("remove", r"\s"), TextStep("isolate", PUNCTUATION)]

    def words(self, _: Json, into: _Parts) -> None:
        into.split.append(TextStep("remove", rf"[{WORD}]+|[^{WORD}\s]+", "invert"))

    def spaces(self, _: Json, into: _Parts) -> None:
        into.split.append(TextStep("remove", r"\s+"))

    def punctuation(self, row: Json, into: _Parts) -> None:
        into.split.append(self.cut(row, PUNCTUATION))

    # --- what is done to ids ----------------------------------------------------------------------

    def decoder(self, row: Json, into: _Parts) -> None:
        kind = self.text(row, "type")
        match kind:
            case "Sequence":
                for inner in self.parts(row, "decoders"):
                    self.decoder(inner, into)
            case "Metaspace":
                into.spelling, into.strips = "spaces", self.scheme(row) != "never"
            case "Replace":
                if self.replacement(row) != TextStep("replace", "\u2581", " "):
                    raise self.wrong("its decoder replaces what is not read")
                into.spelling = "spaces"
            case "Strip":
                counts = (row.get("content"), row.get("start"), row.get("stop"))
                if counts != (" ", 1, 0):
                    raise self.wrong(f"its decoder strips {str(counts)[:40]}, which is not read")
                into.strips = True
            case "WordPiece":
                into.tidy = self.flag(row, "cleanup", default=True)
            case "" | "ByteLevel" | "ByteFallback" | "Fuse" | "BPEDecoder":
                pass
            case _:
                raise self.wrong(f"its decoder {kind[:40]} is not known")

    def post_processor(self, row: Json, into: _Parts) -> None:
        kind = self.text(row, "type")
        match kind:
            case "Sequence":
                for inner in self.parts(row, "processors"):
                    self.post_processor(inner, into)
            case "TemplateProcessing":
                self.template(row, into)
            case "BertProcessing" | "RobertaProcessing":
                into.before, into.after = self.named_id(row, "cls"), self.named_id(row, "sep")
            case "" | "ByteLevel":
                pass
            case _:
                raise self.wrong(f"its post_processor {kind[:40]} is not known")

    def named_id(self, row: Json, key: str) -> tuple[int, ...]:
        """['[CLS]', 101] as the id."""
        match row.get(key):
            case [str(text), int(i)]:
                self.check_id(i, text)
                return (i,)
            case _:
                raise self.wrong(f"its post_processor has no {key}")

    def template(self, row: Json, into: _Parts) -> None:
        special = self.part(row, "special_tokens")
        ids: list[int] = []
        for item in self.parts(row, "single"):
            if "Sequence" in item:
                into.before, ids = tuple(ids), []
                continue
            name = self.text(self.part(item, "SpecialToken"), "id")
            found: Any = self.part(special, name).get("ids")
            if not isinstance(found, list):
                raise self.wrong(f"its post_processor does not say which token {name[:40]!r} is")
            for i in cast("list[Any]", found):
                self.check_id(i, name)
                ids.append(i)
        into.after = tuple(ids)

    # --- what stands beside it --------------------------------------------------------------------

    def beside(self, ids: dict[str, int]) -> Json:
        """bos, eos, pad and the chat template of tokenizer_config.json."""
        folder = self.file.parent
        found: Json = {}
        config = folder / "tokenizer_config.json"
        rows = json_object(config, bounded_text(config, MAX_CONFIG)) if config.is_file() else {}
        for key in ("bos", "eos", "pad"):
            value: Any = rows.get(f"{key}_token")
            text: Any = cast("Json", value).get("content") if isinstance(value, dict) else value
            found[key] = ids.get(text) if isinstance(text, str) else None
        template: Any = rows.get("chat_template")
        if isinstance(template, list):  # several by name
            named = self.parts(rows, "chat_template")
            template = next((t.get("template") for t in named if t.get("name") == "default"), None)
        alone = folder / "chat_template.jinja"
        if alone.is_file():
            template = bounded_text(alone, MAX_CONFIG).decode("utf-8", "replace")
        found["chat_template"] = template if isinstance(template, str) else ""
        return found


# ASCII's, and Unicode's
PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"
