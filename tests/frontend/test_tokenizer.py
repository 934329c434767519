"""Tokenizers against the libraries that models are trained with: the same ids, the same texts."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import random
import struct
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import sentencepiece
import tokenizers as hf
from hypothesis import given
from hypothesis import strategies as st
from minilm_reference import NO_CHECKPOINT, checkpoint
from safetensors.numpy import save_file
from sentencepiece import sentencepiece_model_pb2
from test_weights_gguf import NO_STORIES, stories, write
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from lumigen import errors
from lumigen.tokenizer import (
    GPT2,
    LLAMA3,
    QWEN2,
    TextStep,
    TextStream,
    Tokenizer,
    decode,
    encode,
    piece,
)
from lumigen.tokenizer.doubling import doubles
from lumigen.tokenizer.encode import ON_TEXT
from lumigen.tokenizer.patterns import CLUSTER, compiled
from lumigen.weights import open_weights
from lumigen.weights.charsmap import read_charsmap
from lumigen.weights.tokenizer_json import read_tokenizer

CORPUS = [
    *Path(__file__).read_text(encoding="utf-8").splitlines(),
    "The quick brown fox jumps over the lazy dog; it's 1234567 o'clock, isn't it?",
    "Füchse springen über Zäune. Ça va? Привет, мир! 你好，世界。 こんにちは 🦊🦊 naïve",
    "  two  spaces\tand tabs\r\n\r\nand lines \n",
] * 3

ALPHABET = st.text(
    st.sampled_from(
        [
            *"abcdeßüñ ÅA'sSt.,!?0123456789٣Ⅷ\t\n\r\u00a0\u2028\x1c\x85",
            *"你好🦊e\u0301\u200dşſK▁<>|",
        ]
    )
)
# what this Python's Unicode knows: libraries may know more letters
KNOWN = st.text(st.characters(exclude_categories=["Cn", "Cs"]))
SOME = st.one_of(st.sampled_from([c for c in CORPUS if c]), ALPHABET)
TEXTS = st.one_of(SOME, KNOWN)
# the marks that `tokenizers` strips are those of Unicode 8
OLD = KNOWN.filter(lambda t: all(unicodedata.ucd_3_2_0.category(c) != "Cn" for c in t))


Read = Callable[[Any], Tokenizer]  # a function: hypothesis prints what it passes


def saved(folder: Path, tokenizer: hf.Tokenizer, **config: Any) -> Tokenizer:
    folder.mkdir(exist_ok=True)
    save_file({"x": np.ones(1, np.float32)}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    found = open_weights(folder).tokenizer
    assert found is not None
    return found


def same(ours: Tokenizer, theirs: hf.Tokenizer, text: str) -> None:
    expected = theirs.encode(text).ids
    assert encode(ours, text) == expected
    assert (
        encode(ours, text, add_special=False) == theirs.encode(text, add_special_tokens=False).ids
    )
    assert decode(ours, expected) == theirs.decode(expected)
    assert decode(ours, expected, special=True) == theirs.decode(
        expected, skip_special_tokens=False
    )


# --- BPE of bytes ---------------------------------------------------------------------------------


@functools.cache
def of_bytes(how: str) -> hf.Tokenizer:
    tokenizer = hf.Tokenizer(models.BPE(ignore_merges=how == "llama3"))
    regex = {"llama3": LLAMA3, "qwen2": QWEN2}.get(how)
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if how == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    if regex:
        split = pre_tokenizers.Split(hf.Regex(regex), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_alone])
    elif how == "digits":
        rest = pre_tokenizers.ByteLevel(add_prefix_space=False)
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, rest])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=how == "spaced")
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|begin|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([hf.AddedToken("fox jumps", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A <|end|>", special_tokens=[("<|begin|>", 0), ("<|end|>", 1)]
    )
    return tokenizer


KINDS = ("gpt2", "llama3", "qwen2", "digits", "spaced")


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    base = tmp_path_factory.mktemp("bytes")
    config = {
        "bos_token": "<|begin|>",
        "eos_token": {"content": "<|end|>"},
        "chat_template": "{{x}}",
    }
    return {how: saved(base / how, of_bytes(how), **config) for how in KINDS}.__getitem__


@pytest.mark.slow
@pytest.mark.parametrize("how", KINDS)
@given(TEXTS)
def test_bpe_of_bytes(read: Read, how: str, text: str) -> None:
    same(read(how), of_bytes(how), text)


def test_what_stands_beside_it(read: Read) -> None:
    ours = read("gpt2")
    assert (ours.bos, ours.eos, ours.pad, ours.chat_template) == (0, 1, None, "{{x}}")
    assert (ours.before, ours.after) == ((0,), (1,))
    assert repr(ours) == f"Tokenizer(merges, {len(ours.tokens)} tokens)"


def test_special_tokens_in_a_text(read: Read) -> None:
    ours, text = read("llama3"), "a<|end|>fox jumps<|begin|>"
    theirs = of_bytes("llama3")
    assert encode(ours, text) == theirs.encode(text).ids
    typed = encode(ours, text, parse_special=False)
    assert not {0, 1} & set(typed[1:-1])
    assert theirs.token_to_id("fox jumps") in typed  # no special one
    assert decode(ours, typed) == text


@given(st.binary())
def test_any_bytes_are_encoded(read: Read, data: bytes) -> None:
    ours = read("gpt2")
    expected = data.decode("utf-8", "replace")
    assert encode(ours, data) == encode(ours, expected)
    assert decode(ours, encode(ours, data, parse_special=False)) == expected


def test_halves_of_characters_are_replaced(read: Read) -> None:
    ours = read("gpt2")
    assert encode(ours, "a\ud83eb") == encode(ours, "a\ufffdb")
    assert encode(ours, "\ud83e\udd8a") == encode(ours, "🦊")
    assert encode(ours, b"a\xf0\x9f\xa6b\xff") == encode(ours, "a\ufffdb\ufffd")


def test_characters_appear_when_they_are_whole(read: Read) -> None:
    ours = read("gpt2")
    ids = [ours.ids[c] for c in "ðŁ¦Ĭ"]  # the four bytes of a fox
    stream = TextStream(ours)
    assert [stream.push(i) for i in ids] == ["", "", "", "🦊"]
    assert [stream.push(i) for i in ids[:2]] == ["", ""]
    assert stream.finish() == "\ufffd"
    assert decode(ours, [*ids[:3], ours.ids["a"]]) == "\ufffda"
    assert piece(ours, ids[0]) == b"\xf0"
    assert decode(ours, [-1, 10**9]) == ""


# --- BPE of characters, and by scores -------------------------------------------------------------


@functools.cache
def of_characters(how: str) -> hf.Tokenizer:
    """As Llama 2's and Mistral's: bytes where there is no token, U+2581 for spaces."""
    tokenizer = hf.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if how == "normalizer":
        steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        tokenizer.normalizer = normalizers.Sequence(steps)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme=how, split=how == "always"
        )
    named = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=named, limit_alphabet=60, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = content["added_tokens"][:3]  # bytes are no added tokens
    tokenizer = hf.Tokenizer.from_str(json.dumps(content))
    rest = [decoders.ByteFallback(), decoders.Fuse()]
    strips = [] if how == "never" else [decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), *rest, *strips])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return tokenizer


SCHEMES = ("normalizer", "always", "first", "never")


@pytest.fixture(scope="module")
def spaced(tmp_path_factory: pytest.TempPathFactory) -> Read:
    base = tmp_path_factory.mktemp("characters")
    return {how: saved(base / how, of_characters(how)) for how in SCHEMES}.__getitem__


@pytest.mark.parametrize("how", SCHEMES)
@given(TEXTS)
def test_bpe_of_characters(spaced: Read, how: str, text: str) -> None:
    same(spaced(how), of_characters(how), text)


def test_bytes_that_are_no_character(spaced: Read) -> None:
    ours = spaced("never")
    ids = [ours.byte_ids[b] for b in b"\xe2\x82"]
    assert decode(ours, [*ids, ours.ids["a"]]) == "\ufffda"  # one for the part, not for each byte


@functools.cache
def trained(prefix: bool) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        model_type="bpe",
        vocab_size=700,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        character_coverage=0.98,
        user_defined_symbols=["<fox>"],
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def as_gguf(folder: Path, theirs: sentencepiece.SentencePieceProcessor, prefix: bool) -> Tokenizer:
    n = theirs.get_piece_size()
    kinds = (
        (theirs.is_unknown, 2),
        (theirs.is_control, 3),
        (theirs.is_unused, 5),
        (theirs.is_byte, 6),
    )
    types = [next((kind for is_it, kind in kinds if is_it(i)), 1) for i in range(n)]
    types = [4 if theirs.id_to_piece(i) == "<fox>" else kind for i, kind in enumerate(types)]

    def fill(w: gguf.GGUFWriter) -> None:
        w.add_tokenizer_model("llama")
        w.add_token_list([theirs.id_to_piece(i) for i in range(n)])
        w.add_token_scores([theirs.get_score(i) for i in range(n)])
        w.add_token_types(types)
        w.add_unk_token_id(theirs.unk_id())
        w.add_bos_token_id(theirs.bos_id())
        w.add_eos_token_id(theirs.eos_id())
        if not prefix:
            w.add_add_space_prefix(False)
        w.add_chat_template("{{ messages }}")

    folder.mkdir(exist_ok=True)
    found = open_weights(write(folder / "w.gguf", fill)).tokenizer
    assert found is not None
    return found


@pytest.fixture(scope="module")
def by_scores(tmp_path_factory: pytest.TempPathFactory) -> Read:
    base = tmp_path_factory.mktemp("scores")
    return {
        prefix: as_gguf(base / str(prefix), trained(prefix), prefix) for prefix in (True, False)
    }.__getitem__


@pytest.mark.parametrize("prefix", [True, False])
@given(TEXTS)
def test_tokens_by_scores(by_scores: Read, prefix: bool, text: str) -> None:
    ours, theirs = by_scores(prefix), trained(prefix)
    text = text.replace("\0", "")  # where sentencepiece ends a text
    text = text.replace("<fox>", "")  # after which llama.cpp, and we, put a space in front again
    expected = theirs.encode(text)
    assert encode(ours, text, add_special=False, parse_special=False) == expected
    assert encode(ours, text, parse_special=False) == [theirs.bos_id(), *expected]
    assert decode(ours, expected) == theirs.decode(expected)


def test_a_symbol_of_the_user(by_scores: Read) -> None:
    ours, theirs = by_scores(False), trained(False)
    assert encode(ours, "a<fox>b", add_special=False, parse_special=False) == theirs.encode(
        "a<fox>b"
    )
    assert ours.chat_template == "{{ messages }}"
    assert not ours.after


@pytest.mark.skipif(stories() is None, reason=NO_STORIES)
def test_the_tokenizer_of_a_real_file() -> None:
    file = stories()
    assert file is not None
    ours = open_weights(file).tokenizer
    assert ours is not None
    text = "Once upon a time, there was a little girl named Lily."
    ids = encode(ours, text)
    # by llama2.c's tok512, from which the file was made
    assert ids[:8] == [1, 403, 407, 261, 378, 432, 383, 286]
    assert decode(ours, ids) == text
    assert decode(ours, encode(ours, "🦊 ß")) == "🦊 ß"


# --- Unigram --------------------------------------------------------------------------------------


@functools.cache
def sums() -> sentencepiece_model_pb2.ModelProto:
    """The vocabulary, and the map of characters that T5, ALBERT and XLM-RoBERTa have too."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        model_type="unigram",
        vocab_size=700,
        hard_vocab_limit=False,
        byte_fallback=True,
        character_coverage=0.98,
        user_defined_symbols=["<fox>"],
        minloglevel=2,
    )
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())


