"""Directories of Hugging Face, with random weights: the way that each takes, what it computes, what is refused."""

from __future__ import annotations

import importlib.util
import json
import pickle
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import few_bits
import numpy as np
import pytest
import torch

transformers = pytest.importorskip(
    "transformers", reason="transformers, which makes the checkpoints, is not installed"
)

from safetensors.numpy import load_file, save_file  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402

import lumigen as lg  # noqa: E402
from lumigen import cli  # noqa: E402
from lumigen.errors import BadCheckpoint, NotComputed, PackageMissing  # noqa: E402
from lumigen.importers.hugging_face import (  # noqa: E402
    Opened,
    explained,
    from_hugging_face,
    open_checkpoint,
)
from lumigen.importers.hugging_face.checking import compared  # noqa: E402
from lumigen.importers.hugging_face.original import quiet  # noqa: E402
from lumigen.interp.graph import step  # noqa: E402
from lumigen.quantise import quantised  # noqa: E402

CLOSE = 1e-5  # of the greatest number: f32 in another order
ENDS = 2
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": ENDS}
DECODER = {
    **SIZES,
    **TOKENS,
    "vocab_size": 260,  # the bytes, three special tokens, and one that stands for padding
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,  # so that no two tokens are about as likely
    "tie_word_embeddings": False,
}
ENCODER = {**SIZES, "vocab_size": 99, "intermediate_size": 48, "max_position_embeddings": 40}
PYRAMID = {"hidden_sizes": [8, 12], "depths": [1, 1], "num_stages": 2, "image_size": 32}
WORDS = ["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
PROMPT = "Once upon a time"
Damage = Callable[[Path], object]
Run = Callable[..., tuple[int, str]]


def saved(folder: Path, name: str, sizes: dict[str, Any], **options: Any) -> Any:
    """A checkpoint as transformers writes it; the module."""
    torch.manual_seed(0)
    config = getattr(transformers, re.sub("For[A-Z].*|Model$", "", name) + "Config")
    with quiet():
        module = getattr(transformers, name)(config(**sizes)).eval()
        if sizes.get("tie_word_embeddings") is False:
            other = [i for i, w in enumerate(WORDS) if len(w) > 1 or not w.isascii()]
            with torch.no_grad():  # texts are of ASCII: nothing else has a great logit
                module.lm_head.weight[[*other, len(WORDS)]] = 0
        module.save_pretrained(folder, **options)
    return module


def tokenized(folder: Path, count: int = 259) -> None:
    """A tokenizer of bytes beside it."""
    words = [*WORDS, *(f"<more{i}>" for i in range(count - len(WORDS)))]
    made = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, []))
    made.add_special_tokens([w for w in words if len(w) > 1])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))


def configured(folder: Path, **changes: Any) -> None:
    """Keys of config.json changed; those that become None left out."""
    file = folder / "config.json"
    found = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({k: v for k, v in found.items() if v is not None}))


def continued(opened: Opened, ids: list[int], count: int) -> list[int]:
    """The likeliest tokens, by the interpreter over the entries and their states."""
    graphs, states, out = dict(opened.model.trace().entries), {}, list(ids)
    weights = {w.name: opened.weights[w.name] for w in opened.model.trace().weights}
    entry, first = "prefill", 0
    for _ in range(count):
        given = {"ids": np.array(out[first:]), "position": np.array(first)}
        got, new = step(graphs[entry], given, weights, states)
        states |= new
        entry, first = "decode", len(out)
        out.append(int(got["logits"].argmax()))
    return out


def greedy(module: Any, ids: list[int], count: int) -> list[int]:
    with quiet():
        found = module.generate(
            torch.tensor([ids]), max_new_tokens=count, do_sample=False, pad_token_id=0
        )
    return found[0].tolist()


def is_close(opened: Opened) -> list[str]:
    """The outputs that are compared, each of which is that of transformers."""
    rows = compared(opened)
    assert all(r.difference <= CLOSE * max(r.greatest, 1) for r in rows), rows
    return [r.output for r in rows]


