"""How the documentation is built: ``make docs``."""

from __future__ import annotations

import inspect
import os
import pkgutil
import sys
from pathlib import Path
from typing import Any

from sphinx.addnodes import desc_signature

HERE = Path(__file__).resolve().parent
# The pages about reproductions import the directory `reproduce`, which is not part of the package.
sys.path[:0] = [str(HERE), str(HERE.parent)]
# Figures are drawn, not shown.
os.environ.setdefault("MPLBACKEND", "Agg")

from generate import api_pages, benchmark_page, reproduction_page  # noqa: E402
from plain_docstrings import as_restructured_text, briefly, with_descriptions, without_false_links  # noqa: E402

from ovk import __version__  # noqa: E402

project = "ovk"
author = "The ovk developers"
copyright = author
version = release = __version__

extensions = [
    "mathml",
    "myst_parser",
    "offline",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5", "gallery/**/*.zip"]
exclude_patterns += ["sg_execution_times.rst", "**/sg_execution_times.rst"]  # of an earlier build
# Headings in pages of their own are linked as page.md#heading.
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# Docstrings are written to be read where they stand; napoleon finds their sections.
default_role = "code"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = f"ovk {release}"
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "text": "ovk", "alt_text": "ovk"},
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False
html_static_path = ["_static"]
html_favicon = "_static/logo.svg"
html_css_files = ["pages.css"]
# Copied code has no prompts and no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# Pages without pages below them have nothing to show in a sidebar, and use the room.
html_sidebars = {
    page: []
    for page in (
        *("install", "quickstart", "coming-from", "contents", "troubleshooting", "glossary", "benchmarks"),
        *(
            "architecture",
            "reliability",
            "versioning",
            "releasing",
            "api/generated/reproductions",
            "api/generated/benchmarks",
        ),
    )
}

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "gallery_order.ByTopic",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    # Its page asks other sites for scripts.
    "write_computation_times": False,
}
# The gallery's configuration holds nothing that should go into a cache; and words of a parameter's description, such
# as "scalar", are not meant as links, whatever else has that name.
suppress_warnings = ["config.cache", "ref.python"]


def skip(app: object, what: str, name: str, thing: object, skipped: bool, options: object) -> bool | None:
    """Show inherited methods, but not what every estimator of scikit-learn and every exception of Python has."""
    defined = getattr(getattr(thing, "fget", thing), "__module__", None) or ""
    foreign = not defined.startswith(("ovk", "reproduce")) and callable(thing)
    return True if foreign and what == "class" and name not in ("score", "fit_transform", "fit_predict") else None


def own_names(app: object, doctree: Any) -> None:
    """Inherited methods are called as in the class that defines them, for viewcode to find their source."""
    for signature in doctree.findall(desc_signature):
        module, name = signature.get("module"), signature.get("fullname", "")
        try:
            thing = pkgutil.resolve_name(f"{module}:{name}")
        except (AttributeError, ImportError, ValueError):
            continue
        thing = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", thing))
        defined = getattr(thing, "__module__", module), getattr(thing, "__qualname__", name)
        if "." in name and defined[1] != name:
            signature["shown"] = module, name
            signature["module"], signature["fullname"] = defined


def shown_names(app: object, doctree: Any) -> None:
    """They are called as on their page again."""
    for signature in doctree.findall(desc_signature):
        if shown := signature.attributes.pop("shown", None):
            signature["module"], signature["fullname"] = shown


def setup(app: object) -> None:
    """Write the pages that come from the code and from results, and read docstrings as plain text."""
    api_pages(HERE / "api" / "generated")
    benchmark_page(HERE / "benchmarks.json", HERE / "api" / "generated" / "benchmarks.md")
    reproduction_page(HERE / "results", HERE / "api" / "generated" / "reproductions.md")
    app.connect("autodoc-process-docstring", briefly, priority=50)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", with_descriptions, priority=100)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", as_restructured_text)  # type: ignore[attr-defined]
    app.connect("doctree-read", without_false_links)  # type: ignore[attr-defined]
    app.connect("doctree-read", own_names, priority=400)  # type: ignore[attr-defined]
    app.connect("doctree-read", shown_names, priority=600)  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", skip)  # type: ignore[attr-defined]
