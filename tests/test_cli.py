"""The command line, end to end on small files: what it writes and what it says; test_cli_refused.py has what it refuses."""
# ruff: noqa: F811

import csv
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from tests.cli_files import CANCER, ROWS, place, run, spoilt  # noqa: F401

import taskloss as tl
from taskloss.cli import learners, main
from taskloss.cli.implications import Implications
from taskloss.cli.tables import choose_columns, read_table
from taskloss.cli.tasks import Labels

pytest.importorskip("skops")


def test_from_a_file_to_decisions(run):
    """What is written is what the library itself says: the model loads, and predicts on a data frame read by anyone."""
    code, out, err = run(*CANCER, "--learner", "linear")
    assert code == 0, err
    for words in (
        "150 rows",
        "2 labels",
        "Deciding 'benign' where it is 'malignant' costs 20",
        "from 0.04762 on",
        "size (3)",
    ):
        assert words in out
    assert "'': numbers the rows and has no name" in out
    assert "3 of 3 fits" in err
    code, out, err = run("predict", "model.skops", "cancer.csv", "-o", "decisions.csv", "--proba", "--keep", "size")
    assert code == 0, err
    found = pd.read_csv("decisions.csv")
    assert found.columns.tolist() == ["size", "diagnosis", "expected_cost", "P(benign)", "P(malignant)"]
    model, frame = tl.model_files.load("model.skops"), pd.read_csv("cancer.csv")
    assert (model.predict(frame) == found["diagnosis"]).all()
    assert np.allclose(tl.expected_loss(model, X=frame), found["expected_cost"], rtol=1e-4)
    assert ((found["P(malignant)"] > 1 / 21) == (found["diagnosis"] == "malignant")).all()
    polars = pytest.importorskip("polars")
    assert (model.predict(polars.read_csv("cancer.csv")) == found["diagnosis"]).all()


def test_what_is_evaluated_is_the_mean_cost(run):
    assert run(*CANCER, "--learner", "linear", "--quiet")[0] == 0
    code, out, err = run("evaluate", "model.skops", "cancer.csv", "--json")
    assert (code, err) == (0, "")
    found, frame = json.loads(out), pd.read_csv("cancer.csv")
    model, cost = tl.model_files.load("model.skops"), {("benign", "malignant"): 20, ("malignant", "benign"): 1}
    y, z = frame["diagnosis"], model.predict(frame)
    likeliest = tl.decide(model, "zero-one", X=frame)
    for name, decisions in (("model", z), ("likeliest", likeliest), ("constant", np.full(ROWS, "malignant"))):
        assert found["losses"][name]["mean"] == pytest.approx(
            np.mean([cost.get(p, 0) for p in zip(decisions, y, strict=True)])
        )
    assert found["confusion"]["malignant"]["benign"] == ((z == "malignant") & (y == "benign")).sum()
    assert sum(sum(row.values()) for row in found["confusion"].values()) == ROWS


def test_other_costs_take_no_new_fit(run):
    run(*CANCER, "--learner", "linear", "--quiet")
    code, out, _ = run("predict", "model.skops", "cancer.csv", "--loss", "zero-one", "--abstain", "0.1", "--json")
    assert code == 0
    model, frame = tl.model_files.load("model.skops"), pd.read_csv("cancer.csv")
    expected = tl.decide(model, tl.losses.Abstain(cost=0.1), X=frame)
    assert [row["diagnosis"] for row in json.loads(out)] == expected.tolist()
    assert "abstain" in expected


def test_abstaining_is_added_to_the_models_own_costs(run):
    run(*CANCER, "--learner", "linear", "--quiet")
    code, out, _ = run("predict", "model.skops", "cancer.csv", "--abstain", "0.3", "--json")
    assert code == 0
    model, frame = tl.model_files.load("model.skops"), pd.read_csv("cancer.csv")
    names = ["benign", "malignant"]
    costs = tl.losses.CostMatrix([[0, 20], [1, 0], [0.3, 0.3]], outputs=[*names, "abstain"], labels=names)
    assert [row["diagnosis"] for row in json.loads(out)] == tl.decide(model, costs, X=frame).tolist()
    assert "--at is no option of the loss cost-matrix" in spoilt(run, "predict", "model.skops", "cancer.csv", "--at", 3)