# --- which way ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_known_architecture_is_its_example(tmp_path: Path) -> None:
    module = saved(tmp_path, "LlamaForCausalLM", DECODER)
    tokenized(tmp_path)
    found = open_checkpoint(tmp_path, {"prefill": "8"}, {})
    assert found.chosen.line == "LlamaForCausalLM is compiled as the example llama"
    text = found.model.trace().text
    assert text is not None
    assert (text.chunk, text.length, text.ends) == (8, 40, (ENDS,))
    assert continued(found, [5, 7, 9], 6) == greedy(module, [5, 7, 9], 6)
    assert is_close(found) == ["logits"] * 4


def test_texts_end_as_generation_config_says(tmp_path: Path) -> None:
    saved(tmp_path, "LlamaForCausalLM", DECODER)
    tokenized(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    text = open_checkpoint(tmp_path, {}, {}).model.trace().text
    assert text is not None
    assert text.ends == (7, 9)


@pytest.mark.slow
def test_an_unknown_causal_model_continues_texts_over_its_caches(tmp_path: Path) -> None:
    """Grouped heads, a window that is shorter than the text, and weights in several files."""
    sizes = {**DECODER, "head_dim": 8, "sliding_window": 6}
    module = saved(tmp_path, "VaultGemmaForCausalLM", sizes, max_shard_size="30KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    tokenized(tmp_path)
    found = open_checkpoint(tmp_path, {"length": "24", "prefill": "8"}, {})
    traced = found.model.trace()
    assert "no example computes VaultGemmaForCausalLM" in found.chosen.line
    assert "prefill and decode, over caches as states" in found.chosen.line
    assert {s.shape for s in traced.states} == {(2, 24, 8)}
    assert len(traced.states) == 4
    assert traced.text is not None
    assert (traced.text.chunk, traced.text.length) == (8, 24)
    assert {w.name for w in traced.weights} <= set(found.chosen.checkpoint.weights.names)
    ids = [5, 7, 9, 11, 40]
    assert continued(found, ids, 12) == greedy(module, ids, 12)
    assert is_close(found) == ["logits"] * 4


@pytest.mark.slow
def test_a_tokenizer_that_is_not_read_is_no_obstacle(gemma: Path, tmp_path: Path, run: Run) -> None:
    """Its model is compiled without the program."""
    folder = shutil.copytree(gemma, tmp_path / "m")
    Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, "<unk>")).save(str(folder / "tokenizer.json"))
    code, said = run("compile", folder, "--no-build", "-q")
    assert code == 1
    assert "of which BPE, Unigram and WordPiece are read" in said
    assert "with --set program=false a model is compiled without the program" in said
    found = open_checkpoint(folder, {"program": False, "length": 8, "prefill": 2}, {})
    assert found.model.trace().text is None
    assert found.chosen.line.endswith("over caches as states")


@pytest.mark.slow
def test_an_encoder_has_dims(tmp_path: Path) -> None:
    """Positions begin after that of padding: there are two fewer than rows of the table."""
    saved(tmp_path, "RobertaForMaskedLM", ENCODER)
    found = open_checkpoint(tmp_path, {}, {"batch": (1, 4)})
    ((entry, graph),) = found.model.trace().entries
    assert (found.chosen.way, entry) == ("forward", "forward")
    sizes = {d.name: (d.lo, d.hi) for d in graph.dims()}
    assert sizes == {"batch": (1, 4), "sequence": (1, 38)}
    assert set(is_close(found)) == {"logits"}


@pytest.mark.slow
def test_a_model_of_images_takes_pixels(tmp_path: Path) -> None:
    saved(tmp_path, "ConvNextForImageClassification", PYRAMID)
    found = open_checkpoint(tmp_path, {}, {"batch": (1, 3)})
    ((_, graph),) = found.model.trace().entries
    (image,) = graph.inputs
    assert [str(e) for e in image.shape] == ["batch", "3", "32", "32"]
    assert set(is_close(found)) == {"logits"}


