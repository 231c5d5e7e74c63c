"""Reports: complete, self-contained, and drawn without complaint by a real browser."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

import cornerstep
from cornerstep.reporting import section, write_page
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


def test_feature_names_are_shown():
    model, data, labels = classifier("linear")
    page = cornerstep.report(model, data, labels, feature_names=["one", "two", "three", "four"])
    assert "three →" in page
    assert "feature 1 →" not in page


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_draws_every_chart_without_errors(tmp_path):
    assert BROWSER is not None
    parts = [
        section(*classifier(name), title=name)
        for name in ("linear", "hull", "trees, three classes")
    ]
    parts.append(section(*structured("chain"), title="chain"))
    write_page("All", parts, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(text.replace("</body>", f"{KEYS}</body>"), encoding="utf-8")
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         "--virtual-time-budget=3000", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
         (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "<title>zoomed, moved, whole again</title>" in done.stdout
    charts = re.findall(r'<div class="plot".*?</svg>', done.stdout, re.DOTALL)
    assert len(charts) == 9
    for chart in charts:
        drawn = re.findall(r'<polyline class="line s\d" points="([^"]+)"', chart)
        assert drawn
        assert all("NaN" not in points and "," in points for points in drawn)
        assert len(re.findall("<text", chart)) >= 4
