"""The documentation: every block of code runs, every link inside leads somewhere, every example runs."""

import itertools
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "generated", "gallery"} & set(path.parts))
#: Those with a test of their own, in tests/test_gallery.py.
TESTED = {
    "plot_colorization",
    "plot_networks_of_sites",
    "plot_operator_stream",
    "plot_vector_field",
    "plot_which_outputs_go_together",
}
EXAMPLES = [path for path in sorted((ROOT / "examples").rglob("plot_*.py")) if path.stem not in TESTED]


#: Pages whose code takes more than a third of a second.
SLOW = {
    *("coming-from", "command-line", "curves", "fields", "operators", "prediction-intervals", "quickstart", "resume"),
    *("streams", "time-series"),
}


def pages_with(mark, slow):
    """Pages with blocks of a language; those whose blocks take long run in `make test-long`."""
    return [
        pytest.param(page, id=page.stem, marks=[pytest.mark.long] * (page.stem in slow))
        for page in [*PAGES, ROOT / "README.md"]
        if mark in page.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("page", pages_with("```python\n", SLOW))
def test_code_on_pages_prints_what_is_shown(tools, page):
    from outputs import differences

    if "from river" in page.read_text(encoding="utf-8"):
        pytest.importorskip("river")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    found = [(match[0], printed) for match, printed in differences(page)]
    figures = len(plt.get_fignums())
    plt.close("all")
    assert figures <= len(re.findall(r"(?m)^!\[", page.read_text(encoding="utf-8"))), "a figure that is not shown"
    assert not found, f"python docs/outputs.py {page.stem}"


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if re.search(r"```sh\n[^`]*```\n\n```output\n", page.read_text(encoding="utf-8"))]
)
def test_commands_on_pages_print_what_is_shown(tools, page):
    from outputs import differences

    found = [(match[0], printed) for match, printed in differences(page, shells=True) if match["shell"] is not None]
    assert not found, f"python docs/outputs.py {page.stem}"


def test_what_is_printed_is_compared_with_the_page(tools, tmp_path):
    from outputs import differences, renew

    page = tmp_path / "page.md"
    page.write_text("```python\nprint('R2', 1 / 3)\n```\n\n<!-- python\nassert 1\n-->\n\nNext\n", encoding="utf-8")
    assert len(differences(page)) == 1
    renew(page)
    assert "```\n\n```output\nR2 0.333" in page.read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8").endswith("\n```\n\n<!-- python\nassert 1\n-->\n\nNext\n")
    assert differences(page) == []
    page.write_text(page.read_text(encoding="utf-8").replace("R2 0", "R2 5"), encoding="utf-8")
    assert len(differences(page)) == 1


@pytest.mark.parametrize("name", ["outputs", "plain_docstrings", "offline"])
def test_examples_of_the_tools_hold(tools, name):
    import doctest
    import importlib

    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_assertions_and_temporary_directories_are_not_shown():
    for page in [*PAGES, ROOT / "README.md"]:
        shown = "".join(re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text(encoding="utf-8")))
        assert not re.findall(r"(?m)^ *assert .*|.*tempfile.*|.*os\.devnull.*", shown), page


def test_code_fits_beside_the_sidebars():
    # At 1280 pixels there is room for 75 characters.
    for page in (*PAGES, ROOT / "README.md"):
        found = re.findall(r"(?ms)^```([^\n]*)\n(.*?)^```", page.read_text(encoding="utf-8"))
        code = [block for language, block in found if language != "output"]  # which wraps
        assert [line for block in code for line in block.splitlines() if len(line) > 75] == [], page


def test_links_inside_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            # What Sphinx writes from the docstrings is not there before it has run; it checks those links itself.
            if "://" not in target and "api/generated/" not in target:
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_pages_of_the_guide_lead_to_each_other():
    chapters = re.search(r":hidden:\n\n(.*?)```", (DOCS / "guide" / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    names = chapters[1].split()
    assert sorted(names) == sorted(path.stem for path in (DOCS / "guide").glob("*.md") if path.stem != "index")
    for name, following in itertools.pairwise(names):
        last = (DOCS / "guide" / f"{name}.md").read_text(encoding="utf-8").splitlines()[-1]
        assert last.startswith("Next: "), name
        assert f"({following}.md)" in last, name


