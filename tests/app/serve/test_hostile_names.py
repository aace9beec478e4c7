"""Names of columns, words and outputs that contain markup, in a browser: they are text and nothing runs."""

import numpy as np
import pytest
from benchmarks.service_process import ServerProcess

import ovk
from headless import BROWSER, Headless
from ovk.app.report import report
from ovk.app.sessions import Settings, learn
from ovk.app.tables import open_records

pytestmark = [pytest.mark.long, pytest.mark.skipif(BROWSER is None, reason="needs a browser: install chromium")]

RUN = "document.documentElement.dataset.ran = 1"
#: What would run if it reached HTML, an attribute, a script or a picture as it is.
NAMES = [
    f"<img src=x onerror='{RUN}'>",
    f"</script><script>{RUN}</script>",
    f"\" onmouseover='{RUN}' x=\"",
    f"</text><script>{RUN}</script>${{{RUN}}}",
    "</title></style><svg onload=alert(1)>\u2028\u202e&lt;b&gt;",
]


@pytest.fixture
def browser(tmp_path):
    one = Headless(tmp_path / "profile")
    yield one
    one.close()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A stream whose inputs and outputs have these names, and a table of words that are markup too."""
    path = tmp_path_factory.mktemp("names") / "t.csv"
    rng = np.random.default_rng(0)
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    lines = [",".join(quoted)]
    for x, noise in rng.standard_normal((300, 2)).tolist():
        lines.append(f"{x!r},{quoted[0] if x > 0 else quoted[1]},{noise!r},{2 * x!r},{x + noise!r}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_records(path) as records:
        return learn(records, Settings(NAMES[3:], model="pkawv", warm_up=100))


def check_nothing_ran(browser):
    assert browser.ask("document.documentElement.dataset.ran") is None
    assert browser.ask("document.querySelectorAll('img[onerror], [onmouseover], [onload]').length") == 0
    assert not browser.complaints


def test_the_status_page_shows_hostile_names_as_text(session, browser, tmp_path):
    ovk.save(session, tmp_path / "m.ovk")
    with ServerProcess([tmp_path / "m.ovk", "--data", tmp_path / "data"]) as server:
        browser.open(server.url, 1280)
        browser.wait("document.getElementById('state')?.textContent === 'live'")
        shown = browser.ask("document.body.textContent")
        check_nothing_ran(browser)
        assert server.terminate() == 0
    assert all(name[:30] in shown for name in NAMES[3:])


def test_a_report_shows_hostile_names_as_text(session, browser, tmp_path):
    page = report(session.summary(), tmp_path / "r.html", title=NAMES[1])
    browser.open(page.as_uri(), 1280)
    browser.wait("document.readyState === 'complete'")
    shown = browser.ask("document.body.textContent")
    check_nothing_ran(browser)
    assert browser.ask("document.title") == NAMES[1]
    assert all(name[:30] in shown for name in NAMES)
