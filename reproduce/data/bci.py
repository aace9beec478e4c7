"""Finger movements from electrocorticography: BCI Competition IV data set 4, and synthetic signals."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.signal import butter, lfilter, sosfiltfilt
from sklearn.utils import Bunch

from ovk.curves import Grid
from reproduce.data._shared import as_generator
from reproduce.support import Array, RandomState, check_int, positive

#: Samples per second of signals and flexion, as published.
RATE = 1000.0


def band_pass(signals: Any, low: float, high: float, rate: float = RATE) -> Array:
    """Signals (time, channels) between two frequencies, without delay (a Butterworth filter run both ways).

    Examples
    --------
    >>> import numpy as np
    >>> from reproduce.data.bci import band_pass
    >>> t = np.arange(2000) / 1000
    >>> slow, fast = np.sin(2 * np.pi * 2 * t), np.sin(2 * np.pi * 80 * t)
    >>> bool(np.abs(band_pass((slow + fast)[:, None], 60, 100)[500:-500, 0] - fast[500:-500]).max() < 0.1)
    True
    """
    if not 0 < low < high < rate / 2:
        raise ValueError(f"the band must satisfy 0 < low < high < rate / 2 = {rate / 2:g}, got {low:g} to {high:g}")
    sections = butter(3, [low, high], btype="bandpass", fs=rate, output="sos")
    return np.asarray(sosfiltfilt(sections, np.asarray(signals, dtype=np.float64), axis=0))


def amplitude_modulation(signals: Any, width: int) -> Array:
    """Sums of squares in time bins of `width` samples: (time // width, channels).

    Examples
    --------
    >>> import numpy as np
    >>> from reproduce.data.bci import amplitude_modulation
    >>> amplitude_modulation(np.array([[1.0], [2.0], [3.0], [0.0], [9.0]]), 2)
    array([[5.],
           [9.]])
    """
    signals = np.asarray(signals, dtype=np.float64)
    bins = len(signals) // check_int(width, "width")
    return np.asarray((signals[: bins * width] ** 2).reshape(bins, width, -1).sum(axis=1))


def prepare_bci(
    signals: Any,
    flexion: Any,
    *,
    channels: Sequence[int] | None = None,
    band: tuple[float, float] = (60.0, 100.0),
    bin_width: int = 4,
    segment: int = 200,
    threshold: float = 0.5,
    rate: float = RATE,
) -> Bunch:
    """From signals and finger flexion to curves, as in the MovKL paper.

    The signals are filtered from 0.15 to 200 Hz, then to the band; their sums of squares in time bins are the features
    (as logarithms, standardised for each channel); features and flexion are cut into segments of `segment` bins.

    Parameters
    ----------
    signals : (time, electrodes)
    flexion : (time,) of one finger
    channels : electrodes to keep; all by default
    band : Hz
    bin_width : samples in a time bin
    segment : bins in a segment
    threshold : flexion (standardised) above which the finger is moving

    Returns
    -------
    Bunch
        `data` (n, channels * segment), channel after channel; `target` (n, segment) flexion, standardised;
        `labels` (n, segment) 1 where the finger moves, else 0; `grid` the segment as [0, 1]; `channels`

    Examples
    --------
    >>> import numpy as np
    >>> from reproduce.data.bci import prepare_bci
    >>> rng = np.random.default_rng(0)
    >>> curves = prepare_bci(rng.standard_normal((4000, 3)), rng.standard_normal(4000), segment=100)
    >>> curves.data.shape, curves.target.shape
    ((10, 300), (10, 100))
    """
    signals, flexion = np.asarray(signals, dtype=np.float64), np.asarray(flexion, dtype=np.float64)
    if signals.ndim != 2 or flexion.shape != (len(signals),):
        raise ValueError(
            f"signals must be (time, electrodes) and flexion (time,), got {signals.shape} and {flexion.shape}"
        )
    segment = check_int(segment, "segment", least=2)
    chosen = list(range(signals.shape[1])) if channels is None else [int(c) for c in channels]
    if not chosen or not all(0 <= c < signals.shape[1] for c in chosen):
        raise ValueError(f"channels must name electrodes from 0 to {signals.shape[1] - 1}, got {channels!r}")
    filtered = band_pass(band_pass(signals[:, chosen], 0.15, 200.0, rate), *band, rate)
    features = np.log(amplitude_modulation(filtered, bin_width) + 1e-12)
    features = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-12)
    bins = len(features)
    if bins < segment:
        raise ValueError(f"the recording has {bins} bins of {bin_width} samples, less than a segment of {segment}")
    movement = flexion[: bins * bin_width].reshape(bins, bin_width).mean(axis=1)
    movement = (movement - movement.mean()) / max(float(movement.std()), 1e-12)
    n = bins // segment
    curves = features[: n * segment].reshape(n, segment, -1).transpose(0, 2, 1).reshape(n, -1)
    target = movement[: n * segment].reshape(n, segment)
    return Bunch(
        data=np.ascontiguousarray(curves),
        target=target,
        labels=(target > positive(threshold, "threshold", zero=True)).astype(int),
        grid=Grid.regular(segment),
        channels=chosen,
    )


def make_bci(
    n_segments: int = 487,
    *,
    n_channels: int = 5,
    segment: int = 200,
    bin_width: int = 4,
    lag: float | None = None,
    noise: float = 1.0,
    random_state: RandomState = None,
) -> Bunch:
    """Synthetic electrocorticography during finger movements, prepared like the real data.

    A hidden drive switches on and off at random. The flexion of the finger is the drive smoothed twice by the kernel
    exp(-|t - s| / 40 ms). The signals are a background with a spectrum like 1/f, plus a rhythm between 60 and 100 Hz
    whose amplitude follows the drive *earlier* than the finger, with a different gain on each channel. Returns the
    result of `prepare_bci`.

    Parameters
    ----------
    n_segments : segments of `segment` time bins, of `bin_width` samples at 1000 Hz each
    n_channels : electrodes
    lag : seconds between signal and movement; drawn between 0.05 and 0.2 by default
    noise : amplitude of the background relative to the rhythm
    random_state : int, Generator or None

    Returns
    -------
    Bunch
        As `prepare_bci`, and `signals` (time, channels), `flexion` (time,), `lag` in seconds and `gains` (channels,)

    Examples
    --------
    >>> from reproduce.data.bci import make_bci
    >>> curves = make_bci(20, random_state=0)
    >>> curves.data.shape, curves.target.shape, 0.05 <= curves.lag <= 0.2
    ((20, 1000), (20, 200), True)
    """
    rng = as_generator(random_state)
    n_segments, n_channels = check_int(n_segments, "n_segments"), check_int(n_channels, "n_channels")
    noise = positive(noise, "noise", zero=True)
    seconds = float(rng.uniform(0.05, 0.2)) if lag is None else positive(lag, "lag", zero=True)
    time = n_segments * check_int(segment, "segment", least=2) * check_int(bin_width, "bin_width")
    delay = round(seconds * RATE)
    drive = _switching(time + delay, rng)
    # A movement is the drive of `delay` samples ago, smoothed by a symmetric exponential of 40 ms, twice.
    flexion = _exponential_smooth(_exponential_smooth(drive[:time], 40.0), 40.0)
    early = drive[delay : delay + time]
    carrier = band_pass(rng.standard_normal((time, n_channels)), 60.0, 100.0)
    carrier /= carrier.std(axis=0)
    gains = rng.uniform(0.4, 1.0, n_channels)
    background = np.cumsum(rng.standard_normal((time, n_channels)), axis=0)
    background = background - _exponential_smooth(background.T, 500.0).T
    background /= background.std(axis=0)
    broad = rng.standard_normal((time, n_channels))
    rhythm = carrier * (0.35 + gains * early[:, None])
    signals = rhythm + noise * (3.0 * background + 0.5 * broad)
    curves = prepare_bci(signals, flexion, bin_width=bin_width, segment=segment)
    curves.update(signals=signals, flexion=flexion, lag=seconds, gains=gains)
    return curves


def _switching(time: int, rng: np.random.Generator) -> Array:
    """A drive that is on for 0.2 to 0.6 seconds with a random strength, and off for 0.3 to 1 second."""
    drive = np.zeros(time)
    at = 0
    while at < time:
        at += int(rng.uniform(0.3, 1.0) * RATE)
        length = int(rng.uniform(0.2, 0.6) * RATE)
        drive[at : at + length] = rng.uniform(0.5, 1.5)
        at += length
    return drive


def _exponential_smooth(x: Array, length: float) -> Array:
    """Averages under exp(-|t - s| / length), along the last axis."""
    decay = [1.0, -np.exp(-1.0 / length)]
    before = lfilter([1.0], decay, x)
    after = np.flip(lfilter([1.0], decay, np.flip(x, axis=-1)), axis=-1)
    return np.asarray((before + after - x) * np.tanh(0.5 / length))


def load_bci(
    path: str | Path,
    *,
    finger: int = 1,
    labels: str | Path | None = None,
    **options: Any,
) -> Bunch:
    """Read a subject of BCI Competition IV, data set 4, and prepare it as in `prepare_bci`.

    Parameters
    ----------
    path : the subject's file, ``sub1_comp.mat``: `train_data`, `test_data` (time, electrodes) and `train_dg` (time, 5)
    finger : 0 thumb, 1 index, ..., 4 little
    labels : the file of the test labels, ``sub1_testlabels.mat`` with `test_dg`, optional
        With it, the test recording is prepared too, as `data_test`, `target_test` and `labels_test`.
    options : as in `prepare_bci`

    Notes
    -----
    The files require registration (bbci.de/competition/iv); they have no checksum here.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from reproduce.data import load_bci
    >>> rng = np.random.default_rng(0)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file = Path(directory) / "sub1_comp.mat"
    ...     savemat(file, {"train_data": rng.standard_normal((4000, 6)), "train_dg": rng.standard_normal((4000, 5))})
    ...     load_bci(file, channels=[0, 3], segment=100).data.shape
    (10, 200)
    """
    arrays = _read_mat(path, ("train_data", "train_dg"))
    if not 0 <= finger < arrays["train_dg"].shape[1]:
        raise ValueError(f"finger must be a number from 0 to {arrays['train_dg'].shape[1] - 1}, got {finger}")
    curves = prepare_bci(arrays["train_data"], arrays["train_dg"][:, finger], **options)
    if labels is not None:
        test = _read_mat(path, ("test_data",))["test_data"]
        flexion = _read_mat(labels, ("test_dg",))["test_dg"][:, finger]
        found = prepare_bci(test, flexion[: len(test)], **options)
        curves.update(data_test=found.data, target_test=found.target, labels_test=found.labels)
    return curves


def _read_mat(path: str | Path, names: Sequence[str]) -> dict[str, Array]:
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no file {file}: the files of BCI Competition IV, data set 4 (sub1_comp.mat, ...), are offered "
            "at bbci.de/competition/iv"
        )
    content = loadmat(io.BytesIO(file.read_bytes()), variable_names=list(names))
    missing = [name for name in names if name not in content]
    if missing:
        raise ValueError(f"{file} holds no {missing[0]}: is it the file of a subject of data set 4?")
    return {name: np.asarray(content[name], dtype=np.float64) for name in names}
