"""The `lumigen` command: what users type, how results, progress and errors reach them.

Promises results on stdout, everything else on stderr; the exit codes of EXIT_CODES; and no traceback.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from pathlib import Path

import click

from lumigen import debug
from lumigen.cli import about, bench, make, tuned, use
from lumigen.cli.terminal import say
from lumigen.errors import (
    FileRefused,
    InternalError,
    LumigenError,
    Unexpected,
    UserError,
    first_line,
)
from lumigen.resources import lumigen_version

INTERRUPTED = 130
EXIT_CODES = (
    (0, "the command did its work"),
    (
        UserError.exit_code,
        "a mistake of the user, or a damaged file: one message",
    ),
    (2, "a command line that does not parse"),
    (InternalError.exit_code, "a bug of lumigen: the message says how to report it"),
    (INTERRUPTED, "the user stopped it with Ctrl-C; nothing is half-written"),
)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
OURS = str(Path(__file__).parent.parent)

HELP = """Compile a deep-learning model into a standalone C++ project.

\b
  lumigen new digits              a model to start from
  lumigen compile digits/model.py emit and build ./digits-cpu
  lumigen run digits-cpu          run it

Shell completion: eval "$(_LUMIGEN_COMPLETE=bash_source lumigen)"; zsh and fish likewise.
"""


@click.group(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lumigen_version(), prog_name="lumigen")
def lumigen() -> None:
    pass


for _command in (
    make.new,
    make.compile_command,
    use.run,
    make.show,
    bench.bench,
    tuned.tune,
    use.test,
    about.inspect,
    about.doctor,
):
    lumigen.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """The console script."""
    _open_closed_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # `lumigen show ... | head`: nobody reads on, which is fine
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _open_closed_streams() -> None:
    """With `>&-` there is no stdout: its text goes nowhere, and no file of ours takes its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115


def run(arguments: list[str]) -> int:
    """Run a command; its exit code."""
    command = next((a for a in arguments if not a.startswith("-")), "lumigen")
    try:
        code = lumigen.main(arguments, prog_name="lumigen", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as e:
        e.show()
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("stopped")
        return INTERRUPTED
    except LumigenError as e:
        return _report(e)
    except BrokenPipeError:
        return 0
    except OSError as e:
        return _report(_refused(command, e) or _unexpected(command, e))
    except Exception as e:  # noqa: BLE001  # whatever it is, the user shall know whose fault it is
        return _report(_unexpected(command, e))


def _report(error: LumigenError) -> int:
    say(f"error: {error}", style="red")
    if debug.level():
        traceback.print_exception(error)
    return error.exit_code


def _refused(command: str, error: OSError) -> FileRefused | None:
    """What the file system would not do with a file of the user's."""
    file = "the disk" if error.errno in FULL else error.filename
    if file is None or str(file).startswith(OURS):
        return None
    why = (error.strerror or type(error).__name__).lower()
    remedy = "Name another place, or change what is there."
    return FileRefused(command=command, file=file, why=why, remedy=remedy)


def _unexpected(command: str, error: Exception) -> Unexpected:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    text = first_line(error)[:200]
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    found = Unexpected(command=command, what=what.rstrip("."), place=place)
    found.__cause__ = error
    return found