@pytest.mark.slow
def test_what_an_example_does_not_compute_is_transformers_own(tmp_path: Path) -> None:
    saved(tmp_path, "LlamaForCausalLM", {**DECODER, "hidden_act": "gelu"})
    found = explained(tmp_path, {}, {})
    assert found.way == "text"
    assert "the example llama does not compute it: its hidden_act is gelu" in found.line
    assert found.line.endswith("without a program as there is no tokenizer.json")
    assert found.operators["aten.scaled_dot_product_attention.default"] == 2


@pytest.mark.slow
def test_a_way_may_be_asked_for(tmp_path: Path) -> None:
    saved(tmp_path, "LlamaForCausalLM", DECODER)
    found = explained(tmp_path, {"way": "forward"}, {"sequence": 6})
    assert found.entries == (
        "forward: input_ids i64[batch, 6], attention_mask i64[batch, 6] -> logits f32[batch, 6, 260]",
    )
    assert "as way=forward asks for it" in found.line
    saved(tmp_path / "b", "RobertaModel", ENCODER)
    with pytest.raises(BadCheckpoint, match="RobertaModel is no causal language model"):
        open_checkpoint(tmp_path / "b", {"way": "text"}, {})


VIT = {**SIZES, "intermediate_size": 48, "image_size": 16, "patch_size": 8}
ASIDE = {
    "pooling": ("BertModel", ENCODER, "1_Pooling/config.json", {"pooling_mode_cls_token": True}),
    "pixels": (
        "ViTForImageClassification",
        VIT,
        "preprocessor_config.json",
        {"rescale_factor": 0.5},
    ),
    "mean": (
        "ResNetForImageClassification",
        {**PYRAMID, "embedding_size": 8, "layer_type": "basic"},
        "preprocessor_config.json",
        {"image_mean": [0.5, 0.5, 0.5]},
    ),
}


@pytest.mark.parametrize("case", ASIDE)
def test_what_lies_beside_a_model_is_regarded(case: str, tmp_path: Path) -> None:
    """What comes before it, or after: where an example computes something else, it is not taken."""
    name, sizes, file, says = ASIDE[case]
    saved(tmp_path, name, sizes)
    assert open_checkpoint(tmp_path, {}, {}).chosen.way == "example"
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(json.dumps(says))
    with pytest.raises(NotComputed, match="compute"):
        open_checkpoint(tmp_path, {"way": "example"}, {})


# --- weights of few bits --------------------------------------------------------------------------

WIDE = {**DECODER, "hidden_size": 128, "head_dim": 8, "intermediate_size": 32}
WIDE |= {"num_key_value_heads": 4, "num_hidden_layers": 1}
FEW_BITS = ("gptq", "gptq-order", "awq", "words4", "f8", "ao-int4", "nf4-nested", "mlx4")


def packed(folder: Path, name: str, case: str) -> Any:
    """A checkpoint whose matrices of one shape are quantised; the module with the numbers that they stand for."""
    module = saved(folder, name, WIDE)
    tokenized(folder)
    tensors = load_file(folder / "model.safetensors")
    said, make = few_bits.CASES[case]
    shape = (few_bits.ROWS, few_bits.COLUMNS)
    for weight in [n for n, a in tensors.items() if a.shape == shape]:
        parts, meant = make()
        del tensors[weight]
        stem = weight.removesuffix(".weight")
        tensors |= {f"{stem}.{part}": np.ascontiguousarray(a) for part, a in parts.items()}
        with torch.no_grad():
            module.get_parameter(weight).copy_(torch.from_numpy(meant))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    key = "quantization_config" if "quant_method" in said else "quantization"
    configured(folder, **{key: said})
    return module


