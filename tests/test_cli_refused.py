"""What the command line refuses: one sentence, exit code 2, and nothing lost."""
# ruff: noqa: F811

import pathlib
import sys
import zipfile

import pandas as pd
import pytest
from tests.cli_files import CANCER, ROWS, place, run, spoilt  # noqa: F401

import taskloss as tl
from taskloss import model_files
from taskloss.cli import fitting, learners

pytest.importorskip("skops")


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
