"""The site: every public name is in its reference, every page in its tree, every docstring's example runs, and what pages claim is what tables say."""

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys

import pytest

import taskloss as tl

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
check_site = importlib.import_module("check_site")
pytest.importorskip("torch")
site_pages = importlib.import_module("site_pages")


# -- the reference -----------------------------------------------------------------------------------------------------


def modules():
    """Every module of the package that says what it offers, private ones aside."""
    found = [tl]
    for info in pkgutil.iter_modules(tl.__path__):
        if not info.name.startswith("_"):
            found.append(importlib.import_module(f"taskloss.{info.name}"))
    return [module for module in found if hasattr(module, "__all__")]


def test_the_reference_has_every_public_name():
    listed = [value for members in site_pages.reference().values() for _, value in members]
    missing = []
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value) and not any(value is other for other in listed):
                missing.append(f"{module.__name__}.{name}")
    assert not missing
    assert len(listed) > 190


def test_what_is_listed_is_written(tmp_path):
    site_pages.write_reference(tmp_path)
    front = (tmp_path / "index.rst").read_text()
    for module, members in site_pages.reference().items():
        page = (tmp_path / f"{module}.rst").read_text()
        assert f":doc:`{module} <{module}>`" in front
        assert re.findall(r"^   (\w+)$", page.split(":nosignatures:")[1], re.M) == [name for name, _ in members]
        for name, value in members:
            if inspect.isclass(value) or inspect.isfunction(value):
                assert inspect.getdoc(value), f"{module}.{name} has no docstring"


def test_the_page_of_pictures_has_each_of_them():
    page = (DOCS / "pictures.md").read_text(encoding="utf-8")
    assert [name for name in tl.plots.__all__ if not re.search(rf"\b{name}\b", page)] == []


def test_formulas_in_docstrings_survive():
    """Plain-text formulas mean themselves, and sections are read as numpydoc has them."""
    clean = site_pages.clean
    assert clean(["The norm |theta|^2 of coef_ * 2, not `coef_`."]) == [
        r"The norm \|theta\|^2 of coef\_ \* 2, not `coef_`."
    ]
    assert clean(["A loss.", "", "    L = |z - y|", "", "More."]) == [
        "A loss.",
        "",
        "::",
        "",
        "    L = |z - y|",
        "",
        "More.",
    ]
    given = ["Fits.", "", "Parameters", "----------", "X : array", "    Inputs.", "alpha, tol : as elsewhere", "y : "]
    assert clean(given[:6])[4:] == ["X : array", "    Inputs."]
    assert clean(given[:7])[6:] == ["alpha, tol", "    as elsewhere"]
    code = ["Examples", "--------", ">>> model.coef_ * 2", "|1|"]
    assert clean(code) == code


# -- pages -------------------------------------------------------------------------------------------------------------


def test_every_page_has_a_place_and_every_place_a_page():
    named = site_pages.pages_in_toctrees()
    made = {"api/index", "auto_examples/index", "tables/index"}
    pages = {page.stem for page in DOCS.glob("*.md")}
    assert not named - pages - made
    further = set(site_pages.further_pages())
    assert pages - {"index"} == (named - made) | further
    assert (DOCS / "guide.md").read_text().count(site_pages.FURTHER) == 1


def test_a_new_page_finds_its_place(tmp_path):
    (tmp_path / "index.md").write_text("# Home\n\n```{toctree}\n:hidden:\n\nguide\nWords <other>\n```\n")
    for name in ("guide", "other", "new"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    assert site_pages.further_pages(tmp_path) == ["new"]


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a> <a href="b.html#gone">x</a> <a href="c.html">x</a> <a href="https://example.org">x</a>'
        '<img src="no.png"><script src="https://example.org/x.js"></script><a href="#top">x</a><p id="top">'
    )
    (tmp_path / "b.html").write_text('<p id="here">')
    found = check_site.problems(tmp_path)
    assert [sentence.split(": ", 1)[1] for sentence in found] == [
        "b.html#gone leads to no place on its page.",
        "c.html leads to no file.",
        "no.png leads to no file.",
        "https://example.org/x.js is loaded from elsewhere.",
    ]


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)]+)\)", text):
        path = link.partition("#")[0]
        assert (ROOT / path).exists(), link


