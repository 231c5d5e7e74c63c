"""Reports: complete, self-contained, and drawn without complaint by a real browser."""

import json
import re
import shutil
import subprocess
from datetime import date
from html.parser import HTMLParser

import numpy as np
import pytest

import cornerstep
from cornerstep.reporting import charts, section, write_page
from support.fitted_models import CLASSIFIERS, classifier, structured

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
VOID = {"meta", "link", "br", "img", "input", "line", "rect", "circle", "polyline"}


KEYS = """<script>
const plot = document.querySelector(".plot"), seen = [plot.innerHTML];
for (const key of ["+", "ArrowRight", "0"]) {
  plot.dispatchEvent(new KeyboardEvent("keydown", {key}));
  seen.push(plot.innerHTML);
}
document.title = [seen[1] !== seen[0] && "zoomed", seen[2] !== seen[1] && "moved",
                  seen[3] === seen[0] && "whole again"].join(", ");
</script>"""


class Balance(HTMLParser):
    """Every element that is opened is closed."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("most", [8, 12, 16])
def test_long_names_can_be_told_apart(most):
    names = [f"class_{k:03d}_of_many_with_a_long_name" for k in range(300)]
    short = charts.told_apart(names, most)
    assert len(set(short)) == 300
    assert max(map(len, short)) <= most
    assert charts.told_apart(["a", "b"], most) == ["a", "b"]
    assert charts.told_apart([names[0]] * 2, most) == [charts.shortened(names[0], most)] * 2


@pytest.mark.parametrize("size", [1e-9, 0.0613, 1.0, 99.4, 1e7])
def test_weights_in_units_have_two_digits(size):
    unit = charts.unit_of(np.array([-size, 0.3 * size]))
    assert 10 <= round(size / unit, 6) < 100


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_has_a_whole_page(name, tmp_path):
    model, data, labels = classifier(name)
    page = cornerstep.report(model, data, labels, tmp_path / "page.html", title="<b>&")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert "&lt;b&gt;&amp;" in page
    assert not re.search(r"https?://|src=|@import|<b>&", page)
    for heading in ("and bound", "Gap", "Confusion", "Margins", "Strongest"):
        assert heading in page
    assert ("Edges" in page) == ("trees" in name)
    assert "NaN" not in page


@pytest.mark.parametrize("name", ["chain", "own", "multilabel", "matching"])
def test_structured_models_have_pages_too(name):
    page = cornerstep.report(*structured(name))
    assert ("Transitions" in page) == (name == "chain")
    assert "Losses" in page


def test_transitions_times_their_unit_are_the_weights():
    model, X, y = structured("chain")
    page = cornerstep.report(model, X, y).partition("Transitions<")[2].partition("</table>")[0]
    unit = float(re.findall(r"in units of (.*?): ", page)[0])
    shown = [float(cell) for cell in re.findall(r"<td style.*?>(.*?)</td>", page)]
    weights = model.model_.split(model.coef_)["transitions"].ravel()
    np.testing.assert_allclose(unit * np.array(shown), weights, atol=0.5001 * unit)


def test_models_of_one_class_need_no_labels_and_others_say_so():
    X = np.random.default_rng(0).standard_normal((40, 3))
    page = cornerstep.report(cornerstep.OneClassHull(nu=0.2).fit(X), X)
    assert "outliers" in page
    assert "40 rows" in page
    y = np.arange(40) % 2
    for model in (cornerstep.MulticlassSVC(), cornerstep.ReducedHullSVR()):
        with pytest.raises(ValueError, match="y must be given"):
            cornerstep.report(model.fit(X, y), X)


def test_feature_names_are_shown():
    model, data, labels = classifier("linear")
    page = cornerstep.report(model, data, labels, feature_names=["one", "two", "three", "four"])
    assert "three →" in page
    assert "feature 1 →" not in page


def _drawn(name):
    """The lines of the charts of a page, by chart and name."""
    page = cornerstep.report(*classifier(name))
    parts = re.findall(r'<script type="application/json">(.*?)</script>', page)
    return [{line["name"]: line["y"] for line in json.loads(part)["series"]} for part in parts]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_lines_meet_and_leave_out_what_is_not_proven(name):
    """Objective and bound enclose the optimum from the first point on; the gap lies between."""
    model, _, _ = classifier(name)
    lines, gaps, *_ = _drawn(name)
    value, bound = np.array(list(lines.values()), dtype=float)
    sign = -1.0 if model.maximises else 1.0
    gap, known = np.array(gaps["gap"], dtype=float), np.isfinite(bound)
    assert known[0]
    eight_digits = 1e-7 * np.abs(value).max()
    np.testing.assert_allclose(gap[known], sign * (value - bound)[known], atol=eight_digits)
    assert (np.diff(sign * bound[known]) >= 0).all()
    assert value[-1] == pytest.approx(model.objective_, rel=1e-6)


def test_a_page_says_of_what_and_when_it_is():
    model, data, labels = classifier("linear")
    page = cornerstep.report(model, data, labels, data_name="irises")
    assert f"<dd>irises, {len(labels)} rows</dd>" in page
    assert f"cornerstep {cornerstep.__version__} on {date.today():%d %B %Y}" in page


def test_a_share_is_shown_only_where_one_was_asked_for():
    chain, data, labels = structured("chain")
    assert re.search(r"<dt>gap</dt><dd>[^(]*</dd>", cornerstep.report(chain, data, labels))
    assert re.search(r"<dt>gap</dt><dd>.*? %\)</dd>", cornerstep.report(*classifier("linear")))


FITS = """<script>
const wide = [];
for (const width of [376, 1000]) {
  document.body.style.width = width + "px";
  for (const box of document.querySelectorAll(".scroll, .grid"))
    if (box.scrollWidth > box.clientWidth + 1) wide.push(width + box.textContent.slice(0, 40));
}
document.title = wide.length ? wide.join("; ") : "fits";
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("n_classes", [3, 30, 300])
def test_tables_fit_any_width(n_classes, tmp_path):
    rng = np.random.default_rng(0)
    names = np.array([f"a rather long name of a class, number {k}" for k in range(n_classes)])
    y = names[np.arange(900) % n_classes]
    X = rng.standard_normal((900, 8))
    model = cornerstep.MulticlassSVC("top-k", k=2, C=0.1, tol=0.1, random_state=0).fit(X, y)
    page = cornerstep.report(
        model, X, y, feature_names=[f"measurement number {k}" for k in range(8)]
    )
    assert "<title>fits</title>" in _browsed(page + FITS, tmp_path).stdout


def _browsed(page, folder):
    assert BROWSER is not None
    (folder / "page.html").write_text(page, encoding="utf-8")
    return subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         "--virtual-time-budget=3000", f"--user-data-dir={folder / 'profile'}", "--dump-dom",
         (folder / "page.html").as_uri()],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_draws_every_chart_without_errors(tmp_path):
    parts = [
        section(*classifier(name), title=name)
        for name in ("linear", "hull", "trees, three classes")
    ]
    parts.append(section(*structured("chain"), title="chain"))
    write_page("All", parts, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    done = _browsed(text.replace("</body>", f"{KEYS}</body>"), tmp_path)
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "<title>zoomed, moved, whole again</title>" in done.stdout
    charts = re.findall(r'<div class="plot".*?</svg>', done.stdout, re.DOTALL)
    assert len(charts) == 9
    assert all('class="line bound"' in chart or 'class="line gap"' in chart for chart in charts)
    for chart in charts:
        drawn = re.findall(r'<polyline class="line \w+" points="([^"]+)"', chart)
        assert drawn
        assert all("NaN" not in points and "," in points for points in drawn)
        assert len(re.findall("<text", chart)) >= 4
