"""Files of rows and costs for tests of the command line, and a way to run it in a folder that has them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from taskloss.cli import main

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


def spoilt(run, *arguments):
    """The sentence of a command that is refused: one line on standard error, exit code 2, nothing on standard output."""
    code, out, err = run(*arguments)
    assert code == 2, (out, err)
    line = err.strip().splitlines()[-1]
    assert "Traceback" not in err
    assert [one for one in err.splitlines() if not one.startswith("fit ")] == [line]
    return line
