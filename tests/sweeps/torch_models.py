"""Architectures of torchvision, timm and transformers, with random weights, imported and compared with PyTorch.

    python tests/sweeps/torch_models.py [--library NAME] [--libraries DIR] [--again REGEX] [--seconds N] [--out PAGE]

torchvision and timm are needed for this alone: `pip install --no-deps --target DIR torchvision timm`. Each
architecture runs in a process of its own, with its time and its memory bounded.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib
import inspect
import multiprocessing
import re
import resource
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).parent.parent / "importers"))

import imported
import numpy as np

import lumigen as lg
from lumigen.errors import NotImported
from lumigen.importers.torch.exported import export

SECONDS, GIGABYTES = 240, 10
CLOSE = 1e-4  # by norm, of what PyTorch computes in double precision
HEAD = """# Imported architectures

Each of these was made with random weights, exported by `torch.export`, imported by `lg.from_torch`, run by the
interpreter, and compared with PyTorch in double precision: at most 1e-4 apart by norm. Where PyTorch's
result in double precision is not a number, as that of canine, it is single precision. Those of transformers are tiny.
Where there is a word on the batch, the model was exported a second time with the batch as a dim, and compared at
another size of it; an empty cell was not tried. Behind the date is the release of PyTorch,
where it is another one than 2.13.
`python tests/sweeps/torch_models.py` makes this page; architectures of which it makes no small one are left out.

