"""Tests of the contents of reports, and that a browser shows them without network access."""

import json
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from ovk import OLOK, OVKRidgeCV, progressive
from ovk.app.report import report
from ovk.app.report.page import WIDTH
from ovk.app.sessions import Settings, fit_table, result_summary
from ovk.app.tables import open_records
from ovk.evaluation import RecentErrors
from ovk.plotting import CalibrationDisplay, ResidualDisplay
from ovk.plotting.display import date_axis, pyplot

plt = pyplot()

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


def result(n=600, d=3, **options):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.sin(X @ rng.standard_normal((2, d))) + 0.1 * rng.standard_normal((n, d))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    return progressive(OLOK(truncation=200), X, Y, untested=50, keep="all", **options)


class Page(HTMLParser):
    """Elements of a page and their links."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.sources, self.ids, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.sources += [values[name] for name in ("src", "href", "action") if name in values]
        self.ids += [values["id"]] if "id" in values else []
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)
        if tag == "img":
            assert values["alt"] or values.get("role") == "presentation", "a picture that cannot be seen needs words"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, "elements are closed in order"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    columns = [("<b>x</b>", "input", 1.0, 0.0, 1.0), ("y0", "output", 0.7, 0.0, 1.0)]
    known = {"columns": columns, "settings": {"lags": [1, 2], "kernel": None}, "warnings": ["<i>Doubt</i>"]}
    summary = replace(result_summary(result()), **known, readings={"<u>z</u>": "not used: <s>why</s>"})
    return report(summary, path, title="A <script>alert(1)</script> title", notes=["A note & more."])


def test_a_report_is_complete_and_self_contained(page):
    text = page.read_text(encoding="utf-8")
    found = Page(text)
    assert not found.open
    assert found.ids == [
        "summary",
        "recent",
        "errors",
        "drift",
        "calibration",
        "structure",
        "growth",
        "data",
        "settings",
    ]
    assert found.tags.count("img") == 3 + 1 + 3 + 2 + 3 + 1 + 3 + 3  # the last ones are signs of legends
    assert "script" not in found.tags
    assert all(source.startswith("data:") for source in found.sources)
    assert "&lt;script&gt;" in text
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert not {"i", "u", "s"} & {*found.tags}
    assert "A note &amp; more." in text
    for word in ("last value", "running mean", "ovk", "NumPy", "lags", "1, 2"):
        assert word in text


@pytest.mark.long
def test_results_without_predictions(tmp_path):
    text = report(result(300, 1), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "There is only one output." in text
    assert "model (OLOK)" in text
    X = np.linspace(0, 1, 50)[:, None]
    plain = progressive(OLOK(), X, X, keep="none", baselines=[])
    assert Page(report(plain, tmp_path / "p.html").read_text(encoding="utf-8")).ids[:2] == ["summary", "errors"]
    summary = result_summary(plain, RecentErrors.empty(1))
    assert "calibration" not in Page(report(summary, tmp_path / "e.html").read_text(encoding="utf-8")).ids


def test_an_output_that_is_always_missing(tmp_path):
    X = np.linspace(0, 1, 80)[:, None]
    Y = np.hstack([X, np.full_like(X, np.nan)])
    found = progressive(OLOK(), X, Y, keep="all")
    assert Page(report(found, tmp_path / "r.html").read_text(encoding="utf-8")).tags.count("img") > 5


def test_a_result_without_rows_has_no_report(tmp_path):
    empty = progressive(OLOK(), np.empty((0, 1)), np.empty((0, 1)))
    with pytest.raises(ValueError, match="no errors to report"):
        report(empty, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def visit(page, directory, width):
    """Console messages of the page, and addresses that it requested."""
    net, shot = directory / "net.json", directory / "shot.png"
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        f"--user-data-dir={directory / 'profile'}", f"--window-size={width},900", f"--log-net-log={net}",
        "--net-log-capture-mode=Default", "--enable-logging=stderr", "--v=0", f"--screenshot={shot}", page.as_uri(),
    ]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert struct.unpack(">II", shot.read_bytes()[16:24]) == (width, 900)
    text = net.read_text(encoding="utf-8").rstrip()
    text = text if text.endswith("}") else text.rstrip(",") + "]}"
    urls = {event["params"]["url"] for event in json.loads(text)["events"] if "url" in event.get("params", {})}
    # Requests for updates of the browser are not those of the page.
    ours = {url for url in urls if not re.match(r"(https?://[^/]*(google|gstatic|gvt1)[^/]*/|chrome)", url)}
    return [line for line in found.stderr.splitlines() if "CONSOLE" in line], ours


@pytest.mark.long
@pytest.mark.skipif(BROWSER is None, reason="needs a browser: install chromium")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_without_errors_or_network(page, tmp_path, width):
    console, urls = visit(page, tmp_path, width)
    assert not console
    assert {url.split(":", 1)[0] for url in urls} <= {"file", "data"}


@pytest.mark.long
@pytest.mark.skipif(BROWSER is None, reason="needs a browser: install chromium")
def test_errors_and_requests_of_a_page_are_detected(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('no')</script><img src='http://127.0.0.1:9/x.png'>", encoding="utf-8")
    console, urls = visit(bad, tmp_path, 500)
    assert console
    assert "http://127.0.0.1:9/x.png" in urls


@pytest.mark.long
@pytest.mark.skipif(BROWSER is None, reason="needs a browser: install chromium")
def test_no_element_overflows_on_a_phone(page, tmp_path):
    """The browser measures the elements, with a script in a copy of the page without its policy."""
    script = (
        "<script>addEventListener('load',()=>{const w=document.documentElement;document.title=JSON.stringify({"
        "inner:innerWidth,scroll:w.scrollWidth,"
        "cut:[...document.querySelectorAll('.wide')].filter(e=>e.scrollWidth>e.clientWidth).length,images:[...document.images].filter(i=>i.naturalWidth>0).length,"
        "headings:[...document.querySelectorAll('h2')].map(h=>h.textContent)})})</script>"
    )
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    copy = tmp_path / "copy.html"
    copy.write_text(text.replace("</body>", script + "</body>"), encoding="utf-8")
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=390,900",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", copy.as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=600).stdout
    found = json.loads(re.search(r"<title>(.*?)</title>", dom)[1].replace("&amp;", "&"))
    assert found["scroll"] <= found["inner"]
    assert found["cut"] == 0, "tables fit without scrolling"
    assert found["images"] == 19  # thirteen plots, and six signs of legends
    assert "Related outputs" in found["headings"]


def test_dates_of_axes_agree_with_their_ticks():
    """Dates are correct at the end of a month and at midnight."""
    for first, step, count, common in (
        ("2024-04-24T15", "h", 150, "2024"),
        ("2023-11-20T00", "D", 90, "2023 to 2024"),
        ("2024-04-25T12", "m", 1440, "25 Apr 2024 to 26 Apr 2024"),
    ):
        _, ax = plt.subplots()
        ax.plot(np.datetime64(first) + np.arange(count).astype(f"timedelta64[{step}]"), np.arange(count))
        date_axis(ax)
        ax.figure.canvas.draw()
        labels = [label.get_text() for label in ax.get_xticklabels()]
        plt.close(ax.figure)
        assert ax.xaxis.get_offset_text().get_text() == common
        if step == "h":
            assert labels == ["25 Apr", "26", "27", "28", "29", "30", "01 May"]


@pytest.mark.long
def test_alarms_and_poor_coverage_are_explained(tmp_path):
    """Errors are ten times larger in the second half."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 1))
    Y = X + np.where(np.arange(2000) < 1000, 0.1, 1.0)[:, None] * rng.standard_normal((2000, 1))
    found = progressive(OLOK(), X, Y, keep="all")
    text = report(found, tmp_path / "r.html").read_text(encoding="utf-8")
    assert found.drift.alarms
    assert "where predictions became worse" in text
    assert "ovk stream without --model" in text
    assert "faster than the intervals adapt" in text
    calm = report(progressive(OLOK(), X, X, keep="all"), tmp_path / "c.html").read_text(encoding="utf-8")
    assert "No drift alarm was raised." in calm


