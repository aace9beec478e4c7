"""The library and its pages use the terms of the glossary, and none of the synonyms that it lists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
#: Pages that use the terms of others: the glossary itself, and the page for users of other libraries.
EXEMPT = {GLOSSARY, ROOT / "docs" / "coming-from.md"}


def rows():
    """Term, meaning and synonyms of each row of the table of terms."""
    table = GLOSSARY.read_text().split("## Terms")[1]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "term":
            term, meaning, synonyms = cells
            yield term, meaning, [one.strip() for one in synonyms.split(",") if one.strip()]


def plain(text):
    """Lower-case words: names in snake_case and CamelCase are split, hyphens are spaces."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\s_-]+", " ", split).lower()


TEXTS = {
    path.relative_to(ROOT): plain(path.read_text())
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    if path not in EXEMPT
}


def test_every_term_is_defined_once():
    terms = [term for term, _, _ in rows()]
    assert len(terms) >= 40
    assert len(set(terms)) == len(terms)
    assert all(meaning for _, meaning, _ in rows())


@pytest.mark.parametrize(("term", "synonym"), [(term, one) for term, _, synonyms in rows() for one in synonyms])
def test_synonyms_are_not_used(term, synonym):
    pattern = re.compile(rf"\b{re.escape(plain(synonym))}s?\b")
    found = [f"{path}: ...{text[max(at.start() - 40, 0) : at.end() + 40]}..." for path, text in TEXTS.items()
             for at in pattern.finditer(text)]  # fmt: skip
    assert not found, f"write {term!r} instead of {synonym!r}:\n" + "\n".join(found)


def test_a_synonym_in_a_name_is_found():
    assert "hyper parameter" in plain("HyperParameter") == plain("hyper_parameter")
