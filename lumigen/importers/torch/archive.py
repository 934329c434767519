"""archive: a file of `torch.export.save` as an exported program.

Promises that a file which is no whole archive is refused with one message before PyTorch reads of it, and that nothing
in an archive runs that is not trusted.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, cast

from lumigen.errors import ModelFileError, first_line
from lumigen.importers.torch.checked import HasToBeTrusted, read_checked
from lumigen.importers.torch.logs import OF_SHAPES, quiet
from lumigen.missing import advice

MOST_ENTRIES = 1 << 20
AGAIN = "Save it again with torch.export.save."
TRUST = "torch.export.load could run any code that is in it, as you. Pass --trust if you know who made it."
# the tables of what is in the entries of tensors
PAYLOADS = ("model_weights_config.json", "model_constants_config.json")
TOLD = 120  # characters of PyTorch's text


def read(path: Path, *, trust: bool) -> Any:
    """The ExportedProgram of an archive; ModelFileError where it is damaged, or could run code and has no `trust`."""
    if not path.is_file():
        remedy = advice(path, "Correct the path.", lambda p: p.suffix == path.suffix)
        raise refused(path, "there is no such file", remedy)
    if why := fault_of(path):
        raise refused(path, f"it is no whole archive: {why}", AGAIN)
    from torch.export import load

    logged: list[BaseException] = []
    try:
        with quiet("torch.export", logged), quiet(OF_SHAPES, []):
            return load(path) if trust else read_checked(path)
    except HasToBeTrusted as e:
        raise refused(path, f"it is not trusted, and {e}", TRUST) from None
    except Exception as e:  # what does not fit raises whatever its reader meets
        cause = next(iter(logged), e)
        text = f"{type(cause).__name__}: {first_line(cause)[:TOLD]}".rstrip(":. ")
        remedy = "Save it again with torch.export.save, by the version of PyTorch that is here."
        raise refused(path, f"torch.export.load cannot read it: {text}", remedy) from e


def fault_of(path: Path) -> str:
    """Why a file is not one that torch.export.save wrote, whole; empty if it may be one.

    PyTorch compresses nothing, so that an entry is as large as its bytes in the file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ENTRIES or len({e.filename for e in entries}) < len(entries):
                return "it has two entries of one name, or too many"
            for e in entries:
                if why := fault_of_entry(e):
                    return f"its entry {e.filename[:TOLD]!r} {why}"
            if sum(e.file_size for e in entries) > path.stat().st_size:
                return "its entries are larger than the file"
            if not any(PurePosixPath(e.filename).name == "archive_format" for e in entries):
                return "it has no entry archive_format"
            if damaged := archive.testzip():
                return f"its entry {damaged[:TOLD]!r} is damaged"
            bytes_of = {e.filename: e.file_size for e in entries}
            for name in bytes_of:
                if PurePosixPath(name).name in PAYLOADS and (
                    why := empty_payload(archive, name, bytes_of)
                ):
                    return why
    except (OSError, EOFError, ValueError, NotImplementedError, zipfile.BadZipFile) as e:
        return first_line(e)[:TOLD].rstrip(".") or type(e).__name__
    except RuntimeError:  # of an entry that is encrypted
        return "it is encrypted"
    return ""


def empty_payload(archive: zipfile.ZipFile, name: str, bytes_of: Mapping[str, int]) -> str:
    """Which tensor of a table has elements and no bytes, which PyTorch reads as zeros; empty where none has.

    Entries of any other wrong length PyTorch refuses itself, and so it does a table that is none.
    """
    try:
        said: Any = json.loads(archive.read(name))
    except (ValueError, RecursionError):
        return ""
    match said:
        case {"config": dict()}:
            payloads = cast("dict[str, Any]", said["config"])
        case _:
            return ""
    for tensor, payload in payloads.items():
        match payload:
            case {
                "use_pickle": False,
                "path_name": str() as file,
                "tensor_meta": {"sizes": list()},
            }:
                at = str(PurePosixPath(name).parent / file)
                has_elements = {"as_int": 0} not in cast(
                    "list[Any]", payload["tensor_meta"]["sizes"]
                )
                if bytes_of.get(at) == 0 and has_elements:
                    return f"its tensor {tensor[:TOLD]!r} has elements, and its entry has 0 bytes"
            case _:
                pass
    return ""


def fault_of_entry(entry: zipfile.ZipInfo) -> str:
    parts = PurePosixPath(entry.filename).parts
    if ".." in parts or entry.filename.startswith("/") or "\\" in entry.filename:
        return "climbs out of the archive"
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        return "is compressed"
    return ""


def refused(path: Path, why: str, remedy: str) -> ModelFileError:
    return ModelFileError(file=str(path), why=why, remedy=remedy)