def test_how_to_pages_name_a_next_step():
    for page in (DOCS / "howto").glob("*.md"):
        assert page.stem == "index" or page.read_text(encoding="utf-8").splitlines()[-1].startswith("Next: "), page


def test_pages_of_the_guide_and_of_methods_have_a_picture():
    for page in PAGES:
        if page.parent.name in ("guide", "systems") and page.stem not in ("index", "audit"):
            assert re.search(r"(?m)^!\[[^\]]+\]\(\.\./images/", page.read_text(encoding="utf-8")), page


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_gallery_examples_run(example, tmp_path, monkeypatch, capsys):
    from matplotlib import pyplot as plt

    if example.stem == "plot_river_pipeline":
        pytest.importorskip("river")
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


def test_the_gallery_has_twenty_examples():
    assert len(EXAMPLES) + len(TESTED) >= 20


def test_every_example_has_its_place_in_a_section_of_the_gallery(tools):
    from gallery_order import ORDER

    examples = sorted((ROOT / "examples").rglob("plot_*.py"))
    assert sorted(ORDER) == sorted(path.stem.removeprefix("plot_") for path in examples)
    for path in examples:
        assert path.parent.parent == ROOT / "examples"
        assert (path.parent / "GALLERY_HEADER.rst").exists()
        text = path.read_text(encoding="utf-8")
        for page in re.findall(r":doc:`/([\w/-]+)`", text):
            assert (DOCS / f"{page}.md").exists(), page


def test_the_readme_quotes_the_pages():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    tables, streams = (
        (DOCS / "guide" / f"{name}.md").read_text(encoding="utf-8") for name in ("no-arguments", "streams")
    )
    ours, tuned, trees = (
        [
            float(error)
            for error in re.search(rf"^\| `{start}[^|]*\| (\.\d+) \| (\.\d+) \|", tables, re.MULTILINE).groups()
        ]
        for start in (r"OVKRidgeCV\(\)`", "KernelRidge`", r"ExtraTreesRegressor\(\)`")
    )
    assert f"{1 - ours[0] / tuned[0]:.0%} less error than `KernelRidge`" in readme
    assert f"and {1 - ours[0] / trees[0]:.0%} less than `ExtraTreesRegressor`" in readme
    new = re.search(r"on (\d+) data sets not used in development", tables)[1]
    less = f"{1 - ours[1] / tuned[1]:.0%} and {1 - ours[1] / trees[1]:.0%} less"
    assert f"on the {new} tables that were not used in development, {less}" in readme
    coverage = re.search(r"90% intervals contained (between \d+% and \d+%) of the outcomes", tables)[1]
    assert coverage in readme
    speeds = re.search(r"^\| rows a second, median \|(.*)\|$", streams, re.MULTILINE)[1].split("|")
    assert f"learns {speeds[0].strip()} rows per second" in readme
    rows = re.findall(r"^\| ([\w ()-]+) \| (\*\*)?[\d.]+(?:\*\*)? \|", streams.partition("mean rank")[0], re.MULTILINE)
    assert all(best for _, best in rows), "ours is the best in every row"
    assert f"all {len(rows)} streams" in readme
    new = sum("(new)" in name for name, _ in rows)
    assert f"{new} of which were not used in development" in readme
    front, benchmarks = (
        " ".join((DOCS / f"{name}.md").read_text(encoding="utf-8").split()) for name in ("index", "benchmarks")
    )
    assert f"on {len(rows)} streams" in front
    assert f"on {len(rows)} streams" in benchmarks
    assert f"including the {new} that were not used in development" in front
    ours, forest, linear = (speeds[place].strip() for place in (0, 1, 5))
    assert f"{ours} rows per second, between river's forests ({forest}) and its linear models ({linear})" in front
    assert f"linear models learn {linear} " in readme


