"""What a block of code prints is shown below it: ``python docs/outputs.py quickstart`` puts it there, a test compares.

    ```python
    print(1 + 1)
    ```

    ```output
    2
    ```

The blocks of a page run one after another in an empty directory. A comment runs too but is not shown:

    <!-- python
    assert 1 + 1 == 2
    -->

Of the blocks with commands of a shell (``sh``), those run that have an output. What is on a page stays if it agrees
with what was printed: the same words, and numbers that differ as they may between machines.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_LINES = r"(?:(?!```|-->).*\n)*"
BLOCK = re.compile(
    rf"^```python\n(?P<code>{_LINES})```\n(?:\n```output\n(?P<printed>{_LINES})```\n)?"
    rf"|^```sh\n(?P<shell>{_LINES})```\n\n```output\n(?P<answered>{_LINES})```\n"
    rf"|^<!-- python\n(?P<hidden>{_LINES})-->\n",
    flags=re.MULTILINE,
)
_NUMBER = re.compile(r"((?<![\w.])-?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)")
_DURATION = re.compile(r"\s*(?:s|ms|seconds?|minutes?|rows/s|(?:rows )?(?:a|per) second)\b")


def blocks(text: str) -> list[str]:
    """The code of a page, with what is not shown."""
    return [code for match in BLOCK.finditer(text) if (code := match["code"] or match["hidden"])]


def agree(shown: str, printed: str) -> bool:
    """Whether words are the same, and numbers to a tenth or to two units of the last digit; durations may differ.

    >>> agree("R2 0.85, 12 rows in 0.5 s (24 a second)", "R2  0.86, 12 rows in 3.0 s (4 a second)")
    True
    >>> [agree("R2 0.85", other) for other in ("R2 0.95", "score 0.85", "R2 0.85 0.85")]
    [False, False, False]
    """
    ours, theirs = (_NUMBER.split(" ".join(text.split())) for text in (shown, printed))
    if len(ours) != len(theirs):
        return False
    for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if place % 2 == 0:
            if one.split() != other.split():
                return False
        elif not _DURATION.match(ours[place + 1]):
            a, b = (float(number.replace(",", "")) for number in (one, other))
            digits = len(one.partition("e")[0].partition(".")[2])
            # Whole numbers are counts and dates.
            near = max(2.01 * 10.0**-digits, 0.1 * abs(a)) if "." in one else 0.1 * abs(a) * (abs(a) >= 100)
            if abs(a - b) > near:
                return False
    return True


@contextlib.contextmanager
def empty_directory() -> Iterator[Path]:
    """Work in a directory that is removed afterwards."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            yield Path(directory)
        finally:
            os.chdir(here)


def _answer(commands: str, directory: Path) -> str:
    """What commands of a shell write to standard output."""
    path = directory / ".commands"
    path.mkdir(exist_ok=True)
    program = path / "ovk"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ovk "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "75", "NO_COLOR": "1"}
    done = subprocess.run(
        ["sh", "-e", "-c", commands], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{commands}\n{done.stderr}")
    return done.stdout


def run(page: Path, shells: bool) -> list[tuple[re.Match[str], str]]:
    """Run the code of a page, or its commands, and return each block with what it printed."""
    space: dict[str, Any] = {"__name__": "docs_" + page.stem.replace("-", "_")}
    found = []
    with empty_directory() as directory:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match["shell"] is not None:
                found += [(match, _answer(match["shell"], directory))] if shells else []
                continue
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(match["code"] or match["hidden"], str(page), "exec"), space)
            found.append((match, printed.getvalue()))
    return found


def differences(page: Path, shells: bool = False) -> list[tuple[re.Match[str], str]]:
    """The blocks below which something else is shown than they print."""
    return [
        (match, printed)
        for match, printed in run(page, shells)
        if match["hidden"] is None and not agree(match["printed"] or match["answered"] or "", printed)
    ]


def renew(page: Path) -> None:
    """Put what was printed on the page, where something else is shown."""
    text = page.read_text(encoding="utf-8")
    for match, printed in reversed(differences(page, shells="```output" in text)):
        language, code = ("sh", match["shell"]) if match["shell"] is not None else ("python", match["code"])
        lines = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
        output = f"\n```output\n{lines}\n```\n" if lines else ""
        text = text[: match.start()] + f"```{language}\n{code}```\n{output}" + text[match.end() :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    for name in sys.argv[1:]:
        for one in [HERE.parent / "README.md"] if name == "README" else sorted(HERE.rglob(f"{name}.md")):
            renew(one)
            print(one)
