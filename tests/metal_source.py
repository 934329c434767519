"""metal_source: kernels in Metal's language that others wrote, built with the emulator and run on arrays.

They take buffers by themselves, one parameter each, and declare threadgroup memory inside; the emulator runs one
threadgroup after the other, so that a static array is what all threads of one share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from metal import AS_WRITTEN, EMULATED, EMULATOR, said

Array = np.ndarray
THREE = "emulated::place()."
# what a parameter's attribute says that it is
PLACES = {
    "threadgroup_position_in_grid": f"{THREE}group",
    "threadgroups_per_grid": f"{THREE}groups",
    "threads_per_threadgroup": f"{THREE}shape",
    "thread_position_in_threadgroup": "in_threadgroup()",
    "thread_position_in_grid": "in_grid()",
    "thread_index_in_threadgroup": f"uint3({THREE}thread, 0, 0)",
    "thread_index_in_simdgroup": "uint3(emulated::lane(), 0, 0)",
    "simdgroup_index_in_threadgroup": f"uint3({THREE}thread / 32, 0, 0)",
}
DECLARED = re.compile(
    r"(?<=[;{}])(\s*)threadgroup(\s[^;(){}]*(?:\(\([^;]*?\)\)[^;(){}]*)?\[[^;]*\]\s*;)"
)
# ahead of the kernel, whose words are macros
HEADERS = """#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#include <functional>
#include "emulated/memory.h"
"""
MAIN = """
#undef thread

static uint3 in_threadgroup() {
  const emulated::Place& p = emulated::place();
  return uint3(p.thread % p.shape.x, p.thread / p.shape.x % p.shape.y, p.thread / p.shape.x / p.shape.y);
}
static uint3 in_grid() {
  const emulated::Place& p = emulated::place();
  const uint3 t = in_threadgroup();
  return uint3(p.group.x * p.shape.x + t.x, p.group.y * p.shape.y + t.y, p.group.z * p.shape.z + t.z);
}
template <class T>
struct As {
  static T of(uint3 x) { return T(x.x); }
};
template <>
struct As<uint3> {
  static uint3 of(uint3 x) { return x; }
};
template <>
struct As<uint2> {
  static uint2 of(uint3 x) { return uint2(x.x, x.y); }
};

// seed, threadgroups, threads, bytes of threadgroup memory, then a file for each buffer, which it is written back to
int main(int, char** argv) {
  unsigned n[8];
  for (int i = 0; i < 8; ++i) n[i] = static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10));
  std::vector<std::unique_ptr<emulated::Guarded>> b;
  for (char** file = argv + 9; *file != nullptr; ++file) {
    std::FILE* f = std::fopen(*file, "rb");
    std::fseek(f, 0, SEEK_END);
    b.push_back(std::make_unique<emulated::Guarded>(static_cast<size_t>(std::ftell(f))));
    std::rewind(f);
    if (std::fread(b.back()->data(), 1, b.back()->bytes(), f) != b.back()->bytes()) return 2;
    std::fclose(f);
  }
  const emulated::Dispatch dispatch = {"KERNEL", uint3(n[1], n[2], n[3]), uint3(n[4], n[5], n[6]), n[7], n[0]};
  emulated::run(dispatch, [&]([[maybe_unused]] char* shared) { KERNEL(ARGUMENTS); });
  for (size_t i = 0; i < b.size(); ++i) {
    std::FILE* f = std::fopen(argv[9 + i], "wb");
    std::fwrite(b[i]->data(), 1, b[i]->bytes(), f);
    std::fclose(f);
  }
  return 0;
}
"""


@dataclass(frozen=True)
class Foreign:
    """A program with one such kernel."""

    program: Path

    @staticmethod
    def built(source: str, folder: Path) -> Foreign:
        source = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
        name, parameters = _kernel(source)
        body = DECLARED.sub(r"\1static\2", source)
        body = re.sub(r"\[\[\s*kernel[^\]]*\]\]", "static", body)
        body = re.sub(r"\[\[[^\]]*\]\]", "", body)
        main = MAIN.replace("KERNEL", name).replace("ARGUMENTS", ", ".join(_arguments(parameters)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.cpp").write_text(HEADERS + body + main, encoding="utf-8")
        sources = [
            folder / "kernel.cpp",
            *sorted(EMULATED.glob("[cft]*.cpp")),
            EMULATED / "memory.cpp",
        ]
        flags = ["-std=c++17", "-O1", "-w", *AS_WRITTEN, f"-I{EMULATOR}"]
        done = said("c++", *flags, *map(str, sources), "-o", str(folder / "program"))
        if done.returncode != 0:
            raise AssertionError(done.stderr[:2000])
        return Foreign(folder / "program")

    def run(
        self,
        groups: tuple[int, ...],
        threads: tuple[int, ...],
        arrays: list[Array],
        *,
        shared: int = 0,
        seed: int = 0,
    ) -> list[Array]:
        """The arrays as the kernel leaves them."""
        files = [self.program.with_name(f"{i}.bin") for i in range(len(arrays))]
        for file, x in zip(files, arrays, strict=True):
            np.ascontiguousarray(x).tofile(file)
        numbers = (seed, *groups, *threads, shared)
        done = said(str(self.program), *map(str, numbers), *map(str, files))
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return [
            np.fromfile(f, x.dtype).reshape(x.shape) for f, x in zip(files, arrays, strict=True)
        ]


def _kernel(source: str) -> tuple[str, list[str]]:
    """The kernel's name and its parameters."""
    found = re.search(r"(?:\bkernel|\[\[\s*kernel[^\]]*\]\])\s+void\s+(\w+)\s*\(", source)
    assert found is not None, "no kernel"
    depth, end = 1, found.end()
    parts = [""]
    while True:
        letter = source[end]
        depth += (letter in "([{<") - (letter in ")]}>")
        if depth == 0:
            return found[1], [p.strip() for p in parts if p.strip()]
        if letter == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += letter
        end += 1


def _arguments(parameters: list[str]) -> list[str]:
    """What each parameter is given: buffers in order, or where the thread is."""
    out: list[str] = []
    buffers = 0
    for p in parameters:
        attribute = re.search(r"\[\[\s*(\w+)", p)
        kind = re.sub(r"\[\[.*?\]\]|\s*\w+\s*$", "", re.sub(r"\[\[.*?\]\]", "", p).strip()).strip()
        if attribute is not None and attribute[1] in PLACES:
            out.append(f"As<{kind.replace('const', '').strip()}>::of({PLACES[attribute[1]]})")
        elif attribute is not None and attribute[1] == "threadgroup":
            out.append(f"({kind})shared")
        else:
            data = f"b[{buffers}]->data()"
            out.append(f"*({kind.rstrip('&')}*){data}" if kind.endswith("&") else f"({kind}){data}")
            buffers += 1
    return out
