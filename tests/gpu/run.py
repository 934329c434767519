"""One command for a machine with a GPU: builds there, runs the tests there, leaves one JSON report.

    python tests/gpu/run.py [--report gpu.json] [--minutes 8] [-k EXPRESSION]

Needs what `pip install -e '.[dev]'` brings, and nvcc; torch and CuPy where they are. Exits with pytest's code.
Where the report is there already, of the same sources and machine, the run goes on with it: what passed is not
run again. So a run that `--minutes` ended can be continued.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
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

Row = dict[str, object]
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


def outcomes(report: Path) -> list[Row]:
    """pytest's report, as a row for each test; one that was interrupted has no name there, and is left out."""
    rows: list[Row] = []
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


def sources() -> str:
    """A digest of all that the tests build and run."""
    digest = hashlib.sha256()
    for folder in ("benchmarks", "examples", "lumigen", "runtime", "templates", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in {".pyc", ".json", ".md"}:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def earlier_passes(report: Path, digest: str, where: dict[str, str]) -> tuple[list[Row], float]:
    """What passed by an earlier run of the same sources on such a machine, and for how many seconds it ran."""
    if not report.is_file():
        return [], 0.0
    earlier = json.loads(report.read_text(encoding="utf-8"))
    if (earlier.get("sources"), earlier["machine"]) != (digest, where):
        return [], 0.0
    return [test for test in earlier["tests"] if test["outcome"] == "passed"], earlier["seconds"]


def collected(expression: str) -> list[str]:
    """The tests for a GPU, as pytest names them."""
    command = [sys.executable, "-m", "pytest", str(HERE), "-m", "gpu", "-W", "default"]
    command += ["--collect-only", "-q", *(["-k", expression] if expression else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return [line for line in done.stdout.splitlines() if "::" in line]


def row_name(test: str) -> str:
    """A test's name in a report, from pytest's."""
    file, _, name = test.partition("::")
    return f"{Path(file).stem}::{name}"


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
    digest, where = sources(), machine()
    passed, seconds = earlier_passes(options.report, digest, where)
    done = {test["test"] for test in passed}
    wanted = [test for test in collected(options.expression) if row_name(test) not in done]
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "tests.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            f"-n{max(4, (os.cpu_count() or 4) * 3 // 4)}",  # most of the time goes to compilers
            f"--junitxml={xml}",
        ]
        command += ["-W", "default", *wanted]
        code = timed(command, options.minutes * 60) if wanted else 0
        tests = passed + (outcomes(xml) if xml.is_file() else [])
    report = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": first_line("git", "rev-parse", "HEAD"),
        "sources": digest,
        "machine": where,
        "seconds": round(seconds + time.monotonic() - start, 1),
        "exit_code": code,
        "passed": sum(t["outcome"] == "passed" for t in tests),
        "failed": sum(t["outcome"] == "failed" for t in tests),
        "skipped": sum(t["outcome"] == "skipped" for t in tests),
        "tests": tests,
    }
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(
        f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped; {options.report}"
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