"""


def now() -> str:
    """The day, with the release of PyTorch where it is not the one that lumigen is tested with."""
    day, release = dt.datetime.now(tz=dt.UTC).date().isoformat(), torch.__version__.split("+")[0]
    return day if release.startswith("2.13.") else f"{day}, {release}"


@dataclass(frozen=True)
class Row:
    """How it went with an architecture."""

    name: str
    exported: str = ""
    imported: str = ""
    agrees: str = ""
    batch: str = ""
    reason: str = ""
    date: str = field(default_factory=now)

    def __str__(self) -> str:
        tried = (self.exported, self.imported, self.agrees, self.batch)
        cells = (self.name, *tried, self.reason, self.date)
        return "| " + " | ".join(c.replace("|", "/") for c in cells) + " |"


Made = tuple[torch.nn.Module, Sequence[Any], Mapping[str, Any]]


# --- torchvision and timm ---------------------------------------------------------------------------

VISION = """
alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3
maxvit_t mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf
regnet_y_400mf resnet18 resnet50 resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_1 swin_t swin_v2_t
vgg11 vgg16_bn vit_b_16 wide_resnet50_2 fcn_resnet50 deeplabv3_mobilenet_v3_large
lraspp_mobilenet_v3_large r3d_18 mc3_18 r2plus1d_18 s3d mvit_v2_s swin3d_t raft_small
"""
SIZES = {"inception_v3": 96, "vit_b_16": 224, "maxvit_t": 224, "raft_small": 128, "alexnet": 96}
VIDEOS = {"r3d_18", "mc3_18", "r2plus1d_18", "s3d", "mvit_v2_s", "swin3d_t"}
LONG_VIDEOS = {"s3d", "mvit_v2_s"}


def of_torchvision(name: str) -> Made:
    import torchvision

    model = torchvision.models.get_model(name, weights=None, **_backbone(name))
    size = SIZES.get(name, 64)
    if name == "raft_small":
        return model, (torch.randn(1, 3, size, size), torch.randn(1, 3, size, size)), {}
    if name in VIDEOS:
        frames, side = (16, 224) if name in LONG_VIDEOS else (8, 64)
        return model, (torch.randn(1, 3, frames, side, side),), {}
    return model, (torch.randn(1, 3, size, size),), {}


def _backbone(name: str) -> dict[str, None]:
    return (
        {"weights_backbone": None}
        if name.split("_", maxsplit=1)[0] in {"fcn", "deeplabv3", "lraspp"}
        else {}
    )


TIMM = """
beit_base_patch16_224 botnet26t_256 cait_xxs24_224 caformer_s18 coat_lite_tiny coatnet_nano_rw_224
convformer_s18 convit_tiny convmixer_768_32 convnext_atto convnextv2_atto crossvit_tiny_240
cs3darknet_s cspresnet50 davit_tiny deit_tiny_patch16_224 deit3_small_patch16_224 densenet121
dla34 dm_nfnet_f0 dpn48b eca_resnet33ts edgenext_xx_small efficientformer_l1 efficientformerv2_s0
efficientnet_b0 efficientvit_b0 efficientvit_m0 ese_vovnet19b_dw eva02_tiny_patch14_224 fastvit_t8
fbnetc_100 focalnet_tiny_srf gcresnet33ts gcvit_xxtiny gernet_s ghostnet_100 gmixer_24_224
gmlp_s16_224 halonet26t hardcorenas_a haloregnetz_b hgnet_tiny hgnetv2_b0 hiera_tiny_224
hrnet_w18_small inception_next_tiny inception_resnet_v2 inception_v4 lambda_resnet26t lcnet_050
legacy_senet154 levit_128s maxvit_nano_rw_256 mambaout_femto mixer_s16_224 mixnet_s
mnasnet_small mobilenetv1_100 mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small
mobileone_s0 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nasnetalarge nest_tiny nextvit_small
nf_regnet_b0 pit_ti_224 pnasnet5large poolformer_s12 poolformerv2_s12 pvt_v2_b0 rdnet_tiny
regnetx_002 regnety_002 regnetz_b16 repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_26w_4s
resmlp_12_224 resnest14d resnet18 resnet50 resnetblur50 resnetv2_50 resnext50_32x4d rexnet_100
samvit_base_patch16 seresnet18 selecsls42 sequencer2d_s skresnet18 spnasnet_100 starnet_s1
swiftformer_xs swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 tf_efficientnetv2_b0
tiny_vit_5m_224 tinynet_e tnt_s_patch16_224 twins_pcpvt_small vgg11 visformer_tiny
vit_tiny_patch16_224 vit_relpos_small_patch16_224 volo_d1_224 xception41 xcit_nano_12_p16_224
"""
SMALL_IMAGE = 64  # where an architecture takes it


def of_timm(name: str) -> Made:
    import timm

    found: list[Exception] = []
    for more in ({"img_size": SMALL_IMAGE}, {}):  # its size may be fixed, or none of its options
        try:
            model = timm.create_model(name, pretrained=False, **more).eval()
            usual = model.default_cfg["input_size"][-1]
        except (TypeError, AssertionError, ValueError) as e:
            found.append(e)
            continue
        for size in (SMALL_IMAGE, usual):
            image = torch.randn(1, 3, size, size)
            try:
                with torch.no_grad():
                    model(image)
            except (RuntimeError, AssertionError) as e:
                found.append(e)
            else:
                return model, (image,), {}
    raise found[-1]


# --- transformers -----------------------------------------------------------------------------------

TRANSFORMERS = """
albert bart bert roberta distilbert electra deberta deberta-v2 xlm-roberta mpnet camembert llama
mistral mixtral qwen2 qwen2_moe qwen3 gemma gemma2 gemma3_text phi phi3 gpt2 gpt_neo gpt_neox gptj
gpt_bigcode opt bloom falcon mpt stablelm starcoder2 olmo olmo2 granite cohere glm smollm3 mamba
rwkv t5 mt5 umt5 longt5 pegasus mbart marian m2m_100 blenderbot led whisper wav2vec2 hubert wavlm
speech_to_text vit deit dinov2 beit swin swinv2 convnext convnextv2 resnet regnet mobilevit
mobilenet_v1 mobilenet_v2 segformer pvt poolformer clip siglip owlvit blip vilt detr yolos dpt
layoutlm layoutlmv3 xlnet longformer modernbert nystromformer fnet squeezebert mobilebert convbert
rembert ernie roformer openai-gpt ctrl codegen biogpt xglm persimmon helium nemotron jamba
falcon_mamba recurrent_gemma olmoe ijepa bert-generation big_bird bigbird_pegasus bit canine
clipseg cpmant cvt data2vec-audio data2vec-text data2vec-vision donut-swin dpr flaubert focalnet
fsmt git glm4 glpn gpt_neox_japanese groupvit ibert imagegpt levit luke markuplm megatron-bert
mgp-str mra mvp nllb-moe owlv2 pegasus_x plbart prophetnet pvt_v2 roberta-prelayernorm roc_bert
sew sew-d splinter swiftformer swin2sr table-transformer tapas timesformer unispeech unispeech-sat
videomae visual_bert vit_mae vit_msn vitdet vits vivit wav2vec2-bert wav2vec2-conformer xlm
xlm-roberta-xl yoso qwen3_moe gpt_oss dinov3_vit exaone4 olmo3 lfm2 granitemoe ernie4_5 cohere2 hgnet_v2
chinese_clip audio-spectrogram-transformer
"""
SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "d_model": 32,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_inner": 64,
    "n_positions": 64,
    "n_ctx": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "ffn_dim": 64,
    "num_layers": 2,
    "num_heads": 4,
    "d_ff": 64,
    "d_kv": 8,
    "dim": 32,
    "hidden_dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "embedding_size": 32,
    "emb_dim": 32,
    "d_inner": 64,
    "num_decoder_layers": 2,
    "num_encoder_layers": 2,
    "image_size": 32,
    "patch_size": 8,
    "head_dim": 8,
    "rotary_dim": 4,
    "max_source_positions": 20,
    "max_target_positions": 20,
    "num_mel_bins": 16,
    "word_embed_proj_dim": 32,
    "projection_dim": 16,
    "projection_size": 32,
    "coordinate_size": 5,
    "shape_size": 6,
    "expand": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "num_local_experts": 4,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "num_queries": 5,
}
PIXELS = ("pixel_values",)
SOUND = ("input_values", "input_features")


def of_transformers(name: str) -> Made:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[name]()
    shrink(config)
    kind: Any = transformers.AutoModel
    model = kind.from_config(config)
    main = model.main_input_name
    if main in PIXELS:
        return model, (), {"pixel_values": pixels(getattr(config, "vision_config", config))}
    if main in SOUND:
        return model, (), sound(config, model, main)
    rows = 1 if hasattr(config, "image_size") else 2
    ids = torch.randint(3, 90, (rows, 8))
    named = {"input_ids": ids, "attention_mask": torch.ones(rows, 8, dtype=torch.int64)}
    accepted = inspect.signature(model.forward).parameters
    if "decoder_input_ids" in accepted:
        named["decoder_input_ids"] = torch.randint(3, 90, (2, 6))
    seen = getattr(config, "vision_config", config)
    if "pixel_values" in accepted and hasattr(seen, "image_size"):
        named["pixel_values"] = pixels(seen)
    if "bbox" in accepted:
        named["bbox"] = torch.zeros(rows, 8, 4, dtype=torch.int64)
    return model, (), {k: v for k, v in named.items() if k in accepted}


def shrink(config: Any) -> None:
    """The least sizes that an architecture has sense in; pyramids keep theirs, and see a small image."""
    if any(key in vars(config) for key in ("depths", "hidden_sizes", "embed_dims", "layer_depths")):
        if "image_size" in vars(config):
            size = 224 if "window_size" in vars(config) else SMALL_IMAGE
            config.image_size = [size] * 2 if isinstance(config.image_size, list) else size
        return
    for key, value in SMALL.items():
        old = getattr(config, key, None)
        if key in ("num_key_value_heads", "vocab_size") and key in vars(config):
            old = old or 1  # None: as many as heads, or as there are in a checkpoint
        if isinstance(old, int) and not isinstance(old, bool):
            with contextlib.suppress(AttributeError, NotImplementedError):  # it is derived
                setattr(config, key, value)
    if isinstance(vars(config).get("image_size"), list):
        config.image_size = [SMALL_IMAGE] * 2
    for key, value in vars(config).items():
        if key.endswith("_config") and hasattr(value, "to_dict"):
            shrink(value)
    for key in ("use_cache", "return_dict"):
        if key in vars(config):
            setattr(config, key, key == "return_dict")
    if vars(config).get("layer_types"):
        config.layer_types = config.layer_types[: config.num_hidden_layers]


def pixels(config: Any) -> torch.Tensor:
    size = getattr(config, "image_size", None) or 64
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = getattr(config, "num_channels", 3)
    frames = getattr(config, "num_frames", None)
    shape = (1, frames, channels, height, width) if frames else (1, channels, height, width)
    return torch.randn(*shape)


def sound(config: Any, model: Any, main: str) -> dict[str, torch.Tensor]:
    if main == "input_features":
        bins = getattr(config, "num_mel_bins", None) or getattr(
            config, "feature_projection_input_dim", 80
        )
        frames = 2 * getattr(config, "max_source_positions", 20)
        is_first = type(model).__name__.startswith("Whisper")
        named = {main: torch.randn(1, bins, frames) if is_first else torch.randn(1, frames, bins)}
        if "decoder_input_ids" in inspect.signature(model.forward).parameters:
            named["decoder_input_ids"] = torch.randint(3, 90, (1, 6))
        return named
    if hasattr(config, "patch_size"):  # of a spectrum
        return {main: torch.randn(1, config.max_length, config.num_mel_bins)}
    return {main: torch.randn(1, 2000)}


LIBRARIES: dict[str, tuple[str, Callable[[str], Made]]] = {
    "torchvision": (VISION, of_torchvision),
    "timm": (TIMM, of_timm),
    "transformers": (TRANSFORMERS, of_transformers),
}


# --- one architecture -------------------------------------------------------------------------------


def attempt(make: Callable[[str], Made], name: str) -> Row:
    """How it goes with an architecture, as far as it goes."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    try:
        model, args, kwargs = make(name)
        model = model.eval()
        want = wanted(model, args, kwargs)
        if any(w.dtype.kind == "f" and np.isnan(w).any() for w in want):
            return Row(name, "-", reason="PyTorch's own result is not a number")
    except Exception as e:  # noqa: BLE001
        return Row(name, "-", reason=f"not made: {told(e)}")
    try:
        program = export(model, args, kwargs, None)
    except Exception as e:  # noqa: BLE001
        return Row(name, "no", reason=told(e))
    try:
        ours = lg.from_torch(program, name="m")
    except Exception as e:  # noqa: BLE001
        return Row(name, "yes", "no", reason=told(e))
    try:
        got, _ = imported.run(ours, args, kwargs)
        imported.check(got, want, CLOSE)
    except Exception as e:  # noqa: BLE001
        return Row(name, "yes", "yes", "no", reason=told(e))
    try:
        with_a_dim(model, args, kwargs)
    except Exception as e:  # noqa: BLE001
        return Row(name, "yes", "yes", "yes", "no", f"batch: {told(e)}")
    return Row(name, "yes", "yes", "yes", "yes")


