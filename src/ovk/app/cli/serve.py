"""``ovk serve``: serve models over HTTP."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from ovk.app.cli.options import takes_settings
from ovk.app.cli.output import CommandError, Exit, exit_code_on_error
from ovk.app.serve import Limits, create_app, is_loopback
from ovk.app.sessions import Interrupted, StopSignals


@takes_settings(Limits, "serve")
def command(
    models: Annotated[list[Path], typer.Argument(help="Model files, served under their names.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; a non-loopback address requires --tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = 8080,
    data: Annotated[
        Path | None, typer.Option(help="Directory for logs and checkpoints; without it, the service only predicts.")
    ] = None,
    shadow: Annotated[
        list[str] | None,
        typer.Option(help="Model file that learns the same rows for comparison; with several models, MODEL=FILE."),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="File of bearer tokens, with lines such as: predict,learn TOKEN")
    ] = None,
    keep_log: Annotated[bool, typer.Option(help="Keep the log of learned rows after checkpoints.")] = False,
    access_log: Annotated[bool, typer.Option(help="Log every request.")] = False,
    *,
    settings: Limits,
) -> None:
    """Serve models over HTTP: predictions, durable learning, metrics, and a status page at /.

    Supports the Open Inference Protocol (/v2/models/NAME/infer) and MLflow's scoring protocol (/invocations). Rows sent
    to /v2/models/NAME/learn are written to a log on disk before the reply; after a kill, the log is replayed. SIGTERM
    and Ctrl-C finish accepted requests, write a checkpoint and exit with 0, or with 1 if it cannot be written.
    """
    if tokens is None and not is_loopback(host):
        message = f"--host: {host} is reachable from other machines and requires --tokens"
        raise CommandError(f"{message}; omit --host to serve this machine only")
    shadows: dict[str, list[Path]] = {}
    for one in shadow or []:
        name, equals, file = one.partition("=")
        if not equals:
            name, file = models[0].stem, one
            if len(models) > 1:
                raise CommandError(f"--shadow: with several models, name the model, as in {name}={one}")
        shadows.setdefault(name, []).append(Path(file))
    with exit_code_on_error(Exit.MODEL):
        from ovk.app.serve import log_as_json, serve

        log_as_json()
        app = create_app(models, data=data, shadows=shadows, tokens=tokens, limits=settings, keep_log=keep_log)
    try:
        # Until the server installs its own signal handlers.
        with StopSignals() as stop:
            with exit_code_on_error(Exit.MODEL):
                app.state.server.open()
            if stop.received is not None:  # where Python ignored the exception
                raise Interrupted(stop.received)
            saved = serve(app, host, port, access_log=access_log)
    except OSError as error:
        message = f"{error.strerror}: choose another --port, or stop the program that uses it"
        raise CommandError(message) from error
    except Interrupted as end:
        if end.signal != signal.SIGTERM:
            raise
        logging.getLogger("ovk.app.serve").info("stopped", extra={"reason": "SIGTERM before listening"})
        return
    if not saved:
        raise typer.Exit(int(Exit.FAILED))