def test_labels_match_costs_whatever_blanks_or_points_a_file_has(run):
    """A blank after each comma, and 1.0 for 1 as pandas writes whole numbers beside missing ones."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    rows = [f"{v}, {'rent ' if v > 0 else 'own'}, {1.0 if v + rng.normal() / 3 > 0 else 0.0}" for v in x]
    pathlib.Path("blanks.csv").write_text("x, home, y\n" + "\n".join(rows) + "\n")
    pathlib.Path("c.csv").write_text("decision,0,1\n0,0,1\n1,8,0\n")
    fit = (
        "fit",
        "blanks.csv",
        "--target",
        "y",
        "--costs",
        "c.csv",
        "-o",
        "m.skops",
        "--learner",
        "linear",
        "--folds",
        "2",
    )
    code, out, err = run(*fit, "--json")
    assert code == 0, err
    assert json.loads(out)["categories"] == {"home": ["own", "rent"]}
    pathlib.Path("new.csv").write_text("x,home\n-3,own\n3,rent\n")
    found = [row["y"] for row in json.loads(run("predict", "m.skops", "new.csv", "--json")[1])]
    assert found == [0, 1]
    assert tl.model_files.load("m.skops").predict(pd.read_csv("new.csv")).tolist() == found
    assert run("evaluate", "m.skops", "blanks.csv")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "task", "column"),
    [
        (["grades.csv", "--target", "grade"], "ordinal", "grade"),
        (["words.csv", "--target", "grade", "--order", "mild,fair,bad,worst"], "ordinal", "grade"),
        (["words.csv", "--target", "grade", "--task", "labels"], "labels", "grade"),
        (["sets.parquet", "--target", "fat,ill"], "sets", "ill"),
        (["tags.csv", "--target", "tags", "--separator", "|", "--loss", "f-beta"], "sets", "tags"),
        (["queries.csv", "--target", "relevance", "--group", "query", "--at", "3"], "ranking", "rank"),
        (["queries.csv", "--target", "relevance", "--group", "query", "--task", "ordinal"], "ordinal", "relevance"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_each_task_is_found_and_fitted(arguments, task, column, run):
    code, out, err = run("fit", *arguments, "-o", "model.skops", "--learner", "linear", "--folds", "2", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["task"]["task"] == task
    held = found["held_out"]["linear"]
    assert held["model"]["mean"] < held["constant"]["mean"]
    assert found["task"]["target"][0] not in [*found["numbers"], *found["categories"]]
    code, out, err = run("evaluate", "model.skops", arguments[0], "--json")
    assert code == 0, err
    assert json.loads(out)["losses"]["model"]["mean"] < held["constant"]["mean"]
    assert run("predict", "model.skops", arguments[0], "-o", "z.csv")[0] == 0
    assert column in pd.read_csv("z.csv", nrows=1)
    assert len(pd.read_csv("z.csv", skip_blank_lines=False)) == ROWS


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_trees_take_missing_values_and_categories_as_they_are(library, run):
    pytest.importorskip(library)
    assert run(*CANCER, "--learner", library)[0] == 0
    model, frame = tl.model_files.load("model.skops"), pd.read_csv("cancer.csv")
    assert [name for name, _ in model.steps] == ["columns", "model"]
    found = run("predict", "model.skops", "cancer.csv", "--json")
    assert [row["diagnosis"] for row in json.loads(found[1])] == model.predict(frame).tolist()
    one = frame.iloc[:1].assign(size="unheard of")
    assert model.predict_proba(one).tolist() == model.predict_proba(one.assign(size=None)).tolist()


def test_the_best_learner_is_the_one_of_least_held_out_loss(run, monkeypatch):
    monkeypatch.setattr(learners, "_EXACT_KERNEL", 0)
    code, out, err = run(*CANCER, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert "linear" in found["held_out"]
    assert found["learner"] == min(found["held_out"], key=lambda name: found["held_out"][name]["model"]["mean"])


def test_labels_are_kept_as_they_are_written(run):
    """Codes with leading zeros are words, and whole numbers beyond 2^53 are exact."""
    rng = np.random.default_rng(0)
    with open("codes.csv", "w") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "zip", "account", "post", "large"])
        for i in range(60):
            x = rng.normal()
            code = "00501" if x + rng.normal() / 3 > 0 else "501"
            writer.writerow(
                [
                    x,
                    f"0{i % 3}",
                    9007199254740993 + i % 2,
                    code,
                    9007199254740993 if code == "501" else 9007199254740992,
                ]
            )
    fit = ("fit", "codes.csv", "-o", "m.skops", "--learner", "linear", "--folds", "0", "--force", "--json")
    found = json.loads(run(*fit, "--target", "post", "--ignore", "large")[1])
    assert found["task"]["labels"] == ["00501", "501"]
    assert found["categories"] == {"zip": ["00", "01", "02"], "account": ["9007199254740993", "9007199254740994"]}
    found = json.loads(run(*fit, "--target", "large", "--ignore", "post")[1])
    assert found["task"]["labels"] == [9007199254740992, 9007199254740993]
    run("predict", "m.skops", "codes.csv", "-o", "z.csv")
    assert set(pd.read_csv("z.csv", dtype=str)["large"]) == {"9007199254740992", "9007199254740993"}


# -- what costs imply ----------------------------------------------------------------------------------------------------


def test_what_costs_imply_is_what_decoding_does():
    """On random cost matrices and laws: thresholds, ranges and what is never decided agree with decisions."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        labels = int(rng.integers(2, 5))
        matrix = rng.integers(0, 5, (int(rng.integers(2, 6)), labels)).astype(float)
        names = [str(j) for j in range(labels)]
        found = Implications(matrix, [str(z) for z in range(len(matrix))], names)
        laws = rng.dirichlet(np.full(labels, 0.5), 2000)
        risks = laws @ found.relative.T
        best = risks.min(1)
        taken = set(risks.argmin(1).tolist())
        assert not taken & set(found.never)
        for z, (least, most) in found.ranges.items():
            own = laws[:, z]
            assert own[risks[:, z] <= best].min(initial=1) >= least - 1e-9
            assert own[risks[:, z] > best + 1e-12].max(initial=0) <= most + 1e-9
        if labels == 2:
            for z, low, high in found.thresholds:
                within = (laws[:, 1] > low + 1e-9) & (laws[:, 1] < high - 1e-9)
                assert np.allclose(risks[within, z], best[within])
        for i, j in found.twins:
            assert np.allclose(risks[:, i], risks[:, j])
        d = found.decomposition
        assert np.allclose(d.matrix, matrix)


