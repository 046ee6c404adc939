"""The page of a diagnosis in a real browser: every control, both themes, a phone's width, and Python's own numbers."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.browser import chromium, emulate, settled
from tests.fitted import CASES, fitted

import taskloss as tl

NAMES = ["well", "watch & wait", "</script><b>ill"]
COSTS = np.array([[0.0, 4, 20], [1, 0, 5], [4, 2, 0]])


def labelled(seed=0, n=600):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(3, 0.7), n).astype(np.float32).astype(float)
    return q / q.sum(1, keepdims=True), (q.cumsum(1) < rng.random((n, 1))).sum(1)


def sets(seed=1, n=500, k=4):
    rng = np.random.default_rng(seed)
    p = rng.random((n, k)).astype(np.float32).astype(float)
    return p, (rng.random((n, k)) < p).astype(int)


def f_model():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 3))
    y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(500, 4)) > 0).astype(int)
    return tl.MultilabelClassifier("f-beta").fit(X[:200], y[:200]), X[200:], y[200:]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


def opened(driver, folder, found, width=1100, dark=False, hash_=""):
    emulate(driver, width, dark)
    found.to_html(folder / "page.html", overwrite=True)
    driver.get("about:blank")
    driver.get(f"file://{folder}/page.html{hash_}")
    return driver


def element(driver, selector):
    return driver.find_element("css selector", selector)


def click(driver, selector):
    found = element(driver, selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    found.click()
    settled(driver)


def typed(driver, field, value):
    field.clear()
    field.send_keys(str(value))
    settled(driver)


def result(driver):
    """What the page has computed: decisions, total cost, share passed on, confusion."""
    script = "const r = taskloss.result; return [Array.from(r.z), r.total, r.passed, r.confusion.map((row) => Array.from(row))];"
    z, total, passed, confusion = driver.execute_script(script)
    return np.array(z, dtype=int), total, passed, np.array(confusion)


def figure(driver, name):
    words = element(driver, f"[data-figure={name}] strong").text
    return float(words.replace(",", "").replace("\N{MINUS SIGN}", "-").rstrip(" %"))


def quiet(driver):
    assert [line for line in driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []


def stored(page):
    """The moments in a page, as they are computed with: float32."""
    data = json.loads(re.search(r'id="tl-data">(.*?)</script>', page, re.S)[1])
    return np.frombuffer(base64.b64decode(data["moments"]), dtype="<f4").reshape(data["n"], -1).astype(float)


def expected_labels(q, y, matrix, person):
    rows = matrix if person is None else np.vstack([matrix, np.full(3, person)])
    z = (q @ rows.T).argmin(1)
    confusion = np.zeros((len(rows), 3))
    np.add.at(confusion, (z, y), 1)
    return z, rows[z, y].sum(), confusion


def test_labels_are_decided_as_in_python(driver, tmp_path):
    """Every control for a cost matrix: cells, presets, grades, a person, reset, the link, and the examples that flip."""
    q, y = labelled()
    found = tl.diagnose(q, y=np.array(NAMES)[y], loss=COSTS, labels=NAMES)
    opened(driver, tmp_path, found)
    law = stored(found.to_html())

    def check(matrix, person=None):
        z, total, confusion = expected_labels(law, y, matrix, person)
        found_z, found_total, passed, found_confusion = result(driver)
        assert (found_z == z).all()
        assert np.isclose(found_total, total, rtol=1e-12)
        assert (found_confusion == confusion).all()
        assert np.isclose(passed, (z == 3).mean())
        assert np.isclose(figure(driver, "total"), total, rtol=1e-3)
        flips = z != expected_labels(law, y, COSTS, None)[0]
        assert figure(driver, "flips") == float(f"{flips.sum():.4g}")
        assert np.isclose(figure(driver, "passed"), 100 * (z == 3).mean(), rtol=1e-2)
        shown = [int(th.text) for th in driver.find_elements("css selector", "h3 + div tbody th")]
        assert shown == np.flatnonzero(flips)[: len(shown)].tolist()
        cells = driver.find_elements("css selector", ".confusion tbody td")
        assert [float(cell.text.replace(",", "")) for cell in cells] == confusion.ravel().tolist()

    check(COSTS)
    assert np.isclose(result(driver)[1] / len(y), found.realised.value)
    cells = driver.find_elements("css selector", ".matrix input")
    assert [cell.get_attribute("aria-label") for cell in cells][
        2
    ] == f"Cost of deciding {NAMES[0]} where it is {NAMES[2]}"
    typed(driver, cells[2], 7.5)
    edited = COSTS.copy()
    edited[0, 2] = 7.5
    check(edited)
    typed(driver, cells[2], "-")  # no number: marked, and the last one stays
    assert cells[2].get_attribute("aria-invalid") == "true"
    check(edited)
    typed(driver, cells[2], 7.5)
    click(driver, "#tl-person")
    check(edited, 5.0)
    typed(driver, element(driver, "#tl-price + input"), 0.8)
    check(edited, 0.8)
    assert 0 < figure(driver, "passed") < 100
    element(driver, "#tl-price").send_keys("\ue014")  # an arrow moves the slider by a hundredth
    settled(driver)
    check(edited, 1.0)
    link = element(driver, "#tl-link").get_attribute("value")
    opened(driver, tmp_path, found, hash_="#" + link.split("#")[1])
    check(edited, 1.0)
    cells = driver.find_elements("css selector", ".matrix input")
    assert float(cells[2].get_attribute("value")) == 7.5
    click(driver, "#tl-reset")
    check(COSTS)
    assert "#s=" not in element(driver, "#tl-link").get_attribute("value")
    gap = np.abs(np.subtract.outer(range(3), range(3))) * 1.0
    for choice, matrix in (("same", (gap > 0) * 1.0), ("distance", gap), ("squared", gap**2), ("fitted", COSTS)):
        click(driver, f"#tl-preset option[value={choice}]")
        check(matrix)
        assert element(driver, "#tl-preset").get_attribute("value") == choice
    click(driver, "fieldset summary")
    typed(driver, element(driver, "#tl-power + input"), 2)
    typed(driver, element(driver, "#tl-high + input"), 3)
    graded = np.where(np.subtract.outer(range(3), range(3)) > 0, 3 * gap**2, gap**2)
    check(graded)
    if driver.find_elements("css selector", "#tl-more"):
        before = len(driver.find_elements("css selector", "h3 + div tbody tr"))
        click(driver, "#tl-more")
        assert len(driver.find_elements("css selector", "h3 + div tbody tr")) > before
        check(graded)
    click(driver, "#tl-copy")
    assert element(driver, ".buttons [role=status]").text == "The link is copied."
    quiet(driver)


def test_two_labels_have_a_slider_and_weights_count(driver, tmp_path):
    rng = np.random.default_rng(3)
    p = rng.random(400).astype(np.float32).astype(float)
    y, w = (rng.random(400) < p).astype(int), rng.integers(1, 4, 400)
    found = tl.diagnose(np.column_stack([1 - p, p]), y=y, loss=[[0, 2], [1, 0]], sample_weight=w)
    opened(driver, tmp_path, found)
    typed(driver, element(driver, "#tl-ratio + input"), 6)
    law = stored(found.to_html())
    matrix = np.array([[0, 6], [1, 0]])
    z = (law @ matrix.T).argmin(1)
    found_z, total, _, confusion = result(driver)
    assert (found_z == z).all()
    weights = w * len(w) / w.sum()
    assert np.isclose(total, weights @ matrix[z, y])
    assert np.isclose(confusion.sum(), 400)
    quiet(driver)


def test_abstention_is_the_person(driver, tmp_path):
    q, y = labelled(4)
    found = tl.diagnose(q, y=y, loss=tl.losses.Abstain(cost=0.3))
    opened(driver, tmp_path, found)
    assert element(driver, "#tl-person").is_selected()
    law = stored(found.to_html())
    for price in (0.3, 0.1):
        z = (law @ np.vstack([1 - np.eye(3), np.full(3, price)]).T).argmin(1)
        assert (result(driver)[0] == z).all()
        assert np.isclose(result(driver)[2], (z == 3).mean())
        typed(driver, element(driver, "#tl-price + input"), 0.1)
    click(driver, "#tl-person")
    assert (result(driver)[0] == law.argmax(1)).all()
    assert figure(driver, "passed") == 0
    quiet(driver)


def test_label_sets_are_decided_as_in_python(driver, tmp_path):
    p, y = sets()
    found = tl.diagnose(p, y=y, loss="hamming")
    opened(driver, tmp_path, found)
    law = stored(found.to_html())

    def check(miss, alarm, price=np.inf):
        z = (alarm * (1 - law) < miss * law).astype(int)
        risk = np.where(z == 1, alarm * (1 - law), miss * law).sum(1)
        losses = np.where(z > y, alarm, 0).sum(1) + np.where(z < y, miss, 0).sum(1)
        passed = price < risk
        found_z, total, share, confusion = result(driver)
        assert (found_z.reshape(-1, 5)[:, :4] == z).all()
        assert np.isclose(total, np.where(passed, price, losses).sum(), rtol=1e-10)
        assert np.isclose(share, passed.mean())
        kept = ~passed
        assert (confusion[:, 1] == ((z == 0) & (y == 1))[kept].sum(0)).all()
        assert (confusion[:, 2] == ((z == 1) & (y == 0))[kept].sum(0)).all()

    quarter = np.full(4, 0.25)
    check(quarter, quarter)
    assert np.isclose(result(driver)[1] / len(y), found.realised.value)
    typed(driver, element(driver, "#tl-ratio + input"), 3)
    check(3 * quarter, quarter)
    click(driver, "fieldset summary")
    typed(driver, driver.find_elements("css selector", ".matrix input")[3], 1)
    alarm = quarter.copy()
    alarm[1] = 1
    check(3 * quarter, alarm)
    click(driver, "#tl-person")
    typed(driver, element(driver, "#tl-price + input"), 0.4)
    check(3 * quarter, alarm, 0.4)
    quiet(driver)


def test_f_measures_are_decided_as_in_python(driver, tmp_path):
    model, X, y = f_model()
    found = tl.diagnose(model, X, y)
    opened(driver, tmp_path, found)
    mu = stored(found.to_html())
    for beta in (1, 2.5, 0.4):
        typed(driver, element(driver, "#tl-beta + input"), beta)
        loss = found.evidence.loss.with_params(beta=float(beta))
        z = loss.decode(mu)
        found_z, total, _, _ = result(driver)
        assert (found_z.reshape(len(y), -1)[:, :-1] == z).all()
        assert np.isclose(total, loss(z, y).sum())
    quiet(driver)


@pytest.mark.parametrize("width", [390, 1100])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_and_reads_in_both_themes(driver, tmp_path, width, dark):
    """No part is wider than the window, text stands out from its ground by 4.5 to 1, every control has a name."""
    q, y = labelled()
    opened(driver, tmp_path, tl.diagnose(q, y=np.array(NAMES)[y], loss=COSTS, labels=NAMES), width, dark)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width

    def paper():
        return driver.execute_script("return getComputedStyle(document.body).backgroundColor")

    assert (sum(map(int, re.findall(r"\d+", paper()))) < 200) == dark
    worst = driver.execute_script(CONTRAST)
    assert worst[0] >= 4.5, worst
    nameless = driver.execute_script(
        "return [...document.querySelectorAll('input, select, button')].filter((e) => !e.computedName && !(e.labels?.length) && "
        "!e.getAttribute('aria-label') && !e.textContent).map((e) => e.outerHTML)"
    )
    assert nameless == []
    first = paper()
    seen = {first}
    for _ in range(3):
        click(driver, "#theme")
        seen.add(paper())
    assert len(seen) == 2
    assert paper() == first
    assert "system" in element(driver, "#theme").text
    quiet(driver)


# The least contrast between a text and the first ground behind it that is not clear.
CONTRAST = """
const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b; };
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
let worst = [99, ""];
for (const e of document.querySelectorAll(".tl *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || e.closest("svg, script, style, noscript, .confusion, :disabled, .skip")) continue;
  let ground = e;
  while (ground && (rgb(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
  const a = light(rgb(getComputedStyle(e).color).slice(0, 3)), b = light(rgb(getComputedStyle(ground ?? document.body).backgroundColor).slice(0, 3));
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 200)];
}
return worst;
"""


@pytest.mark.parametrize(
    "hash_", ["#s=nonsense", "#s=%7B%22person%22%3Anull%2C%22matrix%22%3A%5B%5B1%5D%5D%7D", "#s=%E0%A4%A", "#parts"]
)
def test_a_broken_link_shows_the_report(driver, tmp_path, hash_):
    q, y = labelled()
    opened(driver, tmp_path, tl.diagnose(q, y=y, loss=COSTS), hash_=hash_)
    assert driver.execute_script("return taskloss.settings.matrix") == COSTS.tolist()
    if hash_ != "#parts":
        assert "not of this page" in element(driver, ".buttons [role=status]").text
    quiet(driver)


def test_a_keyboard_reaches_every_control(driver, tmp_path):
    q, y = labelled()
    opened(driver, tmp_path, tl.diagnose(q, y=y, loss=COSTS))
    want = driver.execute_script(
        "const all = [...document.querySelectorAll('a[href], button, input:not(:disabled), select, summary')]"
        ".filter((e) => e.checkVisibility()); all.forEach((e, i) => { e.dataset.place = i; }); return all.length;"
    )
    seen, hidden = set(), []
    for _ in range(want + 20):
        driver.switch_to.active_element.send_keys("\ue004")
        place, html = driver.execute_script(HIDDEN)
        seen.add(place)
        hidden += [html] if html else []
    assert {int(place) for place in seen - {None}} == set(range(want))
    assert hidden == []


# Where the focus is, and what has it where something else lies over it.
HIDDEN = """
const e = document.activeElement, box = e.getBoundingClientRect();
const over = document.elementFromPoint(box.x + box.width / 2, box.y + Math.min(box.height / 2, 20));
const seen = !over || e === document.body || e.matches(".scroll") || e.contains(over) || over.contains(e);
return [e.dataset.place ?? null, seen ? null : e.outerHTML.slice(0, 200)];
"""


def test_estimators_read_in_both_themes(driver, tmp_path):
    shown = "".join(fitted(name)._repr_html_() for name in ("cost matrix", "averaged", "tagger", "recalibrated"))
    bad = tl.TaskLossEstimator(max_iter=1)
    with pytest.warns(ConvergenceWarning):
        bad.fit(*CASES["general"][1])
    head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    (tmp_path / "cells.html").write_text(f"{head}{shown}{bad._repr_html_()}", encoding="utf-8")
    for dark in (False, True):
        emulate(driver, 390, dark)
        driver.get(f"file://{tmp_path}/cells.html")
        worst = driver.execute_script(CONTRAST.replace(".confusion,", ".confusion, details,"))
        assert worst[0] >= 4.5, worst
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        assert [e.text for e in driver.find_elements("css selector", ".pill")][-1] == "not converged"
    quiet(driver)


# -- what needs no browser ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_notebooks_show_every_estimator(name):
    """Before the fit and after: its class, its loss, how the fit ended; scikit-learn's diagram below; or text, as set there."""
    model = fitted(name)
    for estimator in (clone(CASES[name][0]), model):
        page = estimator._repr_mimebundle_()["text/html"]
        balanced(page.partition("<details>")[0] + "</div>")
        assert f"<strong>{type(estimator).__name__}</strong>" in page
        assert "sk-top-container" in page
    solution = getattr(model, "solution_", None)
    word = "fitted" if solution is None else "converged" if solution.converged else "not converged"
    assert f">{word}</span>" in page
    if hasattr(model, "loss_"):
        assert type(model.loss_).__name__ in page
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")


def balanced(page):
    """Every tag that is opened is closed, in order."""

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open = []

        def handle_starttag(self, tag, attrs):
            if tag not in ("input", "meta", "link", "br", "path", "rect", "line", "circle"):
                self.open.append(tag)

        def handle_endtag(self, tag):
            if tag not in ("path", "rect", "line", "circle"):
                assert self.open.pop() == tag

    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open


def test_hyperparameters_of_any_kind_are_shown():
    for bad in (None, 3, "<i>", object(), [["a"]]):
        page = tl.TaskLossEstimator(loss=bad, surrogate=bad, hypothesis=bad, alpha=bad)._repr_html_()
        assert "<i>" not in page.split("<details>")[0]


def test_pages_hold_all_that_they_need():
    q, y = labelled(n=60)
    page = tl.diagnose(q, y=np.array(NAMES)[y], loss=COSTS, labels=NAMES).to_html(title="A & B")
    assert "<title>A &amp; B</title>" in page
    assert "</script><b>ill" not in page
    assert not re.search(r"""(src|href)=["'](?!#|data:)|@import|url\(""", page)
    assert page.count("<h1") == 1
    balanced(page)


def test_large_data_are_thinned_and_said_to_be():
    from taskloss.report import explorer

    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 400)
    y = (q.cumsum(1) < rng.random((400, 1))).sum(1)
    found = tl.diagnose(q, y=y, loss=COSTS)
    most, explorer._EXAMPLES = explorer._EXAMPLES, 150
    try:
        data = explorer.payload(found.evidence)
        assert "150 of the 400 examples" in found.to_html()
    finally:
        explorer._EXAMPLES = most
    law = np.frombuffer(base64.b64decode(data["moments"]), "<f4").reshape(150, 3)
    assert np.allclose(law, q[data["ids"]])
    assert (np.frombuffer(base64.b64decode(data["codes"]), "u1") == y[data["ids"]]).all()


def test_costs_per_example_have_no_explorer():
    q, y = labelled(n=60)
    page = tl.diagnose(q, y=y, costs=np.ones((60, 3))).to_html()
    assert "there is no one table to edit" in page
    assert "tl-data" not in page