@functools.cache
def of_sums(how: str) -> hf.Tokenizer:
    """With the parts that transformers gives these models."""
    vocab = [(p.piece, p.score) for p in sums().pieces]
    tokenizer = hf.Tokenizer(models.Unigram(vocab, 0, byte_fallback=how == "bytes"))
    mapped = normalizers.Precompiled(sums().normalizer_spec.precompiled_charsmap)
    spaces = normalizers.Replace(hf.Regex(" {2,}"), " ")
    of_words = pre_tokenizers.Metaspace(prepend_scheme="always")
    if how == "t5":
        strip = normalizers.Strip(left=False, right=True)
        tokenizer.normalizer = normalizers.Sequence([mapped, strip, spaces])
        tokenizer.pre_tokenizer = of_words
    elif how == "albert":
        quotes = [normalizers.Replace(q, '"') for q in ("``", "''")]
        lower = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        tokenizer.normalizer = normalizers.Sequence([*quotes, *lower, mapped, spaces])
        words = pre_tokenizers.WhitespaceSplit()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, of_words])
    elif how == "bytes":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
        rest = [decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), *rest])
    if how != "bytes":
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.add_tokens(["<fox>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return tokenizer


SUMS = ("t5", "albert", "bytes")


@pytest.fixture(scope="module")
def by_sums(tmp_path_factory: pytest.TempPathFactory) -> Read:
    base = tmp_path_factory.mktemp("sums")
    return {how: saved(base / how, of_sums(how)) for how in SUMS}.__getitem__


@pytest.mark.slow
@pytest.mark.parametrize("how", SUMS)
@given(st.one_of(SOME, OLD))
def test_tokens_by_sums(by_sums: Read, how: str, text: str) -> None:
    same(by_sums(how), of_sums(how), text)


CLUSTERS = [
    *(
        "e\u0301",
        "\uff5a\u0301",
        "\ufb01\u0301",
        "\ufb01\u0301\u0301",
        "\u1112\u1161\u11ab",
        "\r\n\u0301",
    ),
    *(
        "\u0600\u00aa",
        "\u00aa\u1038",
        "\u00aa\u0e33",
        "\u2122\u200d",
        "\u00b2\U0001f3fb",
        "\u00ad\u0301",
        "\u0958\u0301",
    ),
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(["a", *CLUSTERS])).map("".join), KNOWN)
def test_characters_are_mapped_with_their_marks(few: str, any_of_them: str) -> None:
    charsmap = sums().normalizer_spec.precompiled_charsmap
    step = TextStep("map", CLUSTER, table=read_charsmap(charsmap))
    for text in (few, any_of_them):
        assert ON_TEXT["map"](text, step) == normalizers.Precompiled(charsmap).normalize_str(text)


def test_what_was_typed_is_no_special_token(by_sums: Read) -> None:
    ours = by_sums("bytes")
    assert encode(ours, "a<s>") == of_sums("bytes").encode("a<s>").ids
    typed = encode(ours, "a<s>", parse_special=False)
    assert 1 not in typed
    assert decode(ours, typed) == "a<s>"


def test_damaged_maps_of_characters() -> None:
    charsmap = sums().normalizer_spec.precompiled_charsmap
    for data in (
        b"",
        b"\0" * 3,
        charsmap[:100],
        b"\x07\0\0\0" + charsmap[4:],
        charsmap[:4] + b"\xff" * 8,
    ):
        with pytest.raises(ValueError, match="is cut off"):
            read_charsmap(data)
    rng = random.Random(0)
    for _ in range(30):
        data = bytearray(charsmap)
        for _ in range(300):
            data[rng.randrange(4, 4 + 180_000)] = rng.randrange(256)
        with contextlib.suppress(ValueError):
            read_charsmap(bytes(data))
    units = (i << 10 | i for i in range(256))  # each is a child of each
    circle = struct.pack("<257I", 1024, *units)
    with pytest.raises(ValueError, match="no tree"):
        read_charsmap(circle)


# --- GGUF: byte-level -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pre", "how"), [("gpt-2", "gpt2"), ("llama-bpe", "llama3"), ("smollm", "digits")]
)
@given(text=TEXTS)
def test_gguf_with_merges(
    tmp_path_factory: pytest.TempPathFactory, pre: str, how: str, text: str
) -> None:
    ours = with_merges(tmp_path_factory.getbasetemp(), pre, how)
    expected = of_bytes(how).encode(text, add_special_tokens=False).ids
    assert encode(ours, text, add_special=False) == expected
    assert ours.before == ((0,) if how == "llama3" else ())