@pytest.fixture
def tools(monkeypatch):
    """What the documentation is built with can be imported."""
    monkeypatch.syspath_prepend(str(DOCS))


def test_docstrings_become_text_that_shows_the_same(tools):
    from plain_docstrings import converted, escaped

    assert escaped("|f|^2 of `kernel_` and alpha_") == r"\|f\|^2 of `kernel_` and alpha\_"
    lines = ["A sum:", "", "    f = a * b", "", "Examples", "--------", ">>> a * b", "2"]
    assert converted(lines) == ["A sum:", "", "::", "", "    f = a * b", "", "Examples", "--------", ">>> a * b", "2"]


def test_the_reference_says_what_each_package_is_for(tools, tmp_path):
    from generate import PACKAGES, api_pages

    api_pages(tmp_path)
    text = (tmp_path / "index.rst").read_text(encoding="utf-8")
    for package, title in PACKAGES.items():
        page = package.replace(".", "-")
        if (tmp_path / f"{page}.rst").exists():
            assert re.search(rf"\* - :doc:`{title} <{page}>`\n     - ``{package}``\n     - \w", text), package


def test_what_a_browser_would_fetch_is_found(tools):
    from offline import fetched

    harmless = '<a href="https://a.org">a</a><script src="_static/x.js"></script><link rel="stylesheet" href="y.css">'
    assert fetched(harmless) == []
    assert fetched('<script defer\nsrc="https://b.org/x.js"></script>') == ["https://b.org/x.js"]
    assert fetched('<link href="//c.org/y.css" rel="stylesheet" />') == ["//c.org/y.css"]
    assert fetched("@import url('https://d.org/z.css'); a {background: url(https://e.org/f.woff2)}") == [
        "https://d.org/z.css",
        "https://e.org/f.woff2",
    ]
    assert fetched('<img alt="a" src="https://f.org/g.png">') == ["https://f.org/g.png"]


def test_formulas_can_be_converted(tools):
    pytest.importorskip("docutils", minversion="0.21", reason="docutils comes with the group docs")
    from mathml import converted

    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for block, line in re.findall(r"\$\$(.*?)\$\$|\$([^$]+)\$", text, flags=re.DOTALL):
            assert converted(block or line, block=bool(block)).startswith("<math"), page


def test_the_page_of_reproductions_quotes_what_was_measured(tools, tmp_path):
    import json

    from generate import reproduction_page
    from headlines import HEADLINES

    page = tmp_path / "page.md"
    reproduction_page(DOCS / "results", page)
    text = page.read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    assert "`norma`" in sections["As published, or better"]
    assert "`dream3`" in sections["Not matched"]
    for name, headline in HEADLINES.items():
        if headline.outcome in ("matched", "missed") and headline.numbers:
            rows = json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
            assert any(row["published"] is not None for row in rows), name
    for path in (DOCS / "results").glob("*.json"):
        rows = {row["name"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}
        for label, name in HEADLINES[path.stem].numbers.items():
            [line] = [line for line in text.splitlines() if f"| {label} |" in line and line.count("|") == 6]
            for number in (rows[name]["published"], rows[name]["ours"]):
                assert number is None or f"| {number:.4g} |" in line


def test_numbers_on_pages_are_those_of_the_results(tools):
    from quotes import QUOTATION, renewed

    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert renewed(text) == text, f"{page}: python docs/quotes.py puts the numbers of docs/results on the pages"
        given = re.search(r"(?sm)^## Results of the reproductions\n(.*?)(?=^## |^```|\Z)", text)
        if given:
            assert not re.findall(r"\d*\.\d+", QUOTATION.sub("", given[1])), f"{page}: a number that is no quotation"


def test_a_quotation_follows_its_result(tools, tmp_path):
    import json

    from quotes import renewed

    rows = [{"name": "one, two", "ours": 0.1234, "published": -3.0}]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    page = "From .2<!-- r: one, two --> to 1.00<!-- published, r: one,\ntwo -->."
    assert renewed(page, tmp_path) == "From .1<!-- r: one, two --> to -3.00<!-- published, r: one,\ntwo -->."
    with pytest.raises(ValueError, match=r"no number of this name in r\.json: three"):
        renewed("1.0<!-- r: three -->", tmp_path)
    case = {"name": "c", "contenders": [{"name": "other", "ours_over_this": 0.456}]}
    report = {"benchmarks": [{"name": "b", "cases": [case]}]}
    (tmp_path / "benchmarks.json").write_text(json.dumps(report), encoding="utf-8")
    (tmp_path / "results").mkdir()
    ratio = "0.11<!-- benchmarks: b / c / other -->"
    assert renewed(ratio, tmp_path / "results") == ratio.replace("0.11", "0.46")


def test_the_audit_is_current(tools):
    """What the page states of every statement is seen again; the names exist, and so do the tests."""
    import importlib

    from audit import STATEMENTS

    text = (DOCS / "systems" / "audit.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(lines) == len(STATEMENTS), "python docs/audit.py writes the page"
    for line, one in zip(lines, STATEMENTS, strict=True):
        *cells, stated = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert cells == [one.seed, one.says, f"`{one.where}`", f"`tests/{one.test}`"]
        most = 0.0 if one.bound else float(stated.removeprefix("below "))
        assert one.difference() <= most <= 1e-4, one.says
        assert not one.bound or stated == "holds"
        module, name = one.where.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), name)
        path, test = one.test.split("::")
        assert f"def {test}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")


