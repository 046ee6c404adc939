"""The package as a newcomer meets it: what an import costs, what the pages show, what the commands print."""

import pathlib
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest

import taskloss as tl
from taskloss import cli, demo
from taskloss.demo import run as demo_run
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


def test_the_first_page_installs_all_that_it_imports():
    """A newcomer has what the line of its first block brings, and nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    extras = re.search(r'^    pip install "\.\[(.+)\]"$', page, re.M)[1].split(",")
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    brought = {re.match(r"[\w-]+", one)[0].replace("-", "_") for one in wanted} | {
        "taskloss",
        "joblib",
    }  # scikit-learn's
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    imported = {name for block in blocks for name in re.findall(r"^(?:import|from) (\w+)", block, re.M)}
    assert {"scikit_learn" if name == "sklearn" else name for name in imported} <= brought


def test_every_file_that_a_page_names_is_there():
    named = {n for page in PAGES for n in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text(encoding="utf-8"))}
    assert named
    assert [
        n for n in sorted(named) if not any((root / n).exists() for root in (ROOT, ROOT / "src" / "taskloss"))
    ] == []


# What each folder may import of the others: the walls of docs/architecture.md. Compiled code is called by who owns the pass.
MAY_IMPORT = {
    "losses": {"polytopes", "data", "_compiled"},  # data: the scorer that `loss.scorer()` makes
    "polytopes": {"_compiled"},
    "surrogates": {"polytopes"},
    "hypotheses": {
        "polytopes",
        "solvers",
        "_compiled",
        "torch",
    },  # solvers: what a fit ended with; torch: when asked for
    "solvers": {"_compiled"},  # products with the steps that they remember
    "objectives": {"surrogates", "polytopes", "hypotheses", "solvers", "_compiled"},
    "theory": {"losses", "polytopes", "surrogates", "plots"},  # plots: what `plot` draws, when asked for
    "plots": {"losses", "polytopes", "surrogates", "theory", "data", "estimators"},
    "data": {"losses", "polytopes"},
    "control": {"losses", "polytopes", "data", "estimators", "plots", "_compiled"},
    "estimators": {"losses", "polytopes", "surrogates", "hypotheses", "objectives", "solvers", "data", "distributed"},
    "distributed": {"data"},
}


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_no_folder_looks_over_its_walls(folder):
    import ast

    folders = {*MAY_IMPORT, "_compiled", "torch"}
    beyond = set()
    for file in (ROOT / "src" / "taskloss" / folder).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                names = [node.module.split(".")[0]] if node.module else [n.name for n in node.names]
                beyond |= {(file.name, n) for n in names if n in folders - MAY_IMPORT[folder] - {folder}}
    assert not beyond


def test_import_is_light():
    """Nothing compiles or plots at import, and the optional libraries stay out."""
    code = "import sys, taskloss; print([m for m in ('numba', 'matplotlib', 'torch', 'cvxpy', 'lightgbm', 'dask') if m in sys.modules])"
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


def test_a_name_is_not_taken_twice(monkeypatch):
    """Another class is refused; the same one defined again, as a notebook's cell does, takes its own place."""
    monkeypatch.setattr(tl.losses.Loss, "registry", dict(tl.losses.Loss.registry))

    def define():
        class Mine(tl.losses.Absolute):
            """Known by a name of its own."""

            name = "mine"

        return Mine

    first, second = define(), define()
    assert first is not second
    assert tl.losses.Loss.registry["mine"] is second
    with pytest.raises(
        ValueError, match=r"The name 'absolute' is taken by taskloss.losses.tabular.Absolute: give .*Other another"
    ):

        class Other(tl.losses.Absolute):
            name = "absolute"

    assert tl.losses.Loss.registry["absolute"] is tl.losses.Absolute


LOKY = """
import numpy as np
import taskloss as tl
from joblib import Parallel, delayed


class Steep(tl.margins.Logistic):
    name = "steep"


def resolve(surrogate):
    return type(surrogate).__name__, tl.margins.Margin.resolve(surrogate.margin).name


surrogate = tl.surrogates.OneVsAll("steep")
print(Parallel(2)(delayed(resolve)(surrogate) for _ in range(2)))
"""


def test_names_of_ones_own_parts_reach_workers(tmp_path):
    """joblib's workers start anew: the class behind a name travels with the part that uses it."""
    script = tmp_path / "script.py"
    script.write_text(LOKY)
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert out.stdout.strip() == "[('OneVsAll', 'steep'), ('OneVsAll', 'steep')]", out.stderr


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


def check_picture(results):
    """It draws the intervals that were found, and bars that add up to the mean losses."""
    figure = demo.picture(results)
    above, *below = (axes for part in figure.subfigs for axes in part.axes)
    lines = [line.get_xdata() for line in above.lines if len(line.get_xdata()) == 2][: len(results)]
    assert np.allclose(lines, [[100 * r.low, 100 * r.high] for r in results])
    assert above.get_xlim()[0] < min(0, *(100 * r.low for r in results))
    assert above.get_xlim()[1] > max(100 * r.high for r in results)
    for axes, r in zip(below, results, strict=True):
        heights = [sum(bar.get_height() for bar in bars) for bars in axes.containers]
        assert np.allclose(heights, [r.argmax, r.ours])


def test_naming_the_loss_pays_in_the_demo():
    found = demo.run(repeats=1, report=lambda line: None)
    check_picture(found)
    results = {r.task.name: r for r in found}
    for name in ("cost matrix", "abstention", "ordinal"):
        assert results[name].low > 0
    for result in results.values():
        assert result.low <= result.saved <= result.high <= 1
        assert result.high > 0


def test_an_interval_of_savings_ends_at_everything():
    """Few and large losses: mean and standard error would say that more than everything may be saved."""
    theirs = np.zeros(400)
    theirs[:8] = 20.0
    ours = np.where(np.arange(400) % 40 == 9, 1.0, 0.0)
    difference = theirs - ours
    assert difference.mean() + 1.96 * difference.std() / 20 > theirs.mean()
    low, high = demo.interval_saved(theirs, ours)
    assert 0 < low < 1 - ours.mean() / theirs.mean() < high <= 1


def test_an_interval_of_savings_covers_the_truth():
    """On 200 draws of a known law, as often as its 95 % say, within four standard errors."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        theirs = rng.exponential(1.0, 200)
        ours = theirs * rng.uniform(0.3, 0.9, 200)
        low, high = demo.interval_saved(theirs, ours, 500)
        covered += low <= 0.4 <= high
    assert abs(covered / 200 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 200)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--repeats", "0"], "must be at least 1, got 0"),
        (["--repeats", "-1"], "must be at least 1, got -1"),
        (["--figure", "no/such/place/demo.png"], "it must be a file in a directory that can be written"),
        (["--figure", "."], "it must be a file in a directory that can be written"),
        (["--figure", "demo.docx"], "would be of type .docx; choose one of"),
    ],
)
def test_the_demo_refuses_before_it_works(options, sentence, capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda **kwargs: pytest.fail("the work has begun"))
    assert cli.main(["demo", *options]) == 2
    assert sentence in capsys.readouterr().err
    with pytest.raises(ValueError, match="at least 2 folds and 1 repeat, got 5 and 0"):
        demo_run(repeats=0)