@pytest.mark.parametrize("case", FEW_BITS)
def test_quantised_weights_stay_in_their_bits(case: str, tmp_path: Path) -> None:
    module = packed(tmp_path, "LlamaForCausalLM", case)
    found = open_checkpoint(tmp_path, {}, {})
    assert found.chosen.way == "example"
    assert len(quantised(found.model.trace(), found.weights, None).packed) == 5  # q, k, v, gate, up
    assert continued(found, [5, 7, 9], 4) == greedy(module, [5, 7, 9], 4)


@pytest.mark.slow
def test_quantised_weights_of_any_model_stay_in_their_bits(tmp_path: Path, run: Run) -> None:
    """transformers has the floats, and needs no package of the format."""
    module = packed(tmp_path / "m", "OlmoForCausalLM", "gptq")
    found = open_checkpoint(tmp_path / "m", {"length": "16", "prefill": "4"}, {})
    assert found.chosen.way == "text"
    assert len(quantised(found.model.trace(), found.weights, None).packed) == 5
    assert continued(found, [5, 7, 9], 4) == greedy(module, [5, 7, 9], 4)
    code, said = run("compile", tmp_path / "m", "--set", "length=16", "--no-build", "-q")
    assert code == 0, said
    assert "note: weights of few bits: 5 in gptq4" in said


@pytest.mark.slow
def test_floats_are_read_whatever_is_said_of_bits(tmp_path: Path) -> None:
    saved(tmp_path, "RobertaForMaskedLM", ENCODER)
    configured(tmp_path, quantization_config={"quant_method": "later"})
    assert set(is_close(open_checkpoint(tmp_path, {}, {"batch": 1, "sequence": (1, 4)})))


