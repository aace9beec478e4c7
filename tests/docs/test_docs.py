"""The documentation: every block of code runs, every link inside leads somewhere, every example runs."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "generated", "gallery"} & set(path.parts))
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_code_on_pages_runs(page):
    space = {"__name__": "docs_" + page.stem.replace("-", "_")}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), space)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_inside_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_gallery_examples_run(example, tmp_path, monkeypatch, capsys):
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    plt.close("all")
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"
    if example.stem == "plot_coupling":
        scores = [
            float(line.split()[-1]) for line in capsys.readouterr().out.splitlines() if re.search(r"0\.\d{3}$", line)
        ]
        assert len(scores) == 3
        assert scores[0] < scores[1] < scores[2]


def test_docstrings_become_text_that_shows_the_same():
    sys.path.insert(0, str(DOCS))
    try:
        from plain_docstrings import converted, escaped
    finally:
        sys.path.remove(str(DOCS))
    assert escaped("|f|^2 of `kernel_` and alpha_") == r"\|f\|^2 of `kernel_` and alpha\_"
    lines = ["A sum:", "", "    f = a * b", "", "Examples", "--------", ">>> a * b", "2"]
    assert converted(lines) == ["A sum:", "", "::", "", "    f = a * b", "", "Examples", "--------", ">>> a * b", "2"]
