"""What a service allows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a service allows.

    Parameters
    ----------
    body : most bytes of a request
    rows : most rows of a request
    queue : most requests that wait to be learned
    seconds : how long a request may take
    checkpoint_rows, checkpoint_seconds : rows learned, or seconds, after which a checkpoint is written
    label_seconds, label_bytes : how long, and in how much memory, rows wait for their labels

    Examples
    --------
    >>> from ovk.serving import Limits
    >>> Limits(rows=100).rows
    100
    """

    body: int = 8 << 20
    rows: int = 10_000
    queue: int = 256
    seconds: float = 30.0
    checkpoint_rows: int = 10_000
    checkpoint_seconds: float = 60.0
    label_seconds: float = 3600.0
    label_bytes: int = 64 << 20