def test_costs_up_to_scaling_are_known_by_name():
    k = 4
    names = list("abcd")
    for loss in (tl.losses.ZeroOne(k), tl.losses.Absolute(k), tl.losses.Squared(k)):
        assert Implications(3 * loss.matrix() + np.arange(k), names, names).known_as == loss.name
    assert Implications(np.arange(16.0).reshape(4, 4), names, names).known_as is None


def test_costs_are_explained_in_words(run):
    pathlib.Path("c.csv").write_text("# of a bank\nd,good,bad\ngood,0,5\nbad,1,0\nboth,2,6\nrefer,0.5,0.5\n")
    code, out, _ = run("explain-costs", "c.csv")
    assert code == 0
    assert "By the probability of 'bad': 'good' from 0 on, 'refer' from 0.1 on, 'bad' from 0.5 on." in out
    assert "'both': 'good' costs no more, whatever the label." in out
    found = json.loads(run("explain-costs", "c.csv", "--json")[1])
    assert [(t["decision"], round(t["from"], 6)) for t in found["thresholds"]] == [
        ("good", 0),
        ("refer", 0.1),
        ("bad", 0.5),
    ]
    pathlib.Path("t.csv").write_text("truth,good,bad\ngood,0,1\nbad,5,0\n")
    turned = json.loads(run("explain-costs", "t.csv", "--truth-in-rows", "--json")[1])
    assert turned["costs"] == [[0, 5], [1, 0]]
    pathlib.Path("t.csv").write_text("d,good,bad\ngood,5,0\nbad,0,1\n")
    assert "is the table the right way round" in run("explain-costs", "t.csv")[1]
    assert "--labels K" in spoilt(run, "explain-costs", "--loss", "absolute")
    assert "Give a table of costs" in spoilt(run, "explain-costs")


