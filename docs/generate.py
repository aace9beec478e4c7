"""Pages that are not written by hand: the reference, the last benchmarks, the reproductions."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

from headlines import HEADLINES, OUTCOMES, Headline
from plain_docstrings import escaped

#: Packages in the order of the reference.
PACKAGES = {
    "ovk": "Estimators",
    "ovk.batch": "Batch learning",
    "ovk.curves": "Curves",
    "ovk.kernels": "Scalar kernels",
    "ovk.operators": "Output operators",
    "ovk.ovkernels": "Operator-valued kernels",
    "ovk.objectives": "Losses, penalties, step sizes, measures",
    "ovk.solvers": "Solvers",
    "ovk.features": "Finite features",
    "ovk.online": "Online learning",
    "ovk.online.theory": "Theory of online learning",
    "ovk.structured": "Structured outputs",
    "ovk.app.tables": "Streams",
    "ovk.evaluation": "Evaluation",
    "ovk.persistence": "Saving and loading",
    "ovk.app.sessions": "Sessions",
    "ovk.app.parallel": "Distributed training",
    "ovk.app.serve": "Deployment",
    "ovk.app.serve.mlflow": "MLflow",
    "ovk.app.report": "Reports",
    "ovk.datasets": "Data sets",
    "ovk.plotting": "Plots",
    "reproduce": "Reproductions",
    "reproduce.data": "Data of the reproductions",
    "ovk.app.cli": "The command line",
}


def _write(path: Path, text: str) -> None:
    """Leave a file alone that would not change, so that Sphinx does not read it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def names(package: str) -> list[str]:
    """Public names of a package that have a description of their own."""
    module = importlib.import_module(package)
    listed = getattr(module, "__all__", None) or [
        name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == package and name[0] != "_"
    ]
    things = {name: getattr(module, name) for name in listed}
    return [name for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)]


def _first_line(thing: object) -> str:
    """The first sentence of a docstring, for a table."""
    return (inspect.getdoc(thing) or "").strip().partition("\n")[0]


def api_pages(directory: Path) -> None:
    """A page for each package, and one for each of its names; what the top level offers is described there alone."""
    top = {id(getattr(importlib.import_module("ovk"), name)) for name in names("ovk")}
    pages = {}
    for package, title in PACKAGES.items():
        try:
            module = importlib.import_module(package)
        except ModuleNotFoundError:
            continue
        page = package.replace(".", "-")
        pages[page] = package
        lines = [title, "=" * len(title), ""]
        if package != "ovk":
            lines += [f".. automodule:: {package}", "   :no-members:", ""]
        things = {name: getattr(module, name) for name in names(package)}
        own = {name: thing for name, thing in things.items() if package == "ovk" or id(thing) not in top}
        if own:
            lines += [".. list-table::", "   :widths: 30 70", ""]
        for name, thing in own.items():
            lines += [f"   * - :doc:`{name} <{page}/{name}>`", f"     - {escaped(_first_line(thing))}"]
            _write(directory / page / f"{name}.rst", _api_page(package, name, thing))
        if own:
            lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {page}/{name}" for name in own)]
        _write(directory / f"{page}.rst", "\n".join([*lines, ""]))
    listing = ["Reference", "=========", ""]
    listing += ["Every public name, by package; `ovk` has those that most programs need.", ""]
    listing += [".. list-table::", "   :widths: 25 20 55", ""]
    for page, package in pages.items():
        first = escaped(_first_line(importlib.import_module(package)))
        listing += [f"   * - :doc:`{PACKAGES[package]} <{page}>`", f"     - ``{package}``", f"     - {first}"]
    listing += ["", ".. toctree::", "   :hidden:", ""]
    _write(directory / "index.rst", "\n".join([*listing, *(f"   {page}" for page in pages), ""]))


def _kept_out(cls: type) -> set[str]:
    """Inherited names that a page leaves out: attributes of the machinery, and what only saving a model calls."""
    hidden = {"state", "load_state", "from_state", "set_params", "replace"}
    for base in cls.__mro__[1:]:
        found = {**inspect.get_annotations(base), **base.__dict__}
        hidden |= {name for name in found if name.endswith("_") and not isinstance(found[name], property)}
    return hidden - {name for name in cls.__dict__ if name not in ("state", "load_state")}


def _api_page(package: str, name: str, thing: object) -> str:
    """The page of one class or function."""
    kind = "autoclass" if inspect.isclass(thing) else "autofunction"
    lines = [name, "=" * len(name), "", f".. py:currentmodule:: {package}", "", f".. {kind}:: {package}.{name}"]
    if inspect.isclass(thing) and not issubclass(thing, tuple):
        lines += ["   :members:", "   :inherited-members:"]
        lines += [f"   :exclude-members: {', '.join(sorted(_kept_out(thing)))}"]
    return "\n".join([*lines, ""])