def test_reports_of_table_models_and_not_of_estimators(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i % 7},{i % 7}\n" for i in range(100)))
    with open_records(path) as records:
        fitted = fit_table(records, Settings(["y"]))
    page = report(fitted, tmp_path / "t.html", title="Sevens")
    assert "<h1>Sevens</h1>" in page.read_text(encoding="utf-8")
    with pytest.raises(TypeError, match=r"does not support OVKRidgeCV.*fit_file"):
        report(OVKRidgeCV(), tmp_path / "t.html")


def fitted_table(tmp_path, **settings):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (900, 2))
    Y = np.column_stack([np.sin(X).sum(axis=1), 1e4 * X[:, 0] + 100 * rng.standard_normal(900)])
    days = np.datetime64("2022-01-01") + np.arange(900)
    rows = [f"{day},{a:.4f},{b:.4f},{u:.4f},{v:.1f}" for day, (a, b), (u, v) in zip(days, X, Y, strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("day,a,b,u,v\n" + "\n".join(rows) + "\n")
    with open_records(path) as records:
        return fit_table(records, Settings(["u", "v"], kernel="linear", coupling=0.5, **settings))


def test_rows_without_order_are_drawn_as_outcomes_against_predictions(tmp_path):
    text = report(fitted_table(tmp_path), tmp_path / "t.html").read_text(encoding="utf-8")
    assert "Outcomes of u against their predictions" in text
    assert "The last predictions and outcomes" not in text
    # One table with one kind of error, and no arrays of predictions.
    assert text.count("RMSE</th>") == 1
    assert "Mean squared error," not in text
    assert "array(" not in text
    assert "ridge regression, Linear kernel" in text


def test_rows_in_time_are_drawn_along_it(tmp_path):
    text = report(fitted_table(tmp_path, time=["day"]), tmp_path / "t.html").read_text(encoding="utf-8")
    assert "The last predictions and outcomes of u" in text
    assert "<p>The last 150 of 180 rows.</p>" in text
    assert "against their predictions" not in text


def test_coverage_of_few_rows_has_long_bars():
    rng = np.random.default_rng(0)
    heights = []
    for n in (60, 600):
        recent = RecentErrors.empty(1)
        recent.update(np.zeros((n, 1)), rng.standard_normal((n, 1)))
        display = CalibrationDisplay.from_recent(recent)
        [bars] = display.ax_.collections
        heights.append([float(np.ptp(bar[:, 1])) for bar in bars.get_segments()])
        plt.close(display.figure_)
    assert all(few > 2 * many for few, many in zip(*heights, strict=True))


def test_labels_of_residuals_fit_beside_long_names():
    rng = np.random.default_rng(0)
    recent = RecentErrors.empty(2)
    recent.update(np.zeros((60, 2)), rng.standard_normal((60, 2)))
    display = ResidualDisplay.from_recent(recent, names=["outlet temperature (deg C)", "flow [l/min]"])
    display.figure_.set_size_inches(WIDTH, display.figure_.get_size_inches()[1])  # as on a page
    display.figure_.canvas.draw()
    page, label = display.figure_.bbox, display.ax_.xaxis.label.get_window_extent()
    plt.close(display.figure_)
    assert label.x0 >= page.x0
    assert label.x1 <= page.x1
    assert label.y0 >= page.y0


def test_narrow_intervals_of_a_stream_are_explained(tmp_path):
    rng = np.random.default_rng(0)
    recent = RecentErrors.empty(1)
    # The noise grows between updates of the intervals.
    loud = np.exp(np.arange(2000) / 200)[:, None]
    recent.update(np.zeros((2000, 1)), loud * rng.standard_normal((2000, 1)))
    assert recent.shown.coverage[0] < 0.8
    text = report(result_summary(result(d=1), recent), tmp_path / "r.html").read_text(encoding="utf-8")
    assert "errors changed along the rows" in text
    assert "progressive(..., intervals=0.9)" in text
