"""Names that users choose and emitted C, C++ and Python must accept: which cannot be, and how two become different.

Promises that a name which `taken_by` passes stands in any emitted file as it is, beside the names of the language and
of the headers that the files include.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from errno import errorcode
from keyword import kwlist

# The keywords of C99, C++17 and C++20.
_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
constinit continue decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
volatile wchar_t while xor xor_eq
"""
KEYWORDS = frozenset(_KEYWORDS.split())

# Macros and types of the headers that emitted files include, and macros of compilers.
_HEADERS = """
NULL EOF NSIG WEOF SIZE_MAX RAND_MAX assert errno linux offsetof stderr stdin stdout unix
va_arg va_copy va_end va_start int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
intptr_t uintptr_t intmax_t uintmax_t ptrdiff_t size_t
BUFSIZ LITTLE_ENDIAN BIG_ENDIAN BYTE_ORDER IOV_MAX NAME_MAX PATH_MAX PIPE_BUF LINE_MAX INFINITY
NAN SNAN SNANF SNANL MAXFLOAT NZERO NDEBUG alloca strdupa strndupa issubnormal
blockDim blockIdx gridDim threadIdx warpSize
"""
HEADERS = frozenset(
    _HEADERS.split()
    + list(errorcode.values())
    + [f"{u}INT{n}_{what}" for u in ("", "U") for n in (8, 16, 32, 64) for what in ("C", "MAX")]
    + [f"INT{n}_MIN" for n in (8, 16, 32, 64)]
)
# The limits of numbers, mathematical constants, and what else comes in families.
_FAMILIES = """
ADJ_ ATOMIC_ BC_ CHAR_ CLOCKS_ CLOCK_ CLONE_ CPU_ CUDA CU_ DBL_ DECIMAL_ EXIT_ FILENAME_ FLT_ FOPEN_ FP_ HUGE_
INTMAX_ INTPTR_ INT_ LC_ LDBL_ LLONG_ LONG_ LUMIGEN_ L_ MATH_ MB_LEN_ M_ POSIX_ PTHREAD_ PTRDIFF_ P_ SCHAR_ SCHED_
SEEK_ SHRT_ SIG_ STA_ TIMER_ TMP_ UCHAR_ UINTMAX_ UINTPTR_ UINT_ ULLONG_ ULONG_ USHRT_ WCHAR_ WINT_ cuda
"""
HEADER_PREFIXES = tuple(_FAMILIES.split())
PYTHON = frozenset(kwlist)
SPOKEN_FOR = frozenset({"std", "main"})

# A model's name is that of a header, a CMake target and a Python module too.
_HEADER_FILES = """
alloca assert complex cpuid ctype dlfcn endian errno fcntl features fenv float immintrin inttypes
iso646 limits locale malloc math memory omp poll pthread pybind11 sched setjmp signal stdalign
stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings syscall tgmath
threads time uchar unistd wchar wctype Python
"""
HEADER_FILES = frozenset(_HEADER_FILES.split())
_CMAKE_TARGETS = """
all clean depend edit_cache help install list_install_components package package_source
rebuild_cache test
"""
CMAKE_TARGETS = frozenset(_CMAKE_TARGETS.split())
RUNTIME = frozenset(
    {"check", "close", "open"}
)  # check_tensor and others are functions of the runtime
# <unistd.h> has macros R_OK, W_OK, X_OK and F_OK, as the status of a model is called
UNISTD = frozenset("frwx")
PYTHON_MODULES = frozenset({"collections", "json", "lumigen", "ml_dtypes", "numpy", "os", "sys"})

# C symbols of the model itself, without its name in front.
MODEL_SYMBOLS = (
    *("abi", "manifest", "last_error", "weights_verify", "status", "tensor", "model", "context"),
    "embedded",  # the file of the weights that a library contains
    *("model_open", "model_close", "model_options", "context_open", "context_close"),
    *(
        "context_options",
        "context_cancel",
        "context_profile",
        "state_reset",
        "state_copy",
        "state_save",
        "state_load",
    ),
)


def is_of_headers(name: str) -> bool:
    """Whether headers may give the word a meaning of their own; none of theirs ends with an underscore."""
    return name in HEADERS or (name.startswith(HEADER_PREFIXES) and not name.endswith("_"))


def taken_by(name: str) -> str | None:
    """Who else uses the word, so that no entry, tensor or dim can be called so; None if nobody."""
    if name in KEYWORDS:
        return "C and C++, where it is a keyword"
    if is_of_headers(name):
        return "the C and C++ headers that emitted files include"
    if name in PYTHON:
        return "Python, where it is a keyword"
    return "C++" if name in SPOKEN_FOR else None


def model_taken_by(name: str) -> str | None:
    """The same for the name of a model."""
    if name in HEADER_FILES:
        return f"the system's header <{name}.h>"
    if name.lower() in UNISTD:
        return f"the system's header <unistd.h>, which has a macro {name.upper()}_OK"
    if name in RUNTIME:
        return "the runtime of emitted projects"
    if name in CMAKE_TARGETS:
        return "CMake, as a target of its own"
    if name in PYTHON_MODULES:
        return "a Python module that the emitted one imports"
    return taken_by(name)


def model_symbols(model: str) -> frozenset[str]:
    """C symbols of the model that belong to no entry."""
    return frozenset(f"{model}_{name}" for name in MODEL_SYMBOLS)


def entry_symbols(model: str, entry: str) -> tuple[str, ...]:
    """C symbols of an entry."""
    return tuple(f"{model}_{entry}{suffix}" for suffix in ("", "_dims", "_workspace", "_shape"))


def fresh(name: str, taken: Collection[str]) -> str:
    """`name`, with as many underscores at its end as make it differ from `taken`."""
    while name in taken:
        name += "_"
    return name


def identifier(name: str, taken: frozenset[str] = frozenset()) -> str:
    """`name`, with underscores at its end where C, C++ or the code around it uses that word."""
    while name in KEYWORDS or name in taken or is_of_headers(name):
        name += "_"
    return name


def counted(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts names by the numbers in them."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(p), "") if i % 2 else (0, p) for i, p in enumerate(parts))


def numbered(name: str, taken: Collection[str]) -> str:
    """`name`, or `name_2` and so on where others are called so."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def common_parts(names: Sequence[str]) -> str:
    """The last parts that dotted names share, up to a number: `query.weight` of the queries of all layers."""
    out: list[str] = []
    for same in zip(*(reversed(n.split(".")) for n in names), strict=False):
        if len(set(same)) > 1 or same[0].isdecimal():
            break
        out.append(same[0])
    return ".".join(reversed(out))


def short_names(names: Sequence[str], least: int = 2) -> tuple[str, ...]:
    """For each dotted name an identifier of its last parts: `least`, or as many as tell it from the others."""
    parts = [tuple(n.split(".")) for n in names]
    out: list[str] = []
    for own in parts:
        others = [p for p in parts if p != own]
        count = min(least, len(own))
        while count < len(own) and any(p[-count:] == own[-count:] for p in others):
            count += 1
        words = re.sub(r"\W+", "_", "_".join(own[-count:])).strip("_")
        if not words.isascii() or not words[:1].isalpha():
            words = f"x_{re.sub(r'[^0-9A-Za-z_]', '_', words)}".rstrip("_")
        out.append(numbered(words, out))
    return tuple(out)
