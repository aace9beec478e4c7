"""The progress bar appears only on a terminal and for long computations."""

import io

import pytest

from ovk.base import execution as _progress
from ovk.base.execution import ProgressBar, progress_line, progress_shown, progress_to, track


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test winds."""

    class TimestampParser:
        now = 100.0

    monkeypatch.setattr(_progress.time, "monotonic", lambda: TimestampParser.now)
    return TimestampParser


@pytest.fixture(autouse=True)
def no_wish(monkeypatch):
    monkeypatch.delenv("OVK_PROGRESS", raising=False)


def work(stream, clock, seconds, total=4, steps=4):
    with ProgressBar("solving", total=total, stream=stream) as bar:
        for _ in range(steps):
            clock.now += seconds
            bar.update()
        drawn = stream.getvalue()
    assert bar.count == steps
    return drawn


def test_long_work_on_a_terminal_is_drawn_and_wiped(clock):
    stream = Stream(True)
    drawn = work(stream, clock, 30.0)
    assert "solving" in drawn
    assert " 25%  0:30 elapsed, 1:30 left" in drawn
    assert "100%  2:00 elapsed, 0:00 left" in drawn
    assert "█" * _progress.BAR_WIDTH in drawn
    assert stream.getvalue() == drawn + "\r\x1b[2K"


def test_nobody_looks(clock):
    stream = Stream(False)
    work(stream, clock, 30.0)
    assert stream.getvalue() == ""


def test_short_work_is_not_drawn(clock):
    stream = Stream(True)
    work(stream, clock, 0.2)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("wish", "terminal", "drawn"), [("1", False, True), ("0", True, False), ("", True, True)])
def test_the_wish_overrules(clock, monkeypatch, wish, terminal, drawn):
    monkeypatch.setenv("OVK_PROGRESS", wish)
    stream = Stream(terminal)
    work(stream, clock, 30.0)
    assert bool(stream.getvalue()) is drawn


def test_it_is_not_drawn_too_often(clock):
    stream = Stream(True)
    work(stream, clock, 0.01, total=1000, steps=300)
    # Three seconds of work: nothing in the first, then ten drawings a second.
    assert 15 <= stream.getvalue().count("solving") <= 21


def test_without_a_total_it_counts(clock):
    stream = Stream(True)
    drawn = work(stream, clock, 3000.0, total=None, steps=2)
    assert "solving 1  50:00" in drawn
    assert "solving 2  1:40:00" in drawn
    assert "%" not in drawn


def test_more_than_the_total_is_all_of_it(clock):
    drawn = work(Stream(True), clock, 10.0, total=2, steps=3)
    assert drawn.count("100%") == 2


def test_nothing_done_yet_has_no_end(clock):
    stream = Stream(True)
    bar = ProgressBar("waiting", total=5, stream=stream)
    clock.now += 10.0
    bar.update(0)
    assert "  0%  0:10 elapsed, ? left" in stream.getvalue()


def test_it_is_wiped_after_an_error(clock):
    stream = Stream(True)

    def fail():
        with ProgressBar("failing", total=2, stream=stream) as bar:
            clock.now += 10.0
            bar.update()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_track(clock, monkeypatch):
    stream = Stream(True)
    monkeypatch.setattr(_progress.sys, "stderr", stream)

    def slow(items):
        for item in track(items, "counting"):
            clock.now += 10.0
            yield item

    assert list(slow([1, 2])) == [1, 2]
    assert "50%" in stream.getvalue()
    assert list(slow(iter("ab"))) == ["a", "b"]
    assert "counting 2" in stream.getvalue()
    assert list(track(iter("abc"), "known", total=3)) == ["a", "b", "c"]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_that_is_asked_for_is_shown_at_once_and_wherever(clock, terminal):
    stream = Stream(terminal)
    with progress_shown(True):
        assert "solving" in work(stream, clock, 0.2)
    stream = Stream(terminal)
    with progress_shown(True), progress_shown(False), progress_shown(None):
        assert work(stream, clock, 30.0) == ""


def nested(clock, stream, steps=5):
    with ProgressBar("outer", total=steps, stream=stream) as outer:
        for _ in range(steps):
            with ProgressBar("inner", total=2, stream=stream) as inner:
                for _ in range(2):
                    clock.now += 2.0
                    inner.update()
            outer.update()


def test_one_bar_is_shown_at_a_time(clock):
    stream = Stream(True)
    nested(clock, stream)
    labels = [line.split()[0] for line in stream.getvalue().split("\r\x1b[2K") if line]
    # The inner bar until the outer one is visible, which then stays.
    assert labels == ["inner"] * 2 + ["outer"] * 5


def test_a_bar_that_was_never_ended_gives_way(clock):
    abandoned = ProgressBar("abandoned", total=2, stream=Stream(True))
    clock.now += 10.0
    abandoned.update()
    del abandoned
    assert "solving" in work(Stream(True), clock, 30.0)


def test_what_is_no_terminal_gets_a_line_every_ten_seconds(clock, monkeypatch):
    monkeypatch.setenv("OVK_PROGRESS", "1")
    stream = Stream(False)
    work(stream, clock, 1.0, total=40, steps=40)
    lines = stream.getvalue().splitlines()
    assert lines == [
        "solving   2%  0:01 elapsed, 0:39 left",
        "solving  28%  0:11 elapsed, 0:29 left",
        "solving  52%  0:21 elapsed, 0:19 left",
        "solving  78%  0:31 elapsed, 0:09 left",
    ]


@pytest.mark.parametrize("width", range(30, 100))
def test_lines_fit_the_terminal_and_end_between_words(width):
    words = ["comparing", "kernels,", "some", "in", "learned", "metrics,", "on", "2,958", "rows"]
    line = progress_line(" ".join(words), 0.5, 30.0, width)
    assert len(line) <= width
    label = line.split("  ")[0].split(" █")[0].rstrip("…").split()
    assert [word.rstrip(",") for word in label] == [word.rstrip(",") for word in words[: len(label)]]


def test_progress_may_be_shown_elsewhere(clock):
    shown, stream = [], Stream(False)
    with progress_to(lambda *state: shown.append(state)):
        nested(clock, stream, steps=2)
    assert stream.getvalue() == ""
    assert shown == [
        ("inner", 0.5, 100.0),
        ("inner", 1.0, 100.0),
        ("", None, 0.0),
        ("outer", 0.5, 100.0),
        ("outer", 1.0, 100.0),
        ("", None, 0.0),
    ]


def test_the_time_left_counts_only_what_this_run_has_done():
    assert "0:30 left" in progress_line("learning", 0.75, 30.0, before=0.5)
    assert "0:10 left" in progress_line("learning", 0.75, 30.0)
