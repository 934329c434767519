"""One command for a machine with a GPU: builds there, runs the tests there, leaves one JSON report.

    python tests/gpu/run.py [--report gpu.json] [--minutes 8] [-k EXPRESSION]

Needs what `pip install -e '.[dev]'` brings, and nvcc; torch and CuPy where they are. Exits with pytest's code.
Where the report is there already, of the same commit and machine, the run goes on with it: what passed is not
run again. So a machine that is lent for a few minutes at a time gets through all tests.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return ""
    return next(iter(done.stdout.splitlines()), "") if done.returncode == 0 else ""


def machine() -> dict[str, str]:
    """What the tests ran on; no name of the host and no path."""
    command = [sys.executable, "-m", "lumigen", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    rows = json.loads(done.stdout)["findings"] if done.stdout else []
    found = {row["name"]: re.sub(r"\S*/\S+, ", "", row["found"]) for row in rows}
    wanted = ("NVIDIA driver", "CUDA toolkit", "C++ compiler", "processor")
    return {name: found.get(name, "") for name in wanted} | {"python": platform.python_version()}


def outcomes(report: Path) -> list[dict[str, object]]:
    """pytest's report, as a row for each test; one that was interrupted has no name there, and is left out."""
    rows: list[dict[str, object]] = []
    for case in ET.parse(report).iter("testcase"):
        if case.get("name") is None:
            continue
        outcome, text = "passed", ""
        for kind in ("failure", "error", "skipped"):
            if (found := case.find(kind)) is not None:
                outcome = {"failure": "failed", "error": "failed"}.get(kind, kind)
                text = (found.get("message") or "")[:2000]
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        seconds = round(float(case.get("time", 0)), 2)
        rows.append({"test": name, "outcome": outcome, "seconds": seconds, "message": text})
    return rows


def begun(
    report: Path, commit: str, where: dict[str, str]
) -> tuple[list[dict[str, object]], float]:
    """What passed by an earlier run of this commit on such a machine, and for how many seconds it ran."""
    if not report.is_file():
        return [], 0.0
    earlier = json.loads(report.read_text(encoding="utf-8"))
    if (earlier["commit"], earlier["machine"]) != (commit, where):
        return [], 0.0
    return [test for test in earlier["tests"] if test["outcome"] == "passed"], earlier["seconds"]


def timed(command: list[str], seconds: float) -> int:
    """The command's exit code. At its limit it is interrupted, so that what was run is reported."""
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            return 124


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("gpu.json"))
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("-k", dest="expression", default="")
    options = parser.parse_args()
    start = time.monotonic()
    commit, where = first_line("git", "rev-parse", "HEAD"), machine()
    passed, seconds = begun(options.report, commit, where)
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "tests.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            str(HERE),
            "-m",
            "gpu",
            f"-n{max(4, (os.cpu_count() or 4) * 3 // 4)}",  # most of the time goes to compilers
            f"--junitxml={xml}",
        ]
        command += ["-W", "default", *(["-k", options.expression] if options.expression else [])]
        for test in passed:
            module, _, name = str(test["test"]).partition("::")
            command += ["--deselect", f"{HERE.relative_to(ROOT)}/{module}.py::{name}"]
        code = timed(command, options.minutes * 60)
        tests = passed + (outcomes(xml) if xml.is_file() else [])
    report = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": commit,
        "machine": where,
        "seconds": round(seconds + time.monotonic() - start, 1),
        "exit_code": code,
        "passed": sum(t["outcome"] == "passed" for t in tests),
        "failed": sum(t["outcome"] == "failed" for t in tests),
        "skipped": sum(t["outcome"] == "skipped" for t in tests),
        "tests": tests,
    }
    options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(
        f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped; {options.report}"
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
