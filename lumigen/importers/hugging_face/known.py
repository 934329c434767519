"""known: the examples that compute checkpoints of Hugging Face, by architecture.

An example is the fast form of a model: its sizes are dims, its caches are states, its tokens and images are as files
have them. `made` refuses a checkpoint that an example does not compute, with NotComputed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, cast

from lumigen.errors import NotComputed
from lumigen.frontend import Model, load_model_file
from lumigen.frontend.load import parse_option
from lumigen.importers.hugging_face.checkpoint import Checkpoint
from lumigen.resources import examples_dir
from lumigen.weights import config_in

EXAMPLES = {
    "BertModel": "minilm",
    "DeiTForImageClassification": "vit",
    "DeiTForImageClassificationWithTeacher": "vit",
    "GPT2LMHeadModel": "gpt2",
    "Gemma2ForCausalLM": "llama",
    "Gemma3ForCausalLM": "llama",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "MixtralForCausalLM": "llama",
    "Phi3ForCausalLM": "llama",
    "Qwen2ForCausalLM": "llama",
    "Qwen3ForCausalLM": "llama",
    "Qwen3MoeForCausalLM": "llama",
    "ResNetForImageClassification": "resnet",
    "ViTForImageClassification": "vit",
    "WhisperForConditionalGeneration": "whisper",
}
PROGRAM = "program"  # of a build(): whether the model carries the program that continues texts
MEAN = "pooling_mode_mean_tokens"
# what examples do to the bytes of an image, by the keys of preprocessor_config.json
SCALED = {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
PIXELS: Mapping[str, Mapping[str, Any]] = {"vit": SCALED, "resnet": {**SCALED, **IMAGENET}}


def made(checkpoint: Checkpoint, example: str, options: Mapping[str, Any]) -> Model:
    """The example's model for the checkpoint; NotComputed where the example is of another computation."""
    if example == "minilm":
        _check_pooling(checkpoint)
    if example in PIXELS:
        _check_pixels(checkpoint, PIXELS[example])
    if PROGRAM in options_of(example) and parse_option(PROGRAM, options.get(PROGRAM, True), bool):
        _check_tokens(checkpoint)
    file = examples_dir() / example / "model.py"
    return load_model_file(file, weights=checkpoint.weights, options=options)


def options_of(example: str) -> tuple[str, ...]:
    """What the example's build() takes beside the weights."""
    text = (examples_dir() / example / "model.py").read_text(encoding="utf-8")
    functions = (n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
    given = next(f.args for f in functions if f.name == "build")
    return tuple(a.arg for a in (*given.args[1:], *given.kwonlyargs))


def _check_tokens(checkpoint: Checkpoint) -> None:
    """The tokenizer beside the model, and the tokens that end a text, where both are there."""
    vocabulary, said = checkpoint.config.get("vocab_size"), checkpoint.config.get("eos_token_id")
    count = checkpoint.tokens(vocabulary) if isinstance(vocabulary, int) else 0
    ends = cast("list[int]", said if isinstance(said, list) else [] if said is None else [said])
    if count and max(ends, default=0) >= count:
        why = f"its eos_token_id is {max(ends)}, and its tokenizer.json has {count} tokens"
        raise checkpoint.wrong(why, "Compare both with their originals, and fetch them again.")


def _check_pooling(checkpoint: Checkpoint) -> None:
    """What sentence-transformers says of the tokens' mean, where the directory has its files."""
    file = checkpoint.folder / "1_Pooling" / "config.json"
    said: dict[str, Any] = config_in(file)
    if said and not said.get(MEAN):
        why = f"it has no {MEAN}, which this model computes"
        remedy = "Pass a checkpoint that averages its tokens, or extend the model."
        raise NotComputed(file=str(file), why=why, remedy=remedy)


def _check_pixels(checkpoint: Checkpoint, computed: Mapping[str, Any]) -> None:
    """What comes before the model, where the directory says it."""
    file = checkpoint.folder / "preprocessor_config.json"
    said = config_in(file)
    for key, value in computed.items():
        if said.get(key, value) != value:
            why = f"its {key} is {str(said[key])[:80]}, which this model does not compute"
            remedy = f"Pass a checkpoint where it is {value}, or extend the model."
            raise NotComputed(file=str(file), why=why, remedy=remedy)