def test_the_calibration_function_is_the_librarys(run):
    pytest.importorskip("clarabel")
    code, out, err = run("theory", "costs.csv", "--eps", "1,4", "--json", "--figure", "zeta.png")
    assert code == 0, err
    found = json.loads(out)
    zeta = tl.theory.calibration(tl.losses.CostMatrix([[0, 20], [1, 0]]))
    assert [row["upper"] for row in found["zeta"]] == pytest.approx([zeta(1.0), zeta(4.0)])
    assert pathlib.Path("zeta.png").stat().st_size > 5000
    assert "--eps must be numbers above zero" in spoilt(run, "theory", "costs.csv", "--eps", "x")
    assert "There is no surrogate named 'best'" in spoilt(run, "theory", "costs.csv", "--surrogate", "best")


# -- the shell ------------------------------------------------------------------------------------------------------------


def test_the_module_runs_as_a_command(tmp_path):
    (tmp_path / "c.csv").write_text("d,a,b\na,0,1\nb,1,0\n")
    python = [sys.executable, "-m", "taskloss"]
    out = subprocess.run([*python, "explain-costs", "c.csv", "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert (out.returncode, out.stderr) == (0, "")
    assert json.loads(out.stdout)["known_as"] == "zero-one"


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"taskloss {tl.__version__}"
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in ("fit", "predict", "evaluate", "report", "explain-costs", "theory", "list", "compile", "demo"):
        assert re.search(rf"^    {command}\b", text, re.M)
        assert main([command, "--help"]) == 0
        assert "--json" in capsys.readouterr().out
    assert main([]) == 2
    capsys.readouterr()
    assert main(["fit"]) == 2
    wanted = (
        "taskloss fit: the following arguments are required: DATA, --target, -o/--output. See taskloss fit --help.\n"
    )
    assert capsys.readouterr().err == wanted


def test_columns_that_hardly_repeat_are_left_out_with_the_reason(tmp_path):
    """A slip in a column of numbers, or commas in the place of points, do not make it a category of a hundred words."""
    n = 120
    numbers = [f"{i / 7:.3f}" for i in range(n)]
    columns = {
        "slip": [*numbers[:-2], "#1.25", numbers[0]],
        "commas": [word.replace(".", ",") for word in numbers],
        "names": [*(f"name {i}" for i in range(n - 1)), "name 0"],
        "zip": ["00501", *("10001" if i % 2 else "94105" for i in range(n - 1))],
        "y": ["no", "yes"] * (n // 2),
    }
    pd.DataFrame(columns).to_csv(tmp_path / "rows.csv", index=False, sep=";")
    found, left_out = choose_columns(read_table(str(tmp_path / "rows.csv")), {}, ["y"], [], [])
    assert found.names == ["zip"]
    assert len(found.categories["zip"]) == 3
    assert left_out["slip"] == "numbers but for '#1.25': mend these, or leave them empty"
    assert left_out["commas"].startswith("numbers with commas, such as '0,000'")
    assert left_out["names"].startswith("119 different words")


def test_whole_labels_that_a_reader_made_floats_are_known(tmp_path):
    (tmp_path / "floats.csv").write_text("y\n1.0\n0.0\n1.5\n")
    table = read_table(str(tmp_path / "floats.csv"))
    known = Labels(["y"], [0, 1], "int")
    assert known.read(table.rows(np.array([True, True, False]))).tolist() == [1, 0]
    assert known.read(table).tolist() == ["1", "0", "1.5"]
    assert Labels(["y"], ["0.0", "1.0"], "str").read(table).tolist() == ["1.0", "0.0", "1.5"]


def test_lines_may_end_as_old_spreadsheets_end_them(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"a,y\r1,no\r2,yes\r")
    assert read_table(str(tmp_path / "rows.csv")).frame.values.tolist() == [["1", "no"], ["2", "yes"]]


def test_three_labels_are_explained_by_ranges_and_what_is_never_decided(run):
    """What cannot be said by thresholds of one probability; each sentence is checked on laws of the label."""
    rows = ["0,1,6", "2,0,3", "9,4,0", "9,9,9", "1,2,7"]
    names = ["low", "mid", "high", "worst", "second"]
    table = "d,low,mid,high\n" + "".join(f"{name},{row}\n" for name, row in zip(names, rows, strict=True))
    pathlib.Path("c.csv").write_text(table)
    code, out, _ = run("explain-costs", "c.csv")
    assert code == 0
    least, most = map(float, re.search(r"'low' can be decided from a probability of (\S+) on, and always is above (\S+)\.", out).groups())  # fmt: skip
    laws = np.random.default_rng(0).dirichlet(np.ones(3), 50_000)
    matrix = np.array([[float(word) for word in row.split(",")] for row in rows])
    low = (laws @ matrix.T).argmin(1) == 0
    assert laws[low, 0].min() == pytest.approx(least, abs=0.02)
    assert laws[~low, 0].max() == pytest.approx(most, abs=0.02)
    for never in ("'worst': 'low' costs no more, whatever the label.", "'second': 'low' costs no more"):
        assert never in out
    code, out, _ = run("explain-costs", "--loss", "absolute", "--labels", "3")
    assert code == 0
    assert "these are the costs of the absolute loss" in out
    pathlib.Path("c.csv").write_text("d,a,b,c\nx,1,1,1\ny,2,2,2\n")
    out = run("explain-costs", "c.csv")[1]
    assert "Whether it is 'a' or 'b' changes no decision." in out
    assert "0 numbers" not in out


def test_parquet_types_are_read_as_they_are_or_left_out(run):
    """Truth values, missing whole numbers, categories and dates; a model reads the same from a CSV file."""
    rng = np.random.default_rng(0)
    n = 80
    x = rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=n) / 2 > 0, "big": rng.random(n) > 0.5})
    frame["visits"] = pd.array(np.where(rng.random(n) < 0.2, None, rng.integers(1, 9, n)), dtype="Int64")
    frame["home"] = pd.Categorical(rng.choice(["rent", "own"], n))
    frame["note"] = pd.Series(np.where(rng.random(n) < 0.3, None, "seen"), dtype=object)
    frame["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, n), "D")
    frame["parts"] = [[1, 2]] * n
    frame.to_parquet("types.parquet")
    fit = ("fit", "types.parquet", "--target", "y", "-o", "m.skops", "--learner", "linear", "--folds", 2, "--json")
    code, out, err = run(*fit)
    assert code == 0, err
    found = json.loads(out)
    assert found["numbers"] == ["x", "big", "visits"]
    assert found["categories"] == {"home": ["own", "rent"], "note": ["seen"]}
    assert found["left_out"]["when"].startswith("values of type timestamp")
    assert found["left_out"]["parts"].startswith("values of type list")
    assert "--target names 'when', which in types.parquet holds values of type timestamp" in spoilt(
        run, "fit", "types.parquet", "--target", "when", "-o", "n.skops"
    )
    assert found["task"]["labels"] == [0, 1]
    frame.astype({"big": int}).to_csv("types.csv", index=False)
    assert json.loads(run("predict", "m.skops", "types.csv", "--json")[1]) == json.loads(
        run("predict", "m.skops", "types.parquet", "--json")[1]
    )


def test_a_terminal_sees_how_far_the_work_is(run, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    code, _, err = run(*CANCER, "--learner", "linear")
    assert code == 0
    assert "\r" in err
    assert "3 of 3 fits" in err
    assert err.endswith("\n")


def test_whoever_reads_the_output_may_stop(tmp_path):
    """As `head` does: no traceback, and no complaint."""
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{i % 7},{'ab'[i % 2]}\n" for i in range(400)))
    python = f'"{sys.executable}" -m taskloss'
    fit = f"{python} fit rows.csv --target y -o m.skops --learner linear --folds 0 --quiet > {tmp_path / 'log'}"
    found = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {fit} && {python} list | head -n 1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "loss:\n", "")