@functools.cache
def with_merges(folder: Path, pre: str, how: str) -> Tokenizer:
    content = json.loads(of_bytes(how).to_str())
    vocab = content["model"]["vocab"]
    texts = {i: t for t, i in vocab.items()} | {
        a["id"]: a["content"] for a in content["added_tokens"]
    }
    special = {a["id"]: 3 if a["special"] else 4 for a in content["added_tokens"]}

    def fill(w: gguf.GGUFWriter) -> None:
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre(pre)
        w.add_token_list([texts[i] for i in range(len(texts))])
        w.add_token_types([special.get(i, 1) for i in range(len(texts))])
        w.add_token_merges([" ".join(m) for m in content["model"]["merges"]])
        w.add_bos_token_id(0)
        w.add_eos_token_id(1)

    found = open_weights(write(folder / f"{pre}.gguf", fill)).tokenizer
    assert found is not None
    return found


# --- WordPiece ------------------------------------------------------------------------------------


@functools.cache
def minilm() -> tuple[Tokenizer, hf.Tokenizer]:
    folder = checkpoint()
    assert folder is not None
    ours = open_weights(folder).tokenizer
    assert ours is not None
    theirs = hf.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    return ours, theirs


@pytest.mark.slow
@pytest.mark.skipif(checkpoint() is None, reason=NO_CHECKPOINT)
@given(st.one_of(SOME, OLD))
def test_wordpiece(text: str) -> None:
    same(*minilm(), text)