# -- examples of docstrings ----------------------------------------------------------------------------------------------

WITH_EXAMPLES = [
    file
    for file in sorted((ROOT / "src" / "taskloss").rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
    and file.parent.name not in ("theory", "torch")  # their tests run them
]


@pytest.mark.parametrize("file", WITH_EXAMPLES, ids=lambda file: file.stem)
def test_examples_of_docstrings_run(file, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib.pyplot").switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed


# -- claims --------------------------------------------------------------------------------------------------------------


def test_one_version():
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == tl.__version__
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == tl.__version__
    assert "0.1.0" not in (ROOT / "pyproject.toml").read_text()


def test_the_linters_are_the_same_before_a_commit_and_in_ci():
    hooks, make = (ROOT / ".pre-commit-config.yaml").read_text(), (ROOT / "Makefile").read_text()
    lint = make.split("\nlint:")[1].split("\n\n")[0]
    for tool in ("ruff check", "ruff format", "mypy"):
        assert tool in hooks
        assert tool in lint
    for target in ("pythons", "test", "demo", "docs"):
        assert f"make {target}\n" in (ROOT / ".ci" / "run").read_text()
        assert f"\n{target}:" in make


def quality_rows():
    text = (ROOT / "benchmarks" / "results" / "quality.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if "±" in line]
    return re.search(r"In all: (.+)\.", text)[1], [row for row in rows if len(row) == 8]


def test_the_quality_that_pages_claim_is_the_tables():
    total, rows = quality_rows()
    assert total.split(", ") == [
        f"{sum(row[-1] == one for row in rows)} {name}"
        for one, name in (("win", "wins"), ("tie", "ties"), ("loss", "losses"))
    ]
    for page in (DOCS / "benchmarks.md", ROOT / "README.md"):
        assert total in page.read_text(encoding="utf-8"), page.name


PEERS = {
    ("costs 5:1", "LogisticRegression, argmax"): ("LogisticRegression,", "accuracy"),
    ("costs 5:1", "LogisticRegression(class_weight)"): ("LogisticRegression(class_weight)", "task loss"),
    ("absolute error", "LogisticRegression, argmax"): ("LogisticRegression,", "accuracy"),
    ("absolute error", "mord's LogisticAT, chosen by the task loss"): ("mord", "task loss"),
    ("absolute error", "statsmodels' ordered logit"): ("statsmodels", "likelihood"),
    ("tree distance", "LogisticRegression, argmax"): ("LogisticRegression,", "accuracy"),
    ("Hamming", "OneVsRest, chosen by right sets"): ("OneVsRest", "subset accuracy"),
    ("Hamming", "OneVsRest, chosen by Hamming loss"): ("OneVsRest", "task loss"),
    ("0-1", "LogisticRegression"): ("LogisticRegression,", "task loss"),
}


def test_the_decision_page_quotes_the_table_of_quality():
    page = (DOCS / "choosing.md").read_text(encoding="utf-8")
    _, rows = quality_rows()
    for (loss, peer), (name, chosen) in PEERS.items():
        line = re.search(
            rf"^\| {re.escape(loss)} \| {re.escape(peer)} \| (\d+) \| (\d+) / (\d+) / (\d+) \| (.+) \|$", page, re.M
        )
        which = {"absolute error": "MAE"}.get(loss, loss)
        mine = [row for row in rows if row[1] == which and row[4].startswith(name) and row[4].endswith(chosen)]
        counts = [sum(row[-1] == one for row in mine) for one in ("win", "tie", "loss")]
        assert [int(line[1]), *map(int, line.groups()[1:4])] == [len(mine), *counts], (loss, peer)
        saved = sorted(100 * (1 - float(row[3].split()[0]) / float(row[5].split()[0])) for row in mine)
        quoted = [float(number) for number in re.findall(r"-?\d+", line[5])]
        assert min(quoted) == pytest.approx(saved[0], abs=0.6), (loss, peer)
        assert max(quoted) == pytest.approx(saved[-1], abs=0.6), (loss, peer)
