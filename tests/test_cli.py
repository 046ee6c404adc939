"""The command line, end to end on small files: what it writes, what it says, and what it refuses in a sentence."""

import csv
import json
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import taskloss as tl
from taskloss import model_files
from taskloss.cli import fitting, learners, main
from taskloss.cli.implications import Implications
from taskloss.cli.tables import choose_columns, read_table
from taskloss.cli.tasks import Labels

pytest.importorskip("skops")
ROWS = 150


def write_costs(path, matrix, outputs, labels):
    pd.DataFrame(matrix, index=outputs, columns=labels).to_csv(path, index_label="decision")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files of scikit-learn's bundled sets: labels, grades, label sets in two forms, and rankings."""
    folder = tmp_path_factory.mktemp("files")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    cancer = X.iloc[:ROWS, :5].assign(diagnosis=np.array(["malignant", "benign"])[y[:ROWS]])
    cancer["size"] = pd.cut(X["mean radius"][:ROWS], [0, 13, 17, 99], labels=["small", "large", "huge"]).astype(str)
    cancer.loc[::7, "mean texture"] = np.nan
    cancer.to_csv(folder / "cancer.csv")
    write_costs(folder / "costs.csv", [[0, 20], [1, 0]], ["benign", "malignant"], ["benign", "malignant"])
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.iloc[:ROWS].copy()
    grades = np.digitize(y[:ROWS], [80, 140, 200])
    X.assign(grade=np.array(["1", "2", "3", "4"])[grades]).to_csv(folder / "grades.csv", index=False, sep=";")
    X.assign(grade=np.array(["mild", "fair", "bad", "worst"])[grades]).to_csv(folder / "words.csv", index=False)
    sets = pd.DataFrame({"fat": (X.pop("bmi") > 0).astype(int), "ill": (y[:ROWS] > 140).astype(int)})
    X.join(sets).to_parquet(folder / "sets.parquet")
    tags = ["|".join(name for name in sets if row[name]) for _, row in sets.iterrows()]
    X.assign(tags=tags).to_csv(folder / "tags.csv", index=False)
    X.assign(relevance=grades, query=np.arange(ROWS) // 10).to_csv(folder / "queries.csv", index=False)
    return folder


@pytest.fixture
def run(place, tmp_path, monkeypatch, capsys):
    """Runs a command in a folder with links to the files; (code, what it wrote on standard output, and on standard error)."""
    for file in place.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        code = main([str(a) for a in arguments])
        return code, *capsys.readouterr()

    return command


CANCER = ("fit", "cancer.csv", "--target", "diagnosis", "--costs", "costs.csv", "-o", "model.skops", "--folds", 2)


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


# -- what is refused ----------------------------------------------------------------------------------------------------


def spoilt(run, *arguments):
    """The sentence of a command that is refused: one line on standard error, exit code 2, nothing on standard output."""
    code, out, err = run(*arguments)
    assert code == 2, (out, err)
    line = err.strip().splitlines()[-1]
    assert "Traceback" not in err
    assert [one for one in err.splitlines() if not one.startswith("fit ")] == [line]
    return line


@pytest.mark.parametrize(
    ("files", "arguments", "sentence"),
    [
        ({}, ["none.csv", "--target", "y"], "none.csv: no such file or directory."),
        ({}, ["cancer.csv", "--target", "diagnose"], r"--target must name a column: cancer.csv has no column 'diagnose'; its columns are '', 'mean radius'"),
        ({"a.csv": "x,y\n1,good\n2,good\n"}, ["a.csv", "--target", "y"], "The target 'y' is 'good' in all 2 rows of a.csv: there is nothing to decide."),
        ({"a.csv": "x,y\n" + "".join(f"{i},{i * 0.37}\n" for i in range(50))}, ["a.csv", "--target", "y"], "this is a regression, and taskloss decides among labels"),
        ({"a.csv": "x,y\n" + "".join(f"{i},w{i}\n" for i in range(50))}, ["a.csv", "--target", "y"], "holds 50 different words in 50 rows"),
        ({"a.csv": "x,y\n1,2,3\n"}, ["a.csv", "--target", "y"], "a.csv, line 2: 3 columns where the header has 2"),
        ({"a.csv": "x,y\n1\n"}, ["a.csv", "--target", "y"], "a.csv, line 2: 1 column where the header has 2"),
        ({"a.csv": 'x,y\n1,"2\n'}, ["a.csv", "--target", "y"], "a.csv, line 2: a quote that is never closed."),
        ({"a.csv": b"PK\0\0\0"}, ["a.csv", "--target", "y"], "a.csv is no text file: it must be CSV"),
        ({"a.csv": "x,y\ncaf\xe9,1\n".encode("latin-1")}, ["a.csv", "--target", "y"], "a.csv is not text in utf-8: pass its --encoding"),
        ({"a.csv": ""}, ["a.csv", "--target", "y"], "a.csv is empty: its first line must name the columns."),
        ({"a.csv": "x,y\n"}, ["a.csv", "--target", "y"], "a.csv has no rows below its header."),
        ({"a.csv": "x,x\n1,2\n"}, ["a.csv", "--target", "x"], "a.csv has two columns named 'x'"),
        ({"a.csv": "5.1,3.5,setosa\n4.9,3.0,setosa\n"}, ["a.csv", "--target", "y"], "a.csv must name its columns in the first line, and this one holds '5.1', '3.5'"),
        ({"a.parquet": "x,y\n1,2\n"}, ["a.parquet", "--target", "y"], "a.parquet is no Parquet file"),
        ({"a.csv.gz": "x,y\n1,2\n"}, ["a.csv.gz", "--target", "y"], "a.csv.gz cannot be unpacked"),
        ({"a.csv": "y\na\nb\n"}, ["a.csv", "--target", "y"], "a.csv has no column to learn from (the target is its only one)."),
        ({"c.csv": "decision,good,bad\ngood,0,5\nbad,1,0\n"}, ["cancer.csv", "--target", "diagnosis", "--costs", "c.csv"], "The labels of c.csv do not match: it has no column for 'benign', 'malignant' and 'good', 'bad' are no labels of the data"),
        ({"c.csv": "0,5\n1,0\n"}, ["cancer.csv", "--target", "diagnosis", "--costs", "c.csv"], "c.csv holds numbers alone"),
        ({"c.csv": "d,benign,malignant\nbenign,0,x\n"}, ["cancer.csv", "--target", "diagnosis", "--costs", "c.csv"], "c.csv, line 2: a cost must be a finite number, got 'x'."),
        ({"c.csv": "d,benign,malignant\npass,0,1\nreview,1,2\n"}, ["cancer.csv", "--target", "diagnosis", "--costs", "c.csv", "--truth-in-rows"], "The labels of c.csv do not match"),
        ({}, ["cancer.csv", "--target", "diagnosis", "--costs", "costs.csv", "--loss", "zero-one"], "--costs and --loss both say what mistakes cost"),
        ({}, ["cancer.csv", "--target", "diagnosis", "--loss", "ndcg"], "--loss ndcg is for another task, or needs more than a name; here it is one of absolute, squared, zero-one."),
        ({}, ["cancer.csv", "--target", "diagnosis", "--loss", "best"], "--loss best does not exist; here it is one of absolute, squared, zero-one."),
        ({"c.csv": "d;benign;malignant\nbenign;0;8,5\n"}, ["cancer.csv", "--target", "diagnosis", "--costs", "c.csv"], "c.csv, line 2: a cost must be a finite number, got '8,5'; write it with a point."),
        ({"c.csv": "d,benign,malignant\nbenign,0,8\n"}, ["cancer.csv", "--target", "diagnosis", "--costs", "c.csv"], "c.csv has one decision only, 'benign': there is nothing to decide."),
        ({"a.csv": "x,y\n1,a\n5,b\n3,a\n4,a\n"}, ["a.csv", "--target", "y", "--folds", "2"], "Without the rows that are held out, all others are 'a'"),
        ({"a.csv": "x,y\n1,a\n".encode("utf-16")}, ["a.csv", "--target", "y"], "a.csv is text in UTF-16: pass --encoding utf-16."),
        ({"a.csv": b"PK\3\4\0\xff\xfe"}, ["a.csv", "--target", "y"], "a.csv is no text file: it must be CSV"),
        ({}, ["cancer.csv", "--target", "diagnosis", "--abstain", "-1"], "--abstain must be a cost above zero, got -1."),
        ({}, ["words.csv", "--target", "grade", "--task", "ordinal"], "The labels of 'grade' are words: say their order, --order bad,fair,mild,worst"),
        ({}, ["words.csv", "--target", "grade", "--order", "mild,worst"], "--order must list each label of 'grade' once"),
        ({}, ["tags.csv", "--target", "tags", "--separator", "|", "--costs", "costs.csv"], "--costs is for tasks with one label a row"),
        ({}, ["words.csv", "--target", "grade,sex"], "The target 'grade' is one of several, and must be 0 or 1"),
        ({}, ["queries.csv", "--target", "relevance", "--task", "ranking"], "--task ranking needs --group"),
        ({"a.csv": "x,r,q\n1,2,a\n5,1,\n3,0,b\n"}, ["a.csv", "--target", "r", "--group", "q"], "The column 'q' of a.csv must name the group of each row, and is empty in row 2."),
        ({"a.csv": "x,r,q\n1,2,a\n5,1,b\n3,0,c\n"}, ["a.csv", "--target", "r", "--group", "q"], "Every row of a.csv is alone in its group of 'q': there is nothing to rank."),
        ({"a.csv": "x,r,q\n1,2,a\n5,1,a\n3,0,a\n"}, ["a.csv", "--target", "r", "--group", "q"], "There is 1 group in 'q', too few to be held out in 5 parts"),
        ({"a.csv": "x,t\n1,\n2,\n7,\n"}, ["a.csv", "--target", "t", "--separator", ";"], "The target 't' of a.csv is empty in every row."),
        ({"a.csv": "x,s,t\n1,,1\n2,1,0\n"}, ["a.csv", "--target", "s,t"], "row 1 of a.csv holds ''."),
        ({"a.csv": "x,y\n" + "1,a\n2,b\n" * 9 + "1e400,a\n"}, ["a.csv", "--target", "y"], "a.csv: The column 'x' is infinite in row 19."),
        ({"a.csv": "x,y\n1,a\n2,b\n"}, ["a.csv", "--target", "y", "--ignore", "x"], "a.csv has no column to learn from (all but the target are ignored)."),
        ({}, ["cancer.csv", "--target", "diagnosis", "--numeric", "size"], "The column 'size' holds 'huge' in row 1"),
        ({}, ["cancer.csv", "--target", "diagnosis", "--folds", "1"], "--folds must be at least 2"),
        ({}, ["cancer.csv", "--target", "diagnosis", "--learner", "auto", "--folds", "0"], "name a learner"),
        ({"a.csv": "x,y\n1,a\n5,b\n3,a\n4,b\n"}, ["a.csv", "--target", "y", "--folds", "9"], "There are 4 rows, too few to be held out in 9 parts"),
        ({}, ["cancer.csv", "--target", "diagnosis", "-o", "no/such/place.skops"], "-o no/such/place.skops cannot be written"),
    ],
)  # fmt: skip
def test_a_fit_is_refused_in_one_sentence(files, arguments, sentence, run):
    for name, content in files.items():
        pathlib.Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(pathlib.Path().iterdir())
    assert sentence in spoilt(run, "fit", "-o", "model.skops", "--learner", "linear", *arguments)
    assert sorted(pathlib.Path().iterdir()) == before


def test_what_is_there_is_not_written_over_without_force(run):
    pathlib.Path("model.skops").write_text("mine")
    assert "model.skops exists: name another file with -o, or pass --force" in spoilt(run, *CANCER)
    assert pathlib.Path("model.skops").read_text() == "mine"
    assert run(*CANCER, "--learner", "linear", "--force")[0] == 0
    pathlib.Path("z.csv").write_text("mine")
    assert "z.csv exists" in spoilt(run, "predict", "model.skops", "cancer.csv", "-o", "z.csv")
    pathlib.Path("z.png").write_text("mine")
    assert "z.png exists" in spoilt(run, "theory", "costs.csv", "--figure", "z.png")


def test_a_file_that_is_read_is_never_written_over(run):
    """Not even with --force: no slip in -o costs anybody the rows, the costs or the model."""
    assert run(*CANCER, "--learner", "linear", "--folds", 0)[0] == 0
    kept = {name: pathlib.Path(name).read_bytes() for name in ("cancer.csv", "costs.csv", "model.skops")}
    fit, decide = ("fit", "cancer.csv", "--target", "diagnosis", "--costs", "costs.csv"), ("model.skops", "cancer.csv")
    for command in (
        (*fit, "-o", "cancer.csv"),
        (*fit, "-o", "./costs.csv"),
        ("predict", *decide, "-o", "cancer.csv"),
        ("predict", *decide, "-o", "model.skops"),
        ("report", *decide, "-o", "cancer.csv"),
        ("theory", "costs.csv", "--figure", "costs.csv"),
    ):
        assert "is read by this command" in spoilt(run, *command, "--force")
    assert kept == {name: pathlib.Path(name).read_bytes() for name in kept}


def test_a_model_file_that_cannot_be_used_is_refused(run, monkeypatch):
    assert run(*CANCER, "--learner", "linear", "--folds", 0)[0] == 0
    with monkeypatch.context() as later:
        later.setattr(model_files, "FORMAT", model_files.FORMAT + 1)
        sentence = spoilt(run, "predict", "model.skops", "cancer.csv")
        assert "model.skops: This Columns was stored by taskloss" in sentence
    with zipfile.ZipFile("model.skops") as model:
        parts = {name: model.read(name) for name in model.namelist()}
    for name, schema, wanted in (
        (
            "gone",
            parts["schema.json"].replace(b"CostSensitiveClassifier", b"GoneClassifier"),
            "faces.GoneClassifier, which taskloss",
        ),
        ("cut", parts["schema.json"][:-99], "cut.skops is no model that `taskloss fit` has written."),
    ):
        with zipfile.ZipFile(f"{name}.skops", "w") as other:
            for part, content in {**parts, "schema.json": schema}.items():
                other.writestr(part, content)
        assert wanted in spoilt(run, "predict", f"{name}.skops", "cancer.csv")
    assert "no such file" in spoilt(run, "predict", "none.skops", "cancer.csv")
    pathlib.Path("half.skops").write_bytes(pathlib.Path("model.skops").read_bytes()[:9000])
    for file in ("costs.csv", "half.skops"):
        assert f"{file} is no model that `taskloss fit` has written." in spoilt(run, "predict", file, "cancer.csv")
    tl.model_files.save(tl.CostSensitiveClassifier().fit([[0.0], [1.0]], [0, 1]), "bare.skops")
    assert "does not say how to read a file of rows" in spoilt(run, "predict", "bare.skops", "cancer.csv")


def test_rows_that_a_model_cannot_read_are_refused(run):
    assert run(*CANCER, "--learner", "linear", "--folds", 0)[0] == 0
    frame = pd.read_csv("cancer.csv")
    frame.drop(columns="mean radius").to_csv("less.csv", index=False)
    assert "less.csv: The model reads the column 'mean radius', not found" in spoilt(
        run, "predict", "model.skops", "less.csv"
    )
    frame.astype({"mean radius": object}).assign(**{"mean radius": "big"}).to_csv("words.csv.2", index=False)
    assert "The column 'mean radius' holds 'big' in row 1" in spoilt(run, "predict", "model.skops", "words.csv.2")
    assert "must name a column" in spoilt(run, "predict", "model.skops", "cancer.csv", "--keep", "id")
    frame.drop(columns="diagnosis").to_csv("new.csv", index=False)
    assert "has no column 'diagnosis'" in spoilt(run, "evaluate", "model.skops", "new.csv")
    assert run("predict", "model.skops", "new.csv")[0] == 0
    frame.assign(diagnosis="unheard of").to_csv("unknown.csv", index=False)
    assert "unknown.csv has none of these in 'diagnosis': it holds 'unheard of'" in spoilt(
        run, "evaluate", "model.skops", "unknown.csv"
    )
    frame.assign(diagnosis=["unheard of", *frame["diagnosis"][1:]]).to_csv("unknown.csv", index=False)
    code, out, _ = run("evaluate", "model.skops", "unknown.csv")
    assert code == 0
    assert "The model does not know 'unheard of'" in out


def test_no_library_of_trees_is_said(run, monkeypatch):
    monkeypatch.setattr(learners.importlib.util, "find_spec", lambda name: None)
    sentence = spoilt(run, *CANCER, "--learner", "trees")
    assert (
        "--learner trees needs lightgbm or xgboost, and neither is installed: pip install 'taskloss[boosting]'"
        in sentence
    )


@pytest.mark.parametrize("library", ["skops", "skops.io", "pandas"])
def test_what_is_not_installed_is_said_before_the_work(library, run, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    assert "pip install 'taskloss[files]'" in spoilt(run, *CANCER)


def test_an_interrupt_leaves_nothing_behind(run, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    before = sorted(pathlib.Path().iterdir())
    with monkeypatch.context() as during:
        during.setattr(fitting.learners, "pipeline", interrupted)
        code, _, err = run(*CANCER)
        assert (code, err.strip().splitlines()[-1]) == (130, "taskloss: interrupted; nothing was written.")
    monkeypatch.setattr(
        model_files, "save", lambda model, path: pathlib.Path(path).write_text("half") and interrupted()
    )
    assert run(*CANCER, "--learner", "linear", "--folds", "0")[0] == 130
    assert sorted(pathlib.Path().iterdir()) == before


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
