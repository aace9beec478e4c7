"""The status page in a browser: it shows the metrics and updates while rows are learned."""

import re

import httpx
import pytest
from benchmarks.service_process import ServerProcess

from headless import BROWSER, Headless
from processes import PATIENCE, wait_until
from serving_rows import rows

pytestmark = [pytest.mark.long, pytest.mark.skipif(BROWSER is None, reason="needs a browser: install chromium")]


@pytest.fixture(scope="module")
def one_browser(tmp_path_factory):
    one = Headless(tmp_path_factory.mktemp("browser") / "profile")
    yield one
    one.close()


@pytest.fixture
def browser(one_browser):
    """A headless browser without errors."""
    one_browser.open("about:blank", 800)
    one_browser.complaints.clear()
    one_browser.requested.clear()
    return one_browser


def learn(server, start, count, size=20):
    X, Y = rows(2000, seed=30)
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        for k in range(start, start + count):
            part = slice(size * k, size * k + size)
            body = {"id": f"page {k}", "rows": X[part].tolist(), "targets": Y[part].tolist()}
            assert client.post("/v2/models/point/learn", json=body).status_code == 202


def tile(name):
    """The number in a tile, -1 if there is none yet."""
    text = f"document.querySelector('#tiles dd[data-name=\"{name}\"]')?.textContent"
    return f"Number(({text} ?? '-1').replaceAll(',', ''))"


def rows_learned(server):
    """Rows that the model has learned, after the queue is empty."""
    found = {}

    def learned_all():
        text = httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text
        for name in ("ovk_queue_requests", "ovk_rows_learned_total"):
            found[name] = int(float(re.search(rf'{name}{{model="point"}} (.*)', text)[1]))
        return found["ovk_queue_requests"] == 0

    wait_until(learned_all, "end of learning", server.process)
    return found["ovk_rows_learned_total"]


def test_the_page_shows_the_metrics_and_follows_them(server, browser):
    learn(server, 0, 20)
    before = rows_learned(server)
    browser.open(server.url, 1280)
    browser.wait(f"{tile('rows learned')} === {before}")
    learn(server, 20, 10)
    browser.wait(f"{tile('rows learned')} === {before + 200}")
    browser.wait("document.getElementById('state').textContent === 'live'")
    metrics = httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text
    for learner in ("point", "wide", "last value", "running mean"):
        for output in ("y0", "y1"):
            value = float(
                re.search(rf'ovk_rolling_error{{learner="{learner}",model="point",output="{output}"}} (.*)', metrics)[1]
            )
            cell = (
                f'document.querySelector(\'#errors td[data-learner="{learner}"][data-output="{output}"]\').textContent'
            )
            assert float(browser.ask(cell)) == pytest.approx(value, rel=1e-3)
    coverage = float(re.search(r'ovk_interval_coverage{model="point",output="y0"} (.*)', metrics)[1])
    shown = browser.ask("document.querySelector('#coverage td[data-output=\"y0\"]').textContent")
    assert float(shown.rstrip("%")) == pytest.approx(100 * coverage, abs=0.06)
    assert browser.ask("document.querySelectorAll('#chart path').length") == 4
    assert browser.ask("document.querySelectorAll('#intervals circle').length") == 30
    assert not browser.complaints
    assert {url.split("?")[0].removeprefix(server.url) for url in browser.requested if not url.startswith("data:")} <= {
        "/",
        "/v2/models/point/events",
        "about:blank",
    }


def test_a_page_of_few_rows_says_when_more_is_shown(models, browser, tmp_path):
    with ServerProcess([models / "point.ovk", "--data", tmp_path]) as one:
        browser.open(one.url, 800)
        browser.wait(f"{tile('rows learned')} === 0")
        assert browser.ask("$('chart-text').textContent") == "No rows learned yet."
        learn(one, 0, 1, size=1)
        browser.wait(f"{tile('rows learned')} === 1")
        assert browser.ask("$('chart-text').textContent") == "Too few rows for a curve: 1."
        assert browser.ask("$('h-now').textContent") == "RMSE of the last row"
        learn(one, 1, 2, size=1)
        browser.wait("$('h-now').textContent === 'RMSE of the last 3 rows'")
        assert browser.ask("$('warnings').textContent") == "Warnings require 200 rows; 3 so far."
        # The circle of a prediction is visible inside the diamond of its outcome.
        assert browser.ask("getComputedStyle(document.querySelector('#intervals path.seen')).fill") == "none"
        assert one.terminate() == 0


