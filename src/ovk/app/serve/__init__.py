"""Models that predict and learn over HTTP: ``ovk serve``, or `create_app` for your own ASGI server.

Requires the extra ``ovk[serve]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ovk._extras import required
from ovk.app.serve.access import CorruptLogError, Limits, Tokens, is_loopback
from ovk.app.serve.checkpoint import Checkpoint
from ovk.app.serve.service import ModelService
from ovk.base import PathLike

__all__ = ["CorruptLogError", "Limits", "Tokens", "create_app"]

#: Model names appear in URLs and name directories.
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def create_app(
    models: Sequence[PathLike] | Mapping[str, PathLike],
    *,
    data: PathLike | None = None,
    shadows: Mapping[str, Sequence[PathLike]] | None = None,
    tokens: Tokens | PathLike | None = None,
    limits: Limits | None = None,
    keep_log: bool = False,
) -> Any:
    """Create an ASGI application that serves models, to run in your own server; ``ovk serve`` runs it in its own.

    Only one process may use a data directory, because models learn in memory.

    Parameters
    ----------
    models : sequence of paths, or mapping from names to paths
        Model files. Without a mapping, the name of a model is that of its file without the suffix.
    data : path, optional
        Directory for logs and checkpoints. Without it, the service does not learn.
    shadows : mapping from names to sequences of paths, optional
        Models that learn the same rows as the named model but do not answer.
    tokens : Tokens or path, optional
        Tokens, or the file with them. Without tokens, only this machine is served.
    limits : Limits, optional
        Sizes and times that are allowed.
    keep_log : bool
        Whether to keep log segments that a checkpoint no longer needs.

    Returns
    -------
    starlette.applications.Starlette
        The application, which opens its models when the server starts.

    See Also
    --------
    Tokens, Limits, ovk.save

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import ovk
    >>> from ovk.app.serve import create_app
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "line.ovk")
    ...     ovk.save(ovk.PKAWV().fit(X, 2 * X), path)
    ...     app = create_app([path])
    >>> app.url_path_for("infer", model="line")
    '/v2/models/line/infer'
    """
    with required("serving", "serve"):
        from ovk.app.serve.app import Server
    limits = limits or Limits()
    named = dict(models) if isinstance(models, Mapping) else {Path(path).stem: path for path in models}
    if not named or len(named) < len(models):
        raise ValueError("models must contain at least one file, and their names must be distinct")
    for name in named:
        if not MODEL_NAME.fullmatch(name):
            raise ValueError(f"a model name may contain letters, digits, '.', '_' and '-', got {name!r}")
    shadows = shadows or {}
    for name in shadows:
        if name not in named:
            raise ValueError(f"shadows must be for one of the models {', '.join(named)}, got {name!r}")
    services: dict[str, ModelService] = {}
    for name, path in named.items():
        rivals = [Path(shadow) for shadow in shadows.get(name, ())]
        directory = None if data is None else Path(data) / name
        services[name] = ModelService(name, Path(path), rivals, directory, limits, keep_log=keep_log)
    if tokens is not None and not isinstance(tokens, Tokens):
        tokens = Tokens.read(Path(tokens))
    return Server(services, limits, tokens).app()


def __getattr__(name: str) -> Any:
    # The server process, for the command line: it needs the packages of the extra.
    if name in ("log_as_json", "serve"):
        with required("serving", "serve"):
            return getattr(import_module("ovk.app.serve.run"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