def with_a_dim(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Imported with the batch as a dim, from an example of two rows; compared at three."""
    (args, kwargs), (more, named) = (rows_as(n, (args, kwargs)) for n in (2, 3))
    batch = torch.export.Dim("batch", min=1, max=8)
    shapes = pytree.tree_map(lambda _: {0: batch}, kwargs or tuple(args))
    ours = lg.from_torch(export(model, args, kwargs, shapes), name="m")
    got, _ = imported.run(ours, more, named)
    imported.check(got, wanted(model, more, named), CLOSE)


def wanted(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """What PyTorch gives, in double precision where it has all operators in it and they give numbers."""
    with contextlib.suppress(RuntimeError):
        found = imported.expected(model, args, kwargs)
        if all(w.dtype.kind != "f" or np.isfinite(w).all() for w in found):
            return found
    with torch.no_grad():
        return imported.arrays(model(*args, **kwargs))


def rows_as(count: int, given: Any) -> Any:
    """The same inputs with so many rows, of floats different ones."""

    def rows(t: torch.Tensor) -> torch.Tensor:
        step = 0.1 if t.is_floating_point() else 0
        return torch.cat([t * (1 - step * i) if step else t for i in range(count)])[:count]

    return pytree.tree_map(rows, given)


def told(error: Exception) -> str:
    """The error in one short line."""
    said = error.facts["text"] if isinstance(error, NotImported) else error
    text = " ".join(str(said).split())
    text = re.sub(r"\S*/(?=(timm|torchvision|transformers)/)", "", text)
    return f"`{type(error).__name__}: {text[:200].strip().replace('`', '')}`"


def bounded(make: Callable[[str], Made], name: str, seconds: int) -> Row:
    """`attempt` in a process of its own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
        torch.set_num_threads(1)
        sender.send(attempt(make, name))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    sender.close()
    row = Row(name, reason=f"more than {seconds} seconds or {GIGABYTES} GiB")
    if receiver.poll(seconds):
        with contextlib.suppress(EOFError):  # it was killed for its memory
            row = receiver.recv()
    process.kill()
    process.join()
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="", help="of these alone")
    parser.add_argument("--again", default="$^", help="architectures that the page has already")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each of them")
    parser.add_argument("--libraries", default="build/libraries")
    parser.add_argument("--out", type=Path, default=Path("docs/torch_models.md"))
    given = parser.parse_args()
    sys.path.append(given.libraries)
    register_torchvision()
    known = rows_of(given.out)
    for library, (names, make) in LIBRARIES.items():
        if given.library in library:
            importlib.import_module(library)  # once: processes are forked from here
            for name in names.split():
                if (library, name) not in known or re.search(given.again, name):
                    known[library, name] = bounded(make, name, given.seconds)
                    print(library, known[library, name], flush=True)
                    write(given.out, known)