# --- patterns, and what is refused ----------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", [GPT2, LLAMA3, QWEN2, r"\P{L}+|[^\S\p{Lu}]", r"[\p{N}\-_]{2}|\d"]
)
@given(TEXTS)
def test_patterns_cut_as_they_do(pattern: str, text: str) -> None:
    cut = pre_tokenizers.Split(hf.Regex(pattern), "isolated").pre_tokenize_str(text)
    whole = [m[0] for m in compiled(pattern).finditer(text)]
    parts = [p for p, _ in cut]
    assert "".join(parts) == text
    at, ours = 0, []
    for found in whole:
        start = text.index(found, at)
        ours += [text[at:start], found]
        at = start + len(found)
    assert [p for p in [*ours, text[at:]] if p] == parts


@pytest.mark.parametrize(
    "pattern", [r"\p{Han}", "[a&&b]", "[[:alpha:]]", "a[b[c]]", "(", r"\h", r"\p"]
)
def test_patterns_that_are_not_read(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        compiled(pattern)


def minimal(**changes: Any) -> dict[str, Any]:
    found = {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
        "pre_tokenizer": None,
    }
    for key, value in changes.items():
        if key in ("pre_tokenizer", "normalizer", "decoder", "post_processor", "added_tokens"):
            found[key] = value
        else:
            found["model"][key] = value
    return found


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "WordLevel": (minimal(type="WordLevel"), "kind WordLevel"),
    "Unigram": (minimal(type="Unigram"), "no list"),
    "a token without a score": (minimal(type="Unigram", vocab=[["a"]]), "no text and score"),
    "a score": (minimal(type="Unigram", vocab=[["a", 10**400]]), "the score 1000"),
    "nan": (minimal(type="Unigram", vocab=[["a", math.nan]]), "the score nan"),
    "unk_id": (minimal(type="Unigram", vocab=[["a", 0]], unk_id=1), "unk_id is 1, of 1"),
    "no vocab": (minimal(vocab=[]), "vocab is not an object"),
    "an id twice": (minimal(vocab={"a": 0, "b": 0}), "have one id, 0"),
    "a negative id": (minimal(vocab={"a": -1}), "the id -1"),
    "an absurd id": (minimal(vocab={"a": 10**6}), "ids go up to 1000000"),
    "an enormous id": (minimal(vocab={"a": 10**12}), "the id 1000000000000"),
    "true as an id": (minimal(vocab={"a": True}), "the id True"),
    "merges": (minimal(merges=3), "merges are not"),
    "a merge of three": (minimal(merges=["a b c"]), "is no pair"),
    "a merge of numbers": (minimal(merges=[[1, 2]]), "is no pair"),
    "a merge of nothing": (minimal(merges=[None]), "is no pair"),
    "a number of merges": (minimal(merges=[7]), "is no pair"),
    "dropout": (minimal(dropout=0.1), "dropout"),
    "a flag": (minimal(byte_fallback="yes"), "neither true nor false"),
    "normalizer": (minimal(normalizer={"type": "Nmt"}), "normalizer Nmt"),
    "a charsmap": (
        minimal(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        "precompiled_charsmap cannot be read: its trie is cut off",
    ),
    "no base64": (
        minimal(normalizer={"type": "Precompiled", "precompiled_charsmap": "a"}),
        "precompiled_charsmap cannot be read",
    ),
    "pre-tokenizer": (minimal(pre_tokenizer={"type": "UnicodeScripts"}), "UnicodeScripts"),
    "after bytes": (
        minimal(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}],
            }
        ),
        "after ByteLevel",
    ),
    "pattern": (
        minimal(pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}),
        "what is not read",
    ),
    "no pattern": (minimal(pre_tokenizer={"type": "Split"}), "by nothing"),
    "behavior": (
        minimal(
            pre_tokenizer={"type": "Split", "pattern": {"String": "a"}, "behavior": "Contiguous"}
        ),
        "behavior Contiguous",
    ),
    "decoder": (minimal(decoder={"type": "CTC"}), "decoder CTC"),
    "post-processor": (minimal(post_processor={"type": "X"}), "post_processor X"),
    "template": (
        minimal(
            post_processor={
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>"}}],
                "special_tokens": {},
            }
        ),
        "which token '<s>' is",
    ),
    "added": (minimal(added_tokens=[{"content": "x", "id": "0"}]), "the id 0"),
    "added is no list": (minimal(added_tokens={}), "added_tokens is not a list"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tokenizer_json(tmp_path: Path, name: str) -> None:
    content, wanted = BAD[name]
    save_file({"x": np.ones(1, np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    weights = open_weights(tmp_path)  # which need no tokenizer
    with pytest.raises(errors.BadWeightsFile) as caught:
        _ = weights.tokenizer
    assert wanted in str(caught.value)
    assert "tokenizer.json" in str(caught.value)


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.text(max_size=3),
    st.sampled_from(
        ["Sequence", "Replace", "Split", "Strip", "ByteLevel", "Metaspace", "(", "\\p{L}"]
    ),
    st.just([]),
    st.just({}),
    st.just([{}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON value."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        inner = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [path, *(p for k, v in inner[:40] for p in places(v, (*path, k)))]


@pytest.mark.slow
@given(st.data())
def test_any_other_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    how = data.draw(st.sampled_from(["spaced", "llama3"]))
    content = json.loads(of_bytes(how).to_str())
    content["normalizer"] = {
        "type": "Sequence",
        "normalizers": [{"type": "Strip"}, {"type": "NFC"}],
    }
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(places(content)[1:]))
        inner = content
        for key in path:
            inner = inner[key]
        inner[last] = data.draw(ATOMS)
    folder = tmp_path_factory.getbasetemp() / "json"
    folder.mkdir(exist_ok=True)
    save_file({"x": np.ones(1, np.float32)}, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(json.dumps(content))
    try:
        ours = open_weights(folder).tokenizer
    except errors.BadWeightsFile:
        return
    assert ours is not None
    decode(ours, encode(ours, "grüße 🦊 a1"))


def test_a_minimal_tokenizer_json(tmp_path: Path) -> None:
    save_file({"x": np.ones(1, np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text(json.dumps(minimal()))
    ours = open_weights(tmp_path).tokenizer
    assert ours is not None
    assert encode(ours, "abxba") == [2, 1, 0]  # what is unknown goes, as there is no token for it
    (tmp_path / "tokenizer.json").unlink()
    assert open_weights(tmp_path).tokenizer is None


BAD_GGUF: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"model": "t5"}, "kind 't5'"),
    "no tokens": ({"model": "llama"}, "tokens is no list"),
    "no scores": ({"model": "llama", "tokens": ["a"]}, "no tokenizer.ggml.scores"),
    "few scores": ({"model": "llama", "tokens": ["a", "b"], "scores": [0.5]}, "1 long, for 2"),
    "few types": ({"model": "llama", "tokens": ["a", "b"], "token_type": [1]}, "1 long, for 2"),
    "an id": (
        {"model": "llama", "tokens": ["a"], "scores": [0.5], "bos_token_id": 1},
        "bos_token_id is 1, with 1 tokens",
    ),
    "a flag": (
        {"model": "llama", "tokens": ["a"], "scores": [0.5], "add_bos_token": "x"},
        "add_bos_token is x",
    ),
    "split": ({"model": "gpt2", "pre": "tekken", "tokens": ["a"], "merges": []}, "'tekken'"),
    "no split": ({"model": "gpt2", "tokens": ["a"]}, "'nothing'"),
    "no merges": ({"model": "gpt2", "pre": "gpt-2", "tokens": ["a"]}, "merges is no list"),
    "merge": (
        {"model": "gpt2", "pre": "gpt-2", "tokens": ["a"], "merges": ["ab"]},
        "the merge 'ab'",
    ),
}


@pytest.mark.parametrize("name", BAD_GGUF)
def test_bad_tokenizers_in_gguf(tmp_path: Path, name: str) -> None:
    keys, wanted = BAD_GGUF[name]

    def fill(w: gguf.GGUFWriter) -> None:
        for key, value in keys.items():
            add = {list: w.add_array, str: w.add_string, int: w.add_uint32}[type(value)]
            if value != []:
                add(f"tokenizer.ggml.{key}", value)

    weights = open_weights(write(tmp_path / "w.gguf", fill))
    with pytest.raises(errors.BadWeightsFile) as caught:
        _ = weights.tokenizer
    assert wanted in str(caught.value)


def test_what_is_unknown_to_merges_in_gguf(tmp_path: Path) -> None:
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("gpt-2")
        w.add_token_list(["a", "b", "ab", "?"])
        w.add_token_merges(["a b"])
        w.add_unk_token_id(3)

    ours = open_weights(write(tmp_path / "w.gguf", fill)).tokenizer
    assert ours is not None
    assert encode(ours, "abxa") == [2, 3, 0]


def test_no_tokenizer_in_gguf(tmp_path: Path) -> None:
    assert open_weights(write(tmp_path / "w.gguf", lambda w: None)).tokenizer is None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"(?:a|aa)+b", True),
        (r"(?:a+)+b", True),
        (r"(?:a|a)+b", True),
        (r"(?:\p{L}|\w)+x", True),
        (r"(?:[a-z]+ ?)+x", True),
        (r"(?:a|b)+c", False),
        (r"(?:ab|a)+c", False),
        (r"(?:a+b)+", False),
        (r"a+a+b", False),
        (LLAMA3, False),
    ],
)
def test_patterns_whose_time_doubles(pattern: str, expected: bool) -> None:
    assert doubles(pattern) == expected


def test_a_pattern_that_would_take_for_ever_is_refused(tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(?:a|aa)+b"}, "behavior": "Isolated"}
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model, "pre_tokenizer": split}))
    with pytest.raises(errors.BadWeightsFile, match=r"'\(\?:a\|aa\)\+b' could take for ever"):
        read_tokenizer(tmp_path)


def of_words(vocabulary: list[str], **parts: Any) -> hf.Tokenizer:
    """Words that are tokens as a whole, the first for all others."""
    ids = {text: i for i, text in enumerate(vocabulary)}
    t = hf.Tokenizer(models.WordPiece(ids, unk_token=vocabulary[0]))
    for name, part in parts.items():
        setattr(t, name, part)
    return t


@pytest.mark.parametrize("text", ["की", "कि ता", "a\u200db", "x² y", "Ⅷ a_b", "e\u0301t\u0323 Ⓐ"])
@pytest.mark.parametrize("how", ["Whitespace", "Split"])
def test_words_have_marks_and_joiners(tmp_path: Path, how: str, text: str) -> None:
    split = pre_tokenizers.Split(hf.Regex(r"\w+"), "isolated")
    cut = pre_tokenizers.Whitespace() if how == "Whitespace" else split
    theirs = of_words(["?", "की", "कि", "ता", "a\u200db", "x", "²", "x²"], pre_tokenizer=cut)
    same(saved(tmp_path, theirs), theirs, text)


@pytest.mark.parametrize("text", ["ΑΣ", "ΣΑΣ Σ", "İx"])
def test_lower_case_is_of_each_character(tmp_path: Path, text: str) -> None:
    cut = pre_tokenizers.WhitespaceSplit()
    known = ["?", "ας", "ασ", "σασ", "σ", "i\u0307x"]
    theirs = of_words(known, normalizer=normalizers.Lowercase(), pre_tokenizer=cut)
    same(saved(tmp_path, theirs), theirs, text)


@pytest.mark.parametrize("text", ["a \U0001fae8", "a\U0002b820b", "a\U0002b91f", "a\U0002b920b"])
def test_new_characters_are_no_controls(tmp_path: Path, text: str) -> None:
    bert = {
        "normalizer": normalizers.BertNormalizer(),
        "pre_tokenizer": pre_tokenizers.BertPreTokenizer(),
    }
    theirs = of_words(["?", "a", "b", "a\U0002b820b"], **bert)
    same(saved(tmp_path, theirs), theirs, text)
