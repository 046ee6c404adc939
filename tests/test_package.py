"""The package as a newcomer meets it: what an import costs, what the pages show, what the commands print."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import taskloss as tl
from taskloss import cli, demo
from taskloss.registry import Part

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in Part.__subclasses__():  # a page's own parts are gone after it
        monkeypatch.setattr(kind, "registry", dict(kind.registry))
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    namespace: dict = {"__name__": page.stem}
    for block in blocks:
        if ">>>" in block:
            import doctest

            test = doctest.DocTestParser().get_doctest(block, namespace, page.name, str(page), 0)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
            runner.run(test, clear_globs=False)
            assert runner.summarize(verbose=False).failed == 0
            namespace.update(test.globs)
        else:
            exec(compile(block, page.name, "exec"), namespace)
    assert blocks or page.name not in ("README.md",)


def test_import_is_light():
    """Nothing compiles or plots at import, and the optional libraries stay out."""
    code = "import sys, taskloss; print([m for m in ('numba', 'matplotlib', 'torch', 'cvxpy', 'lightgbm') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented():
    for name in tl.__all__:
        assert getattr(tl, name).__doc__, name
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in tl.__all__ if name not in text]
    assert not missing


def test_what_tests_install_is_what_users_may():
    """The pins of constraints.txt lie within the ranges of the extras."""
    import tomllib

    from packaging.requirements import Requirement

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ranges = {r.name: r.specifier for extra in extras.values() for r in map(Requirement, extra)}
    pins = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    assert pins
    for name, version in pins:
        assert version in ranges[name]
        assert "==" not in str(ranges[name])


def kinds():
    return Part.__subclasses__()


def test_every_part_is_documented_and_has_examples():
    for kind in kinds():
        assert kind.registry, kind
        for name, part in kind.registry.items():
            assert part.__doc__, name
            assert part.examples(), name


def test_a_new_part_is_one_class():
    """A user's own loss is known by name, and fits, without a change anywhere else."""

    class Asymmetric(tl.losses.Tabular):
        """Underestimates cost twice as much."""

        name = "asymmetric"

        def matrix(self):
            codes = np.arange(self.n_labels)
            gap = codes[:, None] - codes
            return np.where(gap < 0, -2.0 * gap, gap)

    try:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 2))
        y = np.digitize(X[:, 0] + rng.normal(size=300), [-1, 0, 1])
        model = tl.TaskLossEstimator("asymmetric").fit(X, y)
        assert model.predict(X).mean() > tl.TaskLossEstimator("absolute").fit(X, y).predict(X).mean()
    finally:
        del tl.losses.Loss.registry["asymmetric"]


def test_list_names_every_part(capsys):
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    for kind in (tl.losses.Loss, tl.surrogates.Surrogate, tl.margins.Margin):
        for name in kind.registry:
            assert name in out


def test_demo_shows_a_table_and_saves_a_figure(capsys, tmp_path):
    figure = tmp_path / "demo.png"
    assert cli.main(["demo", "--figure", str(figure), "--repeats", "1"]) == 0
    out = capsys.readouterr().out
    for task in ("cost matrix", "abstention", "ordinal", "multilabel", "taxonomy"):
        assert task in out
    assert figure.stat().st_size > 10_000


def test_naming_the_loss_pays_in_the_demo():
    results = {r.task.name: r for r in demo.run(repeats=1, report=lambda line: None)}
    for name in ("cost matrix", "abstention", "ordinal"):
        assert results[name].gain > results[name].margin
    for result in results.values():
        assert result.gain > -result.margin
