"""The page at ``/``, the policy under which a browser shows it, and what it shows."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from ovk.app.serve.service import ModelService
from ovk.app.serve.tensors import plain_list


@functools.cache
def page_and_policy() -> tuple[bytes, str]:
    """The page, and the policy that allows its own style and script and nothing else."""
    html = files("ovk.app.serve").joinpath("page.html").read_bytes()

    def digests(tag: bytes) -> str:
        bodies = re.findall(rb"<%s>(.*?)</%s>" % (tag, tag), html, flags=re.DOTALL)
        return " ".join(f"'sha256-{b64encode(hashlib.sha256(body).digest()).decode()}'" for body in bodies)

    policy = (
        f"default-src 'none'; style-src {digests(b'style')}; script-src {digests(b'script')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def page_for(services: Mapping[str, ModelService] | None) -> bytes:
    """The page of a server with these models, as the first one is now; None where only a token may tell."""
    html = page_and_policy()[0]
    if services is None:
        return html
    first = {"models": list(services), "view": view(next(iter(services.values())))}
    return html.replace(b"<body>", f'<body data-first="{escape(json.dumps(first, allow_nan=False))}">'.encode(), 1)


def view(service: ModelService) -> dict[str, Any]:
    """Everything that the page shows, as JSON knows it: what is not a number is None."""
    state = service.state
    scores, leader = state.scores.up_to_date(), state.leader
    errors = {name: plain_list(scores.error(name)) for name in scores.names}
    series = {name: plain_list(scores.curve[:, k].T) for k, name in enumerate(scores.names)}
    classes = [str(label) for label in getattr(leader.model, "classes_", ())] if leader.labels else []
    return {
        "model": service.name,
        "champion": leader.name,
        "learners": [
            {"name": one.name, "learns": one.learns, "failures": one.failures, "bytes": one.size()}
            for one in state.contenders
        ],
        "outputs": scores.outputs,
        "labels": scores.labels,
        "classes": classes,
        "sequence": state.sequence,
        "rows": state.rows,
        "rows_a_second": round(service.rate(), 1),
        "queue": service.queue.pending,
        "refused": service.refused,
        "waiting_for_labels": len(service.queue.ledger),
        "memory": resident_memory(),
        "errors": errors,
        "scored": len(scores.losses),
        "coverage": plain_list(scores.coverage()),
        "curve": {"rows": scores.reached, "series": series},
        "last": plain_list(scores.last),
        "hints": scores.hints(leader.name),
        "checkpoint_age": round(time.time() - service.saved_at, 1),
        "predicts_only": service.predicts_only,
        "halted": service.halted,
    }


def resident_memory() -> int:
    """Bytes of memory that the process holds; 0 where the system does not tell.

    >>> resident_memory() >= 0
    True
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
