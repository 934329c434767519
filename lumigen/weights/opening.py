"""open_weights: which reader a path is for, by what it holds rather than by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from lumigen.missing import advice
from lumigen.weights import archive, gguf, hugging_face, packed, tokenizer_gguf, tokenizer_json
from lumigen.weights.json_text import CONFIG, bounded_text, config_beside, json_object
from lumigen.weights.npz import read_npz
from lumigen.weights.opened import Weights
from lumigen.weights.pytorch import is_pytorch, read_pytorch
from lumigen.weights.safetensors import MAX_HEADER, read_header
from lumigen.weights.stored import StoredTensor, bad

# what else a user may take for weights, by its first bytes
OTHERS = {
    b"\x93NUMPY": "a .npy file holds one array without a name",
    b"\x89HDF": "it is a file of HDF5",
    b"\x80\x02\x8a\x0al\xfc\x9cF": "PyTorch before 1.6 saved it; load it there and save it again",
    b"ggml": "it is a file of llama.cpp before GGUF; convert the model again",
    b"ggjt": "it is a file of llama.cpp before GGUF; convert the model again",
    b"lmgg": "it is a file of llama.cpp before GGUF; convert the model again",
    b"tjgg": "it is a file of llama.cpp before GGUF; convert the model again",
}
KNOWN = "safetensors, GGUF, PyTorch's state_dict or npz"
# in a directory, the first of these
IN_DIRECTORIES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
SPLIT = re.compile(r"(?P<name>.*)-\d{5}-of-(?P<count>\d{5})\.gguf")
ENDINGS = ("*.safetensors", "*.gguf")


def open_weights(path: str | Path) -> Weights:
    """Opens weights; the reader is chosen by what the file holds, not by its name.

    * safetensors, with the `config.json` beside it
    * GGUF: tensors under its own names, and for the families of `hugging_face` under those of Hugging
      Face's checkpoints as well, whose arrangement of rows they then have; those in blocks are f32 when
      they are read, and `packed` gives their fields. `config` has the metadata and the keys of config.json
      that they answer. Of a split file, any part opens all.
    * a state_dict that `torch.save` wrote, by a reader that runs no code; dicts inside (`{"model": ..}`)
      give prefixes
    * an npz file of `numpy.savez`
    * an index of shards (`model.safetensors.index.json`, `pytorch_model.bin.index.json`)
    * a directory that holds one of these

    BadWeightsFile where it is none of these, cannot be read, or is truncated or untrue.
    """
    try:
        return _opened(Path(path))
    except OSError as e:
        why = (e.strerror or type(e).__name__).lower()
        raise bad(
            Path(e.filename or path), why, "Name another file, or change what is there."
        ) from None


def _opened(given: Path) -> Weights:
    if given.is_dir():
        return _open_directory(given)
    if not given.is_file():
        instead = f"Name a file of {KNOWN}, or a directory that holds one."
        if given.exists():
            raise bad(given, "it is no regular file", instead)
        raise bad(given, "there is no such file", advice(given, instead, Path.exists))
    if given.suffix == ".json":
        return _open_index(given)
    with given.open("rb") as f:
        start = f.read(16)
    if start.startswith(gguf.MAGIC):
        return _open_gguf(given)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _open_archive(given)
    for magic, what in OTHERS.items():
        if start.startswith(magic):
            raise bad(given, what)
    if given.suffix == ".onnx":
        raise bad(given, f"it is a file of ONNX; {KNOWN} is needed")
    if given.suffix != ".safetensors" and not start[8:].startswith(b"{"):
        raise bad(given, f"it is none of {KNOWN}")
    stored, metadata = read_header(given)
    return _with_config(given, stored, metadata)


def _open_gguf(given: Path) -> Weights:
    """A file of GGUF; of one that is split, all parts, with the metadata of the first."""
    parts = _parts_of(given, gguf.read_gguf(given)[1])
    file = parts[0]
    stored, metadata = gguf.read_gguf(file)
    for part in parts[1:]:
        for name, tensor in gguf.read_gguf(part)[0].items():
            if name in stored:
                raise bad(part, f"it holds {name[:80]}, which another part holds too")
            stored[name] = tensor
    config = hugging_face.config(file, stored, metadata, gguf.load)
    names = hugging_face.aliases(file, stored, metadata)
    tokenizer = partial(tokenizer_gguf.read_tokenizer, file, metadata)
    blocks = gguf.packed(stored)
    return Weights(
        file, stored, config, metadata, gguf.load, names, tokenizer=tokenizer, packed=blocks
    )


def _parts_of(file: Path, metadata: Mapping[str, Any]) -> list[Path]:
    """The files that one is split into, as llama.cpp calls them: NAME-00001-of-00003.gguf."""
    count = metadata.get("split.count", 1)
    if isinstance(count, int) and count in (0, 1):
        return [file]
    match = SPLIT.fullmatch(file.name)
    if not match or not isinstance(count, int) or count != int(match["count"]):
        raise bad(
            file, f"it is one of {str(count)[:20]} parts, and not called NAME-00001-of-0000N.gguf"
        )
    names = (f"{match['name']}-{i + 1:05d}-of-{match['count']}.gguf" for i in range(count))
    found = [file.parent / name for name in names]
    for part in found:
        if not part.is_file():
            raise bad(file, f"its part {part.name} is missing")
    return found


def _open_archive(file: Path) -> Weights:
    if is_pytorch(file):
        return _with_config(file, read_pytorch(file))
    return _with_config(file, read_npz(file))


def _with_config(
    file: Path, stored: Mapping[str, StoredTensor], metadata: Mapping[str, str] | None = None
) -> Weights:
    """Weights with what lies beside them, config.json and tokenizer.json."""
    folder, config = file.parent, config_beside(file.parent)
    tokenizer = partial(tokenizer_json.read_tokenizer, folder)
    blocks = packed.packed(file, stored, config)
    return Weights(
        file,
        stored,
        config,
        metadata or {},
        aliases=hugging_face.of_routers(stored),
        tokenizer=tokenizer,
        config_file=folder / CONFIG,
        packed=blocks,
        stacks=hugging_face.of_experts({*stored, *blocks}),
    )


def _open_directory(folder: Path) -> Weights:
    for name in IN_DIRECTORIES:
        if (folder / name).is_file():
            return _opened(folder / name)
    for ending in ENDINGS:
        found = sorted(folder.glob(ending))
        sets = {SPLIT.sub(r"\g<name>", f.name) for f in found}
        if len(sets) == 1:
            return _opened(found[0])
        if found:
            raise bad(folder, f"it holds no model.safetensors, but {len(found)} others; name one")
    raise bad(folder, "it holds no model.safetensors, pytorch_model.bin or file of GGUF")


def _tensors_of(shard: Path) -> dict[str, StoredTensor]:
    with shard.open("rb") as f:
        is_archive = f.read(4) == archive.LOCAL_MAGIC
    return read_pytorch(shard) if is_archive else read_header(shard)[0]


def _open_index(file: Path) -> Weights:
    """An index of shards: which shard holds which tensor."""
    index = json_object(file, bounded_text(file, MAX_HEADER))
    rows: object = index.get("weight_map")
    if not isinstance(rows, dict):
        raise bad(file, "it has no weight_map")
    wanted = cast("dict[str, Any]", rows)
    headers: dict[str, dict[str, StoredTensor]] = {}
    stored: dict[str, StoredTensor] = {}
    for name, shard in wanted.items():
        if not isinstance(shard, str) or Path(shard).name != shard or shard in ("", ".", ".."):
            raise bad(
                file,
                f"{name[:80]} is in {str(shard)[:80]!r}, which is not a file in the same directory",
            )
        if shard not in headers:
            part = file.parent / shard
            if not part.is_file():
                raise bad(file, f"its shard {shard} is missing")
            headers[shard] = _tensors_of(part)
        if name not in headers[shard]:
            raise bad(file, f"its shard {shard} does not hold {name[:80]}")
        stored[name] = headers[shard][name]
    return _with_config(file, stored)
