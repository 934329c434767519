"""What is emitted: stable, without a trace of the machine, and only for names that C can bear."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import gpu_models
import jinja2
import models
import pytest

from lumigen.build import write_project
from lumigen.emit.environment import environment
from lumigen.emit.manifest import file_hash
from lumigen.emit.project import render_project
from lumigen.errors import BadArgument, LoweringFailed, SourceLocation
from lumigen.index import Dim, ix
from lumigen.program import Panels
from lumigen.targets.cpu.row import CPU
from lumigen.targets.cpu.speller import HEADERS
from lumigen.targets.cuda.row import CUDA
from lumigen.targets.cuda.speller import HEADERS as DEVICE_HEADERS

GOLDEN = (
    "CMakeLists.txt",
    "include/tiny.h",
    "kernels/k01_project_20x7.cpp",
    "kernels/k01_project_20x7.h",
    "kernels/kernels.h",
    "src/forward.cpp",
    "src/lookup.cpp",
    "src/model.cpp",
)

GOLDEN_CUDA = (
    "CMakeLists.txt",
    "include/tiny.h",
    "kernels/k01_project_20x7.cu",
    "kernels/k01_project_20x7.h",
    "kernels/kernels.h",
    "src/forward.cpp",
    "src/model.cpp",
)


@pytest.mark.parametrize("path", GOLDEN)
def test_project_is_as_reviewed(path, golden):
    golden(f"project/{path}", render_project(models.tiny())[path])


def test_a_choice_is_an_if(golden):
    golden("project/src/choice.cpp", render_project(models.tiny_with_a_choice())["src/forward.cpp"])


@pytest.mark.slow
def test_a_choice_compiles_without_warnings(tmp_path):
    write_project(render_project(models.tiny_with_a_choice()), tmp_path)
    defines = ["-DLUMIGEN_NS=tiny_impl", "-DLUMIGEN_HAS_BASELINE=1"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    command = ["c++", "-std=c++17", "-fsyntax-only", *warnings, *defines, "-I.", "-Iinclude"]
    for source in ("src/forward.cpp", "tests/kernels_test.cpp"):
        subprocess.run([*command, source], cwd=tmp_path, check=True)


@pytest.mark.parametrize("path", GOLDEN_CUDA)
def test_project_for_cuda_is_as_reviewed(path, golden):
    golden(f"project_cuda/{path}", render_project(gpu_models.on_gpu(models.tiny()))[path])


def test_a_project_says_what_it_is_for():
    manifest = json.loads(render_project(gpu_models.on_gpu(models.tiny()))["manifest.json"])
    assert manifest["target"] == "cuda"
    assert manifest["architectures"] == ["sm_80", "sm_90a", "sm_100", "sm_120"]
    cpu = json.loads(render_project(models.tiny())["manifest.json"])
    assert cpu["target"] == "cpu"
    assert "architectures" not in cpu


def test_every_project_says_under_which_licence_it_is():
    """The repository's, word for word."""
    ours = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
    for model in (models.tiny(), gpu_models.on_gpu(models.tiny())):
        files = render_project(model)
        assert ours.rstrip() in files["LICENSE"]
        assert "`LICENSE`" in files["README.md"]


def test_a_project_says_how_its_kernels_work():
    for model in (models.tiny(), gpu_models.on_gpu(models.tiny())):
        (plain, *_), skeletons = model.kernels, model.target.skeletons
        assert "how it works" not in render_project(model)["README.md"]
        kernels = (
            *model.kernels,
            replace(plain, name="k10_cascade"),
            replace(plain, name="k11_order"),
        )
        readme = render_project(replace(model, kernels=kernels))["README.md"]
        said = re.findall(r"^\* `(\w+)`: (.*)$", readme, re.MULTILINE)
        assert said == [(word, skeletons[word]) for word in ("cascade", "order")]


def test_every_skeleton_of_a_target_is_explained():
    assert set(CPU.skeletons) == set(HEADERS)
    assert set(CUDA.skeletons) == set(DEVICE_HEADERS)


def test_a_target_has_nothing_of_another():
    cpu, cuda = render_project(models.tiny()), render_project(gpu_models.on_gpu(models.tiny()))
    assert not [path for path in cpu if path.endswith((".cu", ".cuh"))]
    assert not [path for path in cuda if path.startswith(("runtime/isa", "runtime/pool"))]
    assert not [path for path, text in cpu.items() if "cuda_runtime" in text]
    assert not [path for path, text in cuda.items() if "LUMIGEN_HAS_AVX2" in text]


def test_rendering_twice_gives_the_same_bytes():
    first, second = render_project(models.tiny()), render_project(models.tiny())
    assert first == second
    assert list(first) == sorted(first)


