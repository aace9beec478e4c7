"""The page at ``/``, and the policy under which a browser shows it."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable
from importlib.resources import files


@functools.cache
def page_and_policy() -> tuple[bytes, str]:
    """The page, and the policy that allows its own style and script and nothing else."""
    html = files("ovk.serving").joinpath("page.html").read_bytes()

    def digests(tag: bytes) -> str:
        bodies = re.findall(rb"<%s>(.*?)</%s>" % (tag, tag), html, flags=re.DOTALL)
        return " ".join(f"'sha256-{b64encode(hashlib.sha256(body).digest()).decode()}'" for body in bodies)

    policy = (
        f"default-src 'none'; style-src {digests(b'style')}; script-src {digests(b'script')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy


def page_for(models: Iterable[str]) -> bytes:
    """The page of a server with these models."""
    names = json.dumps(list(models)).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return page_and_policy()[0].replace(b"MODEL_NAMES", names.encode())