def test_on_a_phone_with_a_keyboard_and_without_eyes(server, browser):
    learn(server, 30, 5)
    browser.open(server.url, 390)
    browser.wait(f"{tile('rows learned')} === {rows_learned(server)}")
    assert browser.ask("document.documentElement.scrollWidth <= 390")
    # A wide table scrolls independently.
    long = "document.querySelector('#who th:last-child').textContent = 'outlet_temperature'.repeat(5)"
    assert browser.ask(f"{long}; document.documentElement.scrollWidth <= 390")
    assert browser.ask("document.documentElement.lang") == "en"
    # Every figure has a text alternative, every field a label, every table header cells.
    assert browser.ask("[...document.querySelectorAll('svg[role=img]')].every(s => s.getAttribute('aria-labelledby'))")
    assert browser.ask("[...document.querySelectorAll('select, input')].every(f => f.labels.length > 0)")
    assert browser.ask("[...document.querySelectorAll('table')].every(t => t.querySelector('th'))")
    assert "point" in browser.ask("document.getElementById('chart-text').textContent")
    # The tab key reaches the skip link, then the two selects.
    reached = []
    for _ in range(3):
        browser.press("Tab", 9)
        reached.append(browser.ask("document.activeElement.id || document.activeElement.className"))
    assert reached == ["skip", "model", "output"]
    before = browser.ask("document.getElementById('chart-text').textContent")
    browser.ask(
        "const choice = document.getElementById('output'); choice.value = 'y1'; "
        "choice.dispatchEvent(new Event('change'))"
    )
    assert browser.ask("document.getElementById('chart-text').textContent") != before
    # The contrast of text is at least 4.5 to 1.
    contrast = """(() => {
      const part = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
      const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).map(v => part(v / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ground = getComputedStyle(document.body).backgroundColor;
      return Math.min(...[...document.querySelectorAll('label, dt, th, p.note, #state')].map(e => {
        const [a, b] = [light(getComputedStyle(e).color), light(ground)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05); }));
    })()"""
    assert browser.ask(contrast) >= 4.5
    assert not browser.complaints


def test_axes_have_round_numbers(server, browser):
    browser.open(server.url, 800)
    browser.wait(f"{tile('rows learned')} >= 0")
    for ends, words in {
        "0, 0.8641": ["0", "0.2", "0.4", "0.6", "0.8"],
        "-0.412, 2.249": ["0", "0.5", "1.0", "1.5", "2.0"],
        "0, 8748": ["0", "2000", "4000", "6000", "8000"],
        "0, 3e-7": ["0", "1e-7", "2e-7", "3e-7"],
        "1e6, 1.2e6": ["1.00e+6", "1.05e+6", "1.10e+6", "1.15e+6", "1.20e+6"],
        "5, 5": ["5.000"],
    }.items():
        assert browser.ask(f"ticks({ends}).map(tick => tick[1])") == words


def test_without_a_token_there_is_a_box_for_it_alone_and_what_predicts_only_says_so(models, browser, tmp_path):
    (tmp_path / "tokens").write_text("predict " + "p" * 20 + "\n")
    arguments = [models / "ridge.ovk", "--data", tmp_path / "data", "--tokens", tmp_path / "tokens"]
    shown = "document.body.innerText"
    with ServerProcess(arguments) as one:
        browser.open(one.url, 800)
        browser.wait("document.getElementById('ask')?.hidden === false")
        words = "Skip to content ovk: served models Token Connect token required"
        assert browser.ask(shown).split() == words.split()
        for token, words in {"wrong": "the token is not recognised", "p" * 20: "live"}.items():
            browser.ask(f"$('token').value = '{token}'; $('go').click()")
            browser.wait(f"$('state').textContent === '{words}'")
        assert "prediction only" in browser.ask(shown)
        for words in ("learned", "No warnings", "Error over time"):
            assert words not in browser.ask(shown)
        assert one.terminate() == 0


def test_a_complaint_would_be_noticed(server, browser):
    browser.open(server.url, 800)
    browser.wait(f"{tile('rows learned')} >= 0")
    browser.ask(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/x.png\" style=\"color: red\">')"
    )
    # Every answer includes the browser errors so far.
    wait_until(
        lambda: browser.ask("1") and any("Content Security Policy" in complaint for complaint in browser.complaints),
        "complaint",
    )