@pytest.mark.parametrize("model", [models.tiny(), gpu_models.on_gpu(models.tiny())])
def test_no_file_names_the_machine_or_a_path(model):
    for path, text in render_project(model).items():
        assert "/home/" not in text, path
        assert "/work/" not in text, path
        assert "\t" not in text, path


@pytest.mark.parametrize("model", [models.tiny(), gpu_models.on_gpu(models.tiny())])
def test_every_file_ends_with_one_newline(model):
    for path, text in render_project(model).items():
        assert text.endswith("\n"), path
        assert not text.endswith("\n\n"), path


def test_manifest_hashes_every_other_file():
    files = render_project(models.tiny())
    manifest = json.loads(files["manifest.json"])
    others = {path: file_hash(text) for path, text in files.items() if path != "manifest.json"}
    assert manifest["files"] == others
    assert manifest["entries"][1]["inputs"] == [
        {"name": "ids", "dtype": "int64", "shape": ["n + 1"], "range": [0, 9]}
    ]


def test_a_range_that_ends_with_a_dim_is_told_as_people_write_it():
    model = models.tiny()
    *others, last = model.programs
    (n,) = last.dims
    (ids,) = last.inputs
    ids = replace(ids, range=(0, 2000), most=2000 - ix(n))
    files = render_project(replace(model, programs=(*others, replace(last, inputs=(ids,)))))
    assert "ids 0..2000 - n" in files["include/tiny.h"]
    told = json.loads(files["manifest.json"])["entries"][-1]["inputs"][0]
    assert (told["range"], told["most"]) == ([0, 2000 - n.hi], "2000 - n")


def test_source_lines_are_file_names():
    assert "// model.py:12\n" in render_project(models.tiny())["src/forward.cpp"]


def test_names_of_files_cannot_leave_their_literals():
    model = models.tiny()
    lines = (SourceLocation('"b\\sin??!.py', 3),)
    kernels = tuple(replace(k, lines=lines) for k in model.kernels)
    text = render_project(replace(model, kernels=kernels))["tests/kernels_test.cpp"]
    assert '     "\\"b\\\\sin?\\?!.py:3",\n' in text


def test_misspelled_name_in_a_template_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="nmae"):
        environment().from_string("{{ m.nmae }}").render(m=models.tiny())


def test_embedding_adds_a_source():
    embedded = render_project(models.tiny(), embed_weights=True)
    assert embedded.keys() - render_project(models.tiny()).keys() == {"src/embedded.cpp"}


@pytest.mark.parametrize("name", ["9lives", "a b", "class", "é"])
def test_model_names_are_identifiers(name):
    with pytest.raises(BadArgument, match="identifier"):
        render_project(models.tiny(name))


@pytest.mark.parametrize("version", ["", "1.0 */", 'a"b', "1.0\\n"])
def test_versions_fit_into_comments_and_literals(version):
    with pytest.raises(BadArgument, match="version"):
        render_project(models.tiny(version=version))


@pytest.mark.parametrize("entry", ["model_open", "abi", "int", "context"])
def test_entries_keep_away_from_our_symbols(entry):
    model = models.tiny()
    programs = (replace(model.programs[0], entry=entry), model.programs[1])
    with pytest.raises(BadArgument):
        render_project(replace(model, programs=programs))


def test_entries_keep_away_from_each_other():
    model = models.tiny()
    programs = (replace(model.programs[0], entry="lookup_shape"), model.programs[1])
    with pytest.raises(BadArgument, match="lookup_shape"):
        render_project(replace(model, programs=programs))


def test_a_dim_that_no_input_gives_is_refused():
    model = models.tiny()
    ghost = Dim("ghost", 1, 4)
    port = replace(model.programs[0].inputs[0], shape=(ix(models.BATCH) * ghost, ix(models.IN)))
    program = replace(model.programs[0], dims=(models.BATCH, ghost), inputs=(port,))
    with pytest.raises(LoweringFailed, match="which no input has"):
        render_project(replace(model, programs=(program,)))


def test_a_layout_past_its_weight_is_refused():
    model = models.tiny()
    weights = tuple(
        replace(s, layout=Panels(models.OUT, models.IN, models.OUT, 1)) if s.layout else s
        for s in model.weights
    )
    with pytest.raises(LoweringFailed, match=r"proj\.weight"):
        render_project(replace(model, weights=weights))


def test_titles_cannot_leave_their_comments():
    model = models.tiny()
    kernels = tuple(replace(k, title="a\nb \\") for k in model.kernels)
    text = render_project(replace(model, kernels=kernels))["src/forward.cpp"]
    assert "  // a b \n" in text or "  // a b\n" in text