# --- in Python ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_directory_is_a_model_in_python(llama: Path, gemma: Path) -> None:
    """It has its weights, and its originals: an example's is transformers, over caches of zeros at first."""
    model = from_hugging_face(llama, options={"prefill": 8})
    assert model.trace().text is not None
    assert isinstance(model.sources(None), lg.Weights)
    checked = lg.check(model)
    assert {n: len(v) for n, v in checked.vectors.items()} == {"prefill": 3, "decode": 1}
    assert {r.sizes for r in checked.rows} >= {"prefill, tokens=1", "decode"}
    assert all(r.difference <= CLOSE * max(r.greatest, 1) for r in checked.rows), checked.rows
    model = lg.from_hugging_face(gemma, {"sequence": (1, 8), "batch": 2}, {"way": "forward"})
    ((_, graph),) = model.trace().entries
    assert [(d.name, d.lo, d.hi) for d in graph.dims()] == [("sequence", 1, 8)]
    assert all(r.difference <= CLOSE * r.greatest for r in lg.check(model).rows)
    for dims, options, says in (
        ({"batch": (3, 1)}, {}, "Pass a number from 1 on"),
        ({"batch": 2.5}, {}, "Pass a number from 1 on"),
        ([], {"way": "fast"}, "Pass one of example, text, forward"),
        ({}, ["way"], "a mapping of names to values"),
    ):
        with pytest.raises(lg.UserError, match=says):
            from_hugging_face(llama, dims, options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(lg.UserError, match="directory cannot be of type int"):
        from_hugging_face(5)  # pyright: ignore[reportArgumentType]


def test_an_entry_that_needs_another_first_has_no_original(tmp_path: Path) -> None:
    """Whisper's tokens are read after the sound: nothing says what they are without it."""
    sizes: dict[str, Any] = {"d_model": 32, "vocab_size": 99, **TOKENS}
    for part in ("encoder", "decoder"):
        sizes |= {f"{part}_layers": 1, f"{part}_attention_heads": 2, f"{part}_ffn_dim": 32}
    sizes |= {"max_source_positions": 20, "max_target_positions": 20, "decoder_start_token_id": 1}
    sizes |= {"suppress_tokens": None, "begin_suppress_tokens": None}
    saved(tmp_path, "WhisperForConditionalGeneration", sizes)
    assert set(from_hugging_face(tmp_path).originals) == {"listen"}


def test_patches_of_a_spectrum_are_seen_at_its_length(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 16, "num_mel_bins": 32, "max_length": 48}
    saved(tmp_path, "ASTForAudioClassification", sizes)
    model = from_hugging_face(tmp_path, {"batch": (1, 4)})
    ((_, spec),) = model.entries[0].inputs
    assert [str(e) for e in spec.shape] == ["batch", "48", "32"]
    assert all(r.difference <= CLOSE * r.greatest for r in lg.check(model).rows)


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in an empty directory: its exit code, and what it says."""
    place = tmp_path / "empty"
    place.mkdir()
    monkeypatch.chdir(place)

    def call(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.run([str(a) for a in arguments])
        said = "".join(capsys.readouterr())
        assert "Traceback" not in said
        return code, said

    return call


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    saved(folder, "LlamaForCausalLM", DECODER)
    tokenized(folder)
    return folder


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gemma")
    saved(folder, "VaultGemmaForCausalLM", {**DECODER, "head_dim": 8}, max_shard_size="30KB")
    tokenized(folder)
    return folder


@pytest.mark.slow
def test_the_way_is_one_line(llama: Path, run: Run) -> None:
    line = "LlamaForCausalLM is compiled as the example llama"
    code, said = run("compile", llama, "--check", "--no-build", "-q")
    assert code == 0
    assert said.count(f"note: {line}\n") == 1
    assert re.search(r"decode, tokens 4..4 +logits +\d", said)
    code, said = run("compile", llama, "--explain", "--json")
    assert (code, json.loads(said)["line"]) == (0, line)


@pytest.mark.slow
def test_all_problems_are_listed(tmp_path: Path, run: Run) -> None:
    saved(tmp_path / "fnet", "FNetModel", {**SIZES, "vocab_size": 99, "intermediate_size": 48})
    code, said = run("compile", tmp_path / "fnet", "--explain")
    assert code == 1
    assert "aten.fft_fftn.default: complex numbers have no dtype here" in said
    assert re.search(r"aten.linear.default +\d", said)
    assert "Remove each reason of the list above" in said


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path("ran").touch, ()


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def less(folder: Path, name: str) -> None:
    """One tensor left out of the files, and of their index."""
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        if tensors.pop(name, None) is not None:
            save_file(tensors, file, {"format": "pt"})
    index = folder / "model.safetensors.index.json"
    found = json.loads(index.read_text())
    del found["weight_map"][name]
    index.write_text(json.dumps(found))


def ends(folder: Path, tokens: object) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": tokens}))


def turned(folder: Path, **changes: Any) -> None:
    configured(folder, rope_parameters={"rope_type": "default", **changes})


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 2.0,
    "original_max_position_embeddings": 32,
}
HEAD = "model.layers.0.mlp.up_proj.weight"


def in_bytes(folder: Path, method: str) -> None:
    """A matrix of integers in place of one of floats, without scales."""
    less(folder, HEAD)
    name = HEAD.replace("weight", "qweight")
    file = min(folder.glob("*.safetensors"))
    save_file({**load_file(file), name: np.zeros((4, 48), np.int32)}, file, {"format": "pt"})
    index = folder / "model.safetensors.index.json"
    found = json.loads(index.read_text())
    found["weight_map"][name] = file.name
    index.write_text(json.dumps(found))
    configured(folder, quantization_config={"quant_method": method, "bits": 4})


DAMAGED: dict[str, tuple[Damage, str]] = {
    "no config": (lambda d: (d / "config.json").unlink(), "it has no config.json"),
    "no JSON": (lambda d: (d / "config.json").write_text("{"), "its JSON cannot be read"),
    "no type": (lambda d: configured(d, model_type=None), "its config.json has no model_type"),
    "no class": (
        lambda d: configured(d, architectures=None),
        "its config.json has no architectures",
    ),
    "odd class": (
        lambda d: configured(d, architectures=[{}]),
        "its config.json has no architectures",
    ),
    "unknown type": (
        lambda d: configured(d, model_type="lama", architectures=["Lama"]),
        "has no model_type lama. Correct config.json",
    ),
    "unknown class": (lambda d: configured(d, architectures=["Lama"]), "has no class Lama"),
    "no model": (lambda d: configured(d, architectures=["Trainer"]), "has no class Trainer"),
    "own code": (
        lambda d: configured(d, model_type="mine", auto_map={"AutoModel": "m.M"}),
        "its code is in the directory, and is not run",
    ),
    "other type": (
        lambda d: configured(d, model_type="bert"),
        "its model_type bert is none of VaultGemmaForCausalLM",
    ),
    "bits": (lambda d: in_bytes(d, "later"), "its weights are quantised by later"),
    "scales": (lambda d: in_bytes(d, "gptq"), f"its files lack {HEAD}"),
    "layers": (
        lambda d: configured(d, num_hidden_layers=10**9),
        "has num_hidden_layers 1000000000, and its files hold",
    ),
    "wider": (
        lambda d: configured(d, intermediate_size=64),
        "by its config.json (one of 6)",
    ),
    "heads": (lambda d: configured(d, num_attention_heads="four"), "cannot read its config.json"),
    "types": (lambda d: configured(d, num_hidden_layers=3), "validate_layer_type"),
    "a tensor": (
        lambda d: less(d, HEAD),
        f"its files lack {HEAD}, which VaultGemmaForCausalLM reads",
    ),
    "a shard": (
        lambda d: sorted(d.glob("*.safetensors"))[1].unlink(),
        "its shard model-00002-of-0000",
    ),
    "cut": (lambda d: cut(min(d.glob("*.safetensors"))), "outside the"),
    "adapter": (lambda d: (d / "adapter_config.json").write_text("{}"), "it holds an adapter"),
    "vocabulary": (
        lambda d: tokenized(d, 261),
        "its tokenizer.json has 261 tokens, and the model 260",
    ),
    "tokenizer": (
        lambda d: (d / "tokenizer.json").write_text("["),
        "tokenizer.json cannot be used",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_directory_that_is_not_what_it_says(
    case: str, gemma: Path, tmp_path: Path, run: Run
) -> None:
    damage, says = DAMAGED[case]
    folder = shutil.copytree(gemma, tmp_path / "m")
    damage(folder)
    refused(run("compile", folder, "--no-build", "-q"), says)


def refused(ended: tuple[int, str], says: str) -> None:
    """One message, and nothing is written."""
    code, said = ended
    assert code == 1, said
    assert says in said
    assert said.count("error:") == 1
    assert len(said.splitlines()) <= 8
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (pickled, "its weights are in pytorch_model.bin alone, a pickle"),
        (lambda d: cut(d / "model.safetensors"), "model.safetensors cannot be used"),
        (lambda d: configured(d, intermediate_size=50), "but the model declares f32[32, 50]"),
        (lambda d: configured(d, vocab_size=300), "but the model declares f32[300, 32]"),
        (lambda d: configured(d, vocab_size=33), "tokenizer.json has 259 tokens, and the model 33"),
        (lambda d: ends(d, 9999), "its eos_token_id is 9999, and its tokenizer.json has 259"),
        (lambda d: ends(d, ["x"]), "generation_config.json cannot be used: its eos_token_id is"),
        (lambda d: configured(d, hidden_size=10**12), "declares f32[260, 1000000000000]"),
        (lambda d: configured(d, num_attention_heads=3), "is 3, and no multiple of its num_key_v"),
        (lambda d: configured(d, head_dim=7), "its head_dim is 7, where this model reads an even"),
        (lambda d: turned(d, rope_theta=0), "its rope_parameters.rope_theta is 0"),
        (lambda d: turned(d, **LLAMA3, high_freq_factor=2.0), "and not above its low_freq_factor"),
    ],
)
def test_damage_is_seen_by_examples_too(
    damage: Damage, says: str, llama: Path, tmp_path: Path, run: Run
) -> None:
    folder = shutil.copytree(llama, tmp_path / "m")
    damage(folder)
    refused(run("compile", folder, "--no-build", "-q"), says)


@pytest.mark.parametrize(
    ("which", "options", "says"),
    [
        ("llama", "--weights other.safetensors", "Pass a directory of Hugging Face alone"),
        ("llama", "--dim batch=1..8", "Pass --set length=.., --set prefill=.., --set cache"),
        ("llama", "--set lenght=9", "there is no option lenght; there are: cache, length"),
        ("llama", "--set way=fast", "Pass one of example, text, forward"),
        ("llama", "--trust", "Pass it with a .pt2"),
        ("llama", "--target tpu", "tpu"),
        ("gemma", "--set way=example", "no example computes VaultGemmaForCausalLM"),
        ("llama", "--dim batch=sequence", "sizes that are one have one name here"),
        ("gemma", "--dim batch=4", "Pass --set length=N, --set prefill=N, or --set way=forward"),
        ("gemma", "--set length=41", "Pass 0 to 40, the positions that the checkpoint has"),
        ("gemma", "--set length=long", "Pass an integer"),
        ("gemma", "--set prefill=1", "Pass 2 tokens or more"),
        ("gemma", "--set batch=1", "there is no option batch; there are: length, prefill"),
        ("gemma", "--set way=forward --dim rows=4", "Pass one of batch, sequence"),
        ("gemma", "--set way=forward --dim rows=1..4", "Pass one of batch, sequence"),
        ("gemma", "--set way=forward --dim batch=99999999999999999999", "Pass at most 16777216"),
        ("gemma", "--set way=forward --dim sequence=1..41", "Pass at most 40, the positions"),
        ("gemma", "--set way=forward --set length=4", "Pass --dim NAME=1..64 for its sizes"),
    ],
)
def test_options_that_a_way_does_not_take(
    which: str, options: str, says: str, run: Run, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(which)
    refused(run("compile", folder, "--no-build", "-q", *options.split()), says)


def test_a_missing_package_is_named(gemma: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "transformers" else found(name)
    )
    with pytest.raises(PackageMissing, match=r"pip install 'lumigen\[transformers\]'"):
        open_checkpoint(gemma, {}, {})


@pytest.mark.slow
def test_from_a_directory_to_its_text(tmp_path: Path, run: Run) -> None:
    """A user's way: a command, a build, and the program says what `generate` of transformers does."""
    folder = tmp_path / "mine"
    module = saved(folder, "SmolLM3ForCausalLM", {**DECODER, "num_hidden_layers": 1})
    tokenized(folder)
    code, said = run("compile", folder, "--no-build", "-o", "mine")
    assert code == 0, said
    assert said.count("note: SmolLM3ForCausalLM is compiled by transformers") == 1
    small = ["-DSMOLLM3_ISA=baseline", "-DSMOLLM3_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Debug"]
    build = [
        ["cmake", "--preset", "release", "-B", "build", *small, "-DCMAKE_CXX_FLAGS_DEBUG=-O0"],
        ["cmake", "--build", "build", "--target", "smollm3_program", "-j", "2"],
    ]
    for command in build:
        done = subprocess.run(command, cwd="mine", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (program,) = Path("mine/build").rglob("bin/smollm3")
    options = ["--tokens", "20", "--temperature", "0", "--prompt", PROMPT]
    files = ["--weights", "mine/weights/smollm3.safetensors"]
    files += ["--tokenizer", "mine/weights/smollm3.tokenizer"]
    done = subprocess.run(
        [program, "generate", *options, *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(PROMPT).ids
    assert done.stdout.rstrip("\n") == tokenizer.decode(greedy(module, ids, 20)[len(ids) :])
