"""Both pages in a browser, in a wide and in a narrow window: no script fails, every tab opens, nothing is cut."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from test_page import compiled
from test_tuning_page import story

from lumigen.page import page_of, tuning_page

PAGES: dict[str, Callable[[], str]] = {
    "show": lambda: page_of(compiled()),
    "tune": lambda: tuning_page(compiled(), story()),
}
BEFORE = """<script>
const failed = [];
addEventListener("error", (event) => failed.push(event.message));
</script>"""
# Every kernel is chosen, every tab opened; what was found is the title of the page.
AFTER = """<script>
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const shown = (e) => e.getClientRects().length > 0;
const cut = new Set(), open = new Set();
const look = () => {
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) cut.add("the page");
  for (const pane of all(".pane").filter(shown))
    for (const table of all("table", pane))
      if (table.scrollWidth > pane.clientWidth) cut.add(pane.dataset.title);
  for (const box of all("svg.box").filter(shown)) {
    const right = box.querySelector("rect").getBoundingClientRect().right;
    for (const text of all("text", box))
      if (text.getBoundingClientRect().right > right) cut.add(text.textContent);
  }
};
for (const row of all("tr.row")) {
  row.querySelector("a").click();
  for (const root of all("[data-tabs]").filter(shown))
    for (const tab of all(":scope > .tabs > button", root)) {
      tab.click();
      const panes = all(":scope > .pane", root).filter(shown).map((p) => p.dataset.title);
      open.add(panes.length === 1 && panes[0] === tab.textContent);
      look();
    }
}
const names = all("article").filter(shown).map((a) => a.dataset.kernel);
document.title = JSON.stringify({ failed, cut: [...cut], open: [...open], names });
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
@pytest.mark.parametrize("width", [1400, 500])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_and_every_tab_opens(name: str, width: int, tmp_path: Path) -> None:
    page = PAGES[name]()
    last = re.findall(r'<article [^>]*data-kernel="([^"]*)"', page)[-1]
    file = tmp_path / "page.html"
    page = page.replace("<head>", f"<head>{BEFORE}").replace("</body>", f"{AFTER}</body>")
    file.write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*command, f"--window-size={width},900", f"file://{file}"],
        capture_output=True,
        text=True,
        check=True,
    )
    (title,) = re.findall(r"<title>(.*?)</title>", done.stdout)[:1]
    found: dict[str, Any] = json.loads(unescape(title))
    assert found == {"failed": [], "cut": [], "open": [True], "names": [last]}
