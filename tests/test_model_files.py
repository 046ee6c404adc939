"""Files of models: safe to load, and clear about what they are."""

import pickle

import pytest
from sklearn.base import clone

import taskloss as tl
from fitted import CODES, X
from taskloss import cli
from taskloss.model_files import FORMAT, Portable, load, save

skops = pytest.importorskip("skops.io")


class Stored(Portable, tl.KernelPredictor):
    """An estimator as it is stored."""


class Stranger:
    """A type of somebody else."""


@pytest.fixture
def model():
    return Stored("absolute").fit(X, CODES)


def test_a_model_comes_back(model, tmp_path):
    save(model, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops", trusted=[f"{__name__}.Stored"])
    assert again.predict_moments(X).tobytes() == model.predict_moments(X).tobytes()


def test_types_that_nobody_vouched_for_are_named(model, tmp_path):
    model.note = Stranger()
    save(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match=rf"nobody has vouched for: .*{__name__}.Stranger.*pass trusted="):
        load(tmp_path / "model.skops", trusted=[f"{__name__}.Stored"])


def test_functions_of_the_package_are_not_trusted_unasked(model, tmp_path):
    model.note = cli.main
    save(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match=r"taskloss\.cli\.main"):
        load(tmp_path / "model.skops", trusted=[f"{__name__}.Stored"])


@pytest.mark.parametrize(("found", "version"), [(None, None), (FORMAT + 1, "9.9")])
def test_another_format_gets_one_sentence(model, found, version, tmp_path):
    state = model.__getstate__()
    for key, value in (("_taskloss_format", found), ("_taskloss_version", version)):
        if value is None:
            del state[key]
        else:
            state[key] = value
    with pytest.raises(
        ValueError, match=f"was stored by taskloss .* in format {found}, and taskloss .* reads format {FORMAT}: fit it"
    ):
        Stored().__setstate__(state)


def test_the_format_is_no_attribute_of_a_model(model):
    again = pickle.loads(pickle.dumps(model))
    assert sorted(vars(again)) == sorted(vars(model))
    assert clone(again).get_params() == clone(model).get_params()
