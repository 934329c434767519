"""The page of a compilation: whole, self-contained, escaped, and the same bytes each time."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import lumigen as lg
from lumigen import errors, nn
from lumigen.cli import lumigen as command_line
from lumigen.page import page_of
from lumigen.page.flow import flow
from lumigen.pipeline import Compilation, lower_model
from lumigen.target import parse_target

ROOT = Path(__file__).parent.parent
DECODE = ROOT / "docs" / "models" / "decode.py"  # has states
ATTENTION = ROOT / "docs" / "models" / "attention.py"


def compiled(file: Path = DECODE, target: str = "cpu", dtype: lg.DType = lg.f32) -> Compilation:
    row = parse_target(target)
    return lower_model(lg.load_model_file(file).trace(), {}, None, row, dtype=dtype)


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(command_line, ["show", *arguments, "-q"])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_page_needs_nothing_else() -> None:
    page = page_of(compiled())
    assert "http" not in page
    assert not re.search(r"\b(src|srcset|action)=|@import|url\((?!#)|<link|<iframe", page)
    assert all(target.startswith("#") for target in re.findall(r'\bhref="([^"]*)"', page))
    assert str(ROOT) not in page


@pytest.mark.parametrize(
    ("file", "target", "dtype"),
    [(DECODE, "cpu", lg.f32), (ATTENTION, "cuda:sm_80,sm_90a", lg.bf16)],
)
def test_a_page_has_every_form_of_every_kernel(file: Path, target: str, dtype: lg.DType) -> None:
    """Those of other variants too."""
    made = compiled(file, target, dtype)
    page = page_of(made, dtype)
    for k in made.model.kernels:
        (article,) = re.findall(rf'<article [^>]*id="{k.name}">(.*?)</article>', page, re.DOTALL)
        assert html.escape(k.title) in article
        assert k.body.strip("\n") in html.unescape(article)
        titles = re.findall(r'data-title="([^"]*)"', article)
        assert titles[:4] == ["Model", "Region", "Plan", "Tile program"]
        assert 'class="line own"' in article
    assert f"for {target}" in page
    assert ("After retype" in page) == (dtype is not lg.f32)


def test_a_page_is_the_same_twice() -> None:
    assert page_of(compiled()) == page_of(compiled())


def test_names_and_sources_are_text(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "import lumigen as lg\n"
        "from lumigen import nn\n\n"
        "net = nn.ModuleDict({'<script>': nn.Linear(3, 3)})\n"
        "model = lg.Model('odd', net)\n\n\n"
        "@model.entry(x=lg.spec(3))\n"
        "def run(x):\n"
        "    return net['<script>'](x) if 2 < 3 else '</div><b>'\n"
    )
    page = page_of(compiled(file))
    assert "&lt;script&gt;.weight" in page
    assert "if 2 &lt; 3 else &#39;&lt;/div&gt;&lt;b&gt;&#39;" in page
    assert str(tmp_path) not in page
    assert "# model.py:10" in page
    assert page.count("<script>") == page.count("</script>") == 1


def test_wires_lead_from_what_stores_to_what_reads() -> None:
    """Through slots that are used again, and past the kernels between."""
    blocks = [nn.Sequential(nn.Softmax(-1), nn.Linear(256, 256)) for _ in range(3)]
    model = lg.Model("blocks", nn.Sequential(*blocks))

    @model.entry(x=lg.spec(64, 256))
    def run(x: lg.Tensor) -> lg.Tensor:
        for b in blocks:
            x = x + b(x)
        return x.softmax(-1)

    made = lower_model(model.trace(), {})
    (program,) = made.lowered.programs
    drawn = flow(program, made.model, {})
    assert [b.kind for b in drawn.boxes] == ["input", *["kernel"] * 7, "output"]
    # each kernel from the one before, and each sum from what its block began with
    assert len(drawn.wires) == 8 + 3
    assert sum("H" in w.path for w in drawn.wires) == 3
    assert all(b.x + b.width <= drawn.width and b.y < drawn.height for b in drawn.boxes)


@pytest.mark.slow
def test_the_command_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert shown(str(DECODE), "--html", str(file)) == f"{file}: 6 kernels\n"
    assert file.read_text(encoding="utf-8") == page_of(compiled())
    said = json.loads(shown(str(DECODE), "--html", str(file), "--json"))
    assert said == {"model": "decode", "html": str(file), "kernels": 6}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--after", "plan"), r"--html cannot be together with --after or --kernel"),
        (("--kernel", "k00_simt"), r"--html cannot be together with --after or --kernel"),
    ],
)
def test_a_page_is_of_everything(more: tuple[str, ...], says: str, tmp_path: Path) -> None:
    arguments = ["show", str(DECODE), "--html", str(tmp_path / "page.html"), *more]
    done = CliRunner().invoke(command_line, arguments)
    assert isinstance(done.exception, errors.BadArgument)
    assert re.search(says, str(done.exception))


@pytest.mark.parametrize("compilers", [(), (lg.GenericCompiler(), lg.CPUCompiler())])
def test_a_graph_is_displayed(
    compilers: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the text as before, and names that are none in C."""
    cx = lg.Graph()
    (cx.tensor((3, 4), name="a < b").softmax(-1) * 1).retrieve()
    cx.compile(*compilers)
    file = tmp_path / "graph.html"
    text = cx.display(html=file)
    assert capsys.readouterr().out == text == cx.display()
    page = file.read_text(encoding="utf-8")
    assert "a &lt; b" in page
    assert "k00_softmax_simt" in page
    assert ("After compile" in page) == bool(compilers)
    assert ".softmax(-1) * 1).retrieve()</div>" in page


def test_a_graph_is_displayed_for_its_backend(tmp_path: Path) -> None:
    """No GPU is needed for that, nor nvcc."""
    cx = lg.Graph()
    cx.tensor((3, 4)).softmax(-1).retrieve()
    cx._compilers = lg.context.sorted_out((lg.CUDACompiler("sm_80"),))
    cx.display(html=tmp_path / "graph.html")
    assert "for cuda:sm_80" in (tmp_path / "graph.html").read_text(encoding="utf-8")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    cx = lg.Graph()
    cx.tensor(3).exp().retrieve()
    with pytest.raises(errors.FileRefused, match=r"\[display\] .*No such file"):
        cx.display(html=tmp_path / "none" / "graph.html")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_shows_one_kernel_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(compiled()), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*command, f"file://{file}#k05_product_cascade"], capture_output=True, text=True, check=True
    )
    articles = re.findall(r"<article ([^>]*)>", done.stdout)
    shown_ones = [a for a in articles if "hidden" not in a]
    assert len(articles) == 6
    assert len(shown_ones) == 1
    assert "k05_product_cascade" in shown_ones[0]