def test_the_page_of_benchmarks_shows_every_target(tools, tmp_path):
    import json

    from generate import benchmark_page

    case = {"name": "c", "settings": {"n": 5}, "scores": {"mse": [0.5, 1.0]}, "contenders": [], "checks": []}
    row = {"name": "ours", "seconds": 1.0, "cpu_seconds": 1.0, "ours_over_this": 1.0, "peak_mib": None}
    case["contenders"] = [row]
    case["checks"] = [{"target": "fast", "value": 2.0, "bound": 1.0, "at_least": False, "met": False}]
    report = {
        "machine": {"cpu": "one", "cores": 1, "load_average": [0.0]},
        "benchmarks": [{"name": "b", "skipped": None, "cases": [case]}],
    }
    (tmp_path / "r.json").write_text(json.dumps(report), encoding="utf-8")
    benchmark_page(tmp_path / "r.json", tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "- fast: 2, at most 1: missed" in text
    assert "- mse: 0.5, 1" in text


@pytest.mark.long
def test_a_page_that_is_wider_than_its_window_is_found(tools, tmp_path):
    import widths

    if widths.BROWSER is None:
        pytest.skip("needs a browser: install chromium")
    (tmp_path / "fits.html").write_text("<!doctype html><p>A line that wraps.</p>", encoding="utf-8")
    (tmp_path / "wide.html").write_text("<!doctype html><div style='width: 700px'>wide</div>", encoding="utf-8")
    inside = "<div class='box' style='overflow-x: auto'><dl style='width: 700px'>cut off</dl></div>"
    (tmp_path / "cut.html").write_text(f"<!doctype html>{inside}", encoding="utf-8")
    (tmp_path / "table.html").write_text(
        f"<!doctype html>{inside.replace('box', 'table-responsive')}", encoding="utf-8"
    )
    cut, wide = widths.too_wide(tmp_path)
    assert wide.startswith("wide.html: 7")
    assert wide.endswith("in a window of 390")
    assert cut.startswith("cut.html: div.box: 700 pixels in 3")
    assert "because of dl. cut off in a window of 390" in cut


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "systems").glob("*.md")), ids=lambda page: page.stem)
def test_names_on_the_pages_of_systems_exist(page):
    for name in set(re.findall(r"`(ovk(?:\.[A-Za-z_]\w*)+)`", page.read_text(encoding="utf-8"))):
        found = pkgutil.resolve_name(name)
        assert found is not None, name