def benchmark_page(results: Path, page: Path) -> None:
    """The last ``make bench``, as tables."""
    lines = ["# All figures of the benchmarks", ""]
    lines += ["What `python -m benchmarks` wrote. Competitors run interleaved; a ratio is within one run.", ""]
    if not results.exists():
        lines += [
            "This build has no figures: `python -m benchmarks --output docs/benchmarks.json`, then `make docs` again.",
            "",
        ]
        _write(page, "\n".join(lines))
        return
    report = json.loads(results.read_text(encoding="utf-8"))
    machine = report["machine"]
    lines += [f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_average'][0]:.1f}.", ""]
    for benchmark in report["benchmarks"]:
        lines += [f"## {benchmark['name']}", ""]
        if benchmark["skipped"] is not None:
            lines += [f"Skipped: {benchmark['skipped']}", ""]
        for case in benchmark["cases"]:
            given = ", ".join(f"{key} = {value}" for key, value in case["settings"].items())
            lines += [
                f"### {case['name']}",
                "",
                given,
                "",
                "| | seconds | processor seconds | ours over this | peak memory, MiB |",
            ]
            lines += ["|---|---:|---:|---:|---:|"]
            for row in case["contenders"]:
                numbers = f"{row['seconds']:.4f} | {row['cpu_seconds']:.4f} | {row['ours_over_this']:.2f}"
                lines += [f"| {row['name']} | {numbers} | {_number(row['peak_mib'])} |"]
            lines += ["", *(f"- {name}: {_plain(value)}" for name, value in case["scores"].items()), ""]
            for check in case["checks"]:
                sense, verdict = "at least" if check["at_least"] else "at most", "met" if check["met"] else "missed"
                lines += [f"- {check['target']}: {check['value']:.3g}, {sense} {check['bound']:.3g}: {verdict}"]
            lines += [""]
    _write(page, "\n".join(lines))


def _plain(value: Any) -> str:
    """A score: a number, or several."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def reproduction_page(results: Path, page: Path) -> None:
    """What was published and what we get, from the JSON files in ``docs/results``."""
    import reproduce

    if strangers := set(reproduce.names()) ^ set(HEADLINES):
        raise ValueError(f"headlines.py and the reproductions differ: {', '.join(sorted(strangers))}")
    found = {
        name: json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        for name in HEADLINES
        if (results / f"{name}.json").exists()
    }
    lines = ["---", "html_theme.sidebar_secondary.remove: true", "---", ""]
    lines += [
        "# Reproductions",
        "",
        f"Published results that we ran again, each with `python -m reproduce NAME`. {_counts(found)} A dash means "
        "that the paper gives no such number, or that there is nothing of ours to compare with it. Times were measured "
        "on one busy machine. `python -m reproduce all --out docs/results` followed by `make docs` renews the page. "
        "After the tables, every result follows in full.",
        "",
    ]
    for outcome, (title, meaning) in OUTCOMES.items():
        lines += [f"## {title}", "", meaning, ""]
        lines += ["| paper, command and data | what | published | ours | difference |", "|---|---|---:|---:|---|"]
        for name in found:
            if HEADLINES[name].outcome == outcome:
                lines += _glance(name, reproduce.entry(name).paper, HEADLINES[name], found[name])
        lines += [""]
    if others := [name for name in HEADLINES if name not in found]:
        lines += ["## Not run for this page", "", "| paper and command | difference |", "|---|---|"]
        lines += [f"| {reproduce.entry(name).paper}, `{name}` | {HEADLINES[name].verdict} |" for name in others]
        lines += [""]
    for name, result in found.items():
        lines += [f"## {result['title']}", "", f"`python -m reproduce {name}` ({result['seconds']:.0f} s)", ""]
        lines += [f"{result['measure']}. Data: {result['data']}.", "", "| | published | ours | setting |"]
        lines += ["|---|---:|---:|---|"]
        for row in result["rows"]:
            lines += [f"| {row['name']} | {_number(row['published'])} | {_number(row['ours'])} | {row['setting']} |"]
        lines += ["", *(f"- {remark}" for remark in result["remarks"]), ""]
    _write(page, "\n".join(lines))


def _counts(found: dict[str, Any]) -> str:
    """How many came out as published, how many did not, and where to read about it."""
    matched, partly, missed, others = (
        sum(HEADLINES[name].outcome == outcome for name in found)
        for outcome in ("matched", "partly", "missed", "no number")
    )
    return (
        f"Of {len(found)} experiments, {matched} came out [as published, or better](#as-published-or-better), {partly} "
        f"[partly](#partly-as-published), and {missed} were [not matched](#not-matched). For the other {others} "
        "there is [no published number](#no-published-number) to compare with."
    )


def _glance(name: str, paper: str, headline: Headline, result: Any) -> list[str]:
    """The lines of one reproduction in the table of all."""
    first = f"[{paper}](../../systems/{headline.system}.md), `{name}`: {result['data']}"
    if not headline.numbers:
        return [f"| {first} | {result['title']} | | | {headline.verdict} |"]
    rows = {row["name"]: row for row in result["rows"]}
    lines = []
    for k, (label, row) in enumerate(headline.numbers.items()):
        numbers = f"{label} | {_number(rows[row]['published'])} | {_number(rows[row]['ours'])}"
        lines += [f"| {first} | {numbers} | {headline.verdict} |" if k == 0 else f"| | {numbers} | |"]
    return lines


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