def rows_of(page: Path) -> dict[tuple[str, str], Row]:
    """What a page says already, by library and architecture."""
    found: dict[tuple[str, str], Row] = {}
    library = ""
    for line in page.read_text(encoding="utf-8").splitlines() if page.exists() else ():
        if line.startswith("## "):
            library = line.removeprefix("## ").partition(":")[0]
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("architecture", "---"):
            found[library, cells[0]] = Row(*cells)
    return found


def write(page: Path, known: Mapping[tuple[str, str], Row]) -> None:
    """The page, in the order of the lists."""
    tables = [
        table(library, [known[library, n] for n in names.split() if (library, n) in known])
        for library, (names, _) in LIBRARIES.items()
    ]
    page.write_text(HEAD + "\n".join(tables), encoding="utf-8")


def register_torchvision() -> None:
    """torchvision of another build asks for its operators, which are not there; the models here need none of them."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor boxes) -> Tensor")


def table(library: str, rows: Sequence[Row]) -> str:
    good = sum(row.agrees == "yes" for row in rows)
    head = f"## {library}: {good} of {len(rows)}\n\n"
    head += "| architecture | exported | imported | agrees | batch | reason | date |\n"
    head += "| --- | --- | --- | --- | --- | --- | --- |\n"
    return head + "\n".join(map(str, rows)) + "\n"


if __name__ == "__main__":
    main()
