"""Pages that are made from what there is: the reference of every public name, the tables of benchmarks, and toctrees of pages that no other has.

Each is generated when a build begins, so that a new name, table or page is on the site without a change here.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import taskloss

HERE = Path(__file__).parents[1]
RESULTS = HERE.parent / "benchmarks" / "results"
FURTHER = "<!-- pages that no toctree names -->"


# -- the reference -----------------------------------------------------------------------------------------------------


def public_modules() -> list[Any]:
    """The package, the modules that it exports, then those below it that say what they offer."""
    names = [name for name in taskloss.__all__ if inspect.ismodule(getattr(taskloss, name))]
    more = [info.name for info in pkgutil.iter_modules(taskloss.__path__) if not info.name.startswith("_")]
    modules = [taskloss] + [importlib.import_module(f"taskloss.{name}") for name in [*names, "torch", "testing", *more]]
    return [module for module in dict.fromkeys(modules) if hasattr(module, "__all__")]


def reference() -> dict[str, list[tuple[str, Any]]]:
    """Module by module, the names in its `__all__` that no earlier module has, with what they are."""
    seen: list[Any] = []
    found: dict[str, list[tuple[str, Any]]] = {}
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value) and not any(value is other for other in seen):
                seen.append(value)
                found.setdefault(module.__name__, []).append((name, value))
    return found


def _first_line(module: Any) -> str:
    return (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")


def write_reference(target: Path) -> list[str]:
    """api/index.rst and a page for each module, of which autosummary makes one for each name; returns the pages of modules."""
    target.mkdir(exist_ok=True)
    found = reference()
    outside = {*taskloss.__all__, "torch", "testing"}
    inner = [name for name in found if "." in name and name.split(".")[1] not in outside]
    front = [
        "API reference",
        "=============",
        "",
        "Every public name, from the docstrings. `import taskloss as tl` first.",
        "",
    ]
    for title, names in (
        ("What users import", [n for n in found if n not in inner]),
        ("What extensions build on", inner),
    ):
        front += [title, "-" * len(title), "", ".. list-table::", "   :widths: 30 70", ""]
        for name in names:
            doc = escape(_first_line(importlib.import_module(name)))
            front += [f"   * - :doc:`{name} <{name}>`", f"     - {doc}"]
        front += ["", ".. toctree::", "   :hidden:", "", *[f"   {name}" for name in names], ""]
    _write(target / "index.rst", "\n".join(front))
    for name, members in found.items():
        module = importlib.import_module(name)
        page = [name, "=" * len(name), "", *clean(inspect.cleandoc(module.__doc__ or "").splitlines()), ""]
        page += [f".. currentmodule:: {name}", ""]
        page += [
            ".. autosummary::",
            "   :toctree: generated",
            "   :nosignatures:",
            "",
            *[f"   {n}" for n, _ in members],
            "",
        ]
        _write(target / f"{name}.rst", "\n".join(page))
    for old in set(target.glob("taskloss*.rst")) - {target / f"{name}.rst" for name in found}:
        old.unlink()
    return [str(target / f"{name}.rst") for name in found]


# -- docstrings ----------------------------------------------------------------------------------------------------------

_SPANS = re.compile(r"(``.+?``|:[\w:]+:`[^`]+`|`[^`]+`)")
_NAMES = re.compile(r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)(?: : (.*))?$")
_NAMED = {"Parameters", "Other Parameters", "Attributes", "Yields"}
_WRAPPED = 88  # a line at least so long goes on in the next


def escape(line: str) -> str:
    """Formulas in plain text, such as |theta|^2, coef_ and x*y, kept from being read as reStructuredText."""
    parts = _SPANS.split(line)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<!\\)([*|])", r"\\\1", parts[i])
        parts[i] = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", parts[i])
    return "".join(parts)


def _entry(line: str, going_on: bool) -> list[str]:
    """A parameter: its name, and what stands behind it as a type where it is short, else as the first line of its description."""
    found = _NAMES.match(line)
    if found is None:
        return [escape(line)]
    names, text = found.groups()
    *others, last = names.split(", ")
    head = ", ".join([*map(escape, others), last])  # numpydoc escapes the last itself
    if not text:
        return [head]
    short = going_on and len(line) < _WRAPPED
    return [f"{head} : {escape(text)}"] if short else [head, f"    {escape(text)}"]


def clean(lines: list[str]) -> list[str]:
    """A docstring as numpydoc and reStructuredText read it: entries in sections, formulas and code literal, the rest escaped."""
    out: list[str] = []
    section, literal = "", False
    for i, line in enumerate(lines):
        after = lines[i + 1] if i + 1 < len(lines) else ""
        before = lines[i - 1] if i else ""
        indented, blank = line.startswith("    "), not line.strip()
        if re.match(r"-{3,}$", after) and not blank:
            section = line.strip()
        prompt = line.lstrip().startswith(">>>")
        if literal and not blank and not indented and not prompt:
            literal = section == "Examples" and bool(before.strip())  # output of code
        if prompt:
            literal = True
        elif not section and indented and not before.strip() and not literal and any(one.strip() for one in out):
            out += ["::", ""]
            literal = True
        if blank or literal or re.match(r"-{3,}$", line) or line.startswith((".. ", ":")):
            out.append(line)
        elif line.rstrip().endswith("::"):
            out.append(escape(line))
            literal = True
        elif section in _NAMED and not indented and not re.match(r"-{3,}$", after):
            out += _entry(line, going_on=after.startswith("    "))
        else:
            out.append(escape(line))
    return out


def clean_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = clean(lines)


def skip_borrowed(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """What classes take from scikit-learn and torch is documented there."""
    borrowed = not (getattr(obj, "__module__", None) or "taskloss").startswith("taskloss")
    return True if borrowed or re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


# -- pages from elsewhere --------------------------------------------------------------------------------------------------


def write_results(target: Path) -> None:
    """The tables of benchmarks as pages, with an index of their titles."""
    target.mkdir(exist_ok=True)
    pages = sorted(RESULTS.glob("*.md"))
    for file in pages:
        _write(target / file.name, file.read_text(encoding="utf-8"))
    for picture in RESULTS.glob("*.png"):
        (target / picture.name).write_bytes(picture.read_bytes())
    for old in set(target.glob("*.md")) - {target / file.name for file in pages} - {target / "index.md"}:
        old.unlink()
    names = "\n".join(file.stem for file in pages)
    _write(
        target / "index.md",
        f"# Tables\n\nEvery table that `make bench` writes, as it was last written.\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n",
    )


def _write(path: Path, text: str) -> None:
    """Only where it differs, so that an unchanged page is not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def pages_in_toctrees(docs: Path = HERE) -> set[str]:
    """The pages that hand-written toctrees name."""
    found: set[str] = set()
    for page in docs.glob("*.md"):
        for block in re.findall(r"^[:`]{3,}\{toctree\}(.*?)^[:`]{3,}", page.read_text(encoding="utf-8"), re.S | re.M):
            names = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            found |= {re.sub(r".*<(.*)>", r"\1", name) for name in names}
    return found


def further_pages(docs: Path = HERE) -> list[str]:
    """Pages that exist and that no toctree names; the guide lists them at its end."""
    return sorted({page.stem for page in docs.glob("*.md")} - pages_in_toctrees(docs) - {"index"})


def adapt(app: Any, docname: str, source: list[str]) -> None:
    if FURTHER in source[0]:
        more = further_pages()
        block = "## More\n\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(more) + "\n```\n" if more else ""
        source[0] = source[0].replace(FURTHER, block)
    # Tables lie beside the code, where pages link to them; here they are pages themselves.
    source[0] = re.sub(r"\(\.\./benchmarks/results/(\w+\.md)\)", r"(tables/\1)", source[0])


def setup(app: Any) -> dict[str, Any]:
    write_results(HERE / "tables")  # now, before Sphinx looks for what pages there are
    app.connect("source-read", adapt)
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("autodoc-process-docstring", clean_docstring, priority=100)  # before numpydoc reads its sections
    return {"parallel_read_safe": True, "parallel_write_safe": True}
