"""A network that fails where a test says so, between the real client and the real server."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import requests
from requests.adapters import HTTPAdapter

Send = Callable[[], requests.Response]
Action = Callable[[requests.PreparedRequest, Send], requests.Response]


@dataclass
class Rule:
    """What happens to the next `times` requests that fit."""

    method: str
    text: str
    action: Action
    times: int

    def fits(self, request: requests.PreparedRequest) -> bool:
        """Tell whether the request has the method, and the text in its URL or body."""
        body = request.body if isinstance(request.body, bytes) else b""
        found = self.text in unquote(request.url or "") or self.text.encode() in body
        return self.times > 0 and request.method == self.method and found


class Network(HTTPAdapter):
    """A transport that follows rules; without any it is an ordinary one."""

    def __init__(self) -> None:
        super().__init__()
        self.rules: list[Rule] = []
        self.requests: list[str] = []

    def on(self, method: str, text: str, action: Action, times: int = 1) -> None:
        """Apply `action` to the next `times` requests of `method` that hold `text`."""
        self.rules.append(Rule(method, text, action, times))

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        """Send a request, or do what the first fitting rule says."""
        self.requests.append(f"{request.method} {unquote(request.url or '')}")
        for rule in self.rules:
            if rule.fits(request):
                rule.times -= 1
                return rule.action(request, lambda: super(Network, self).send(request, **settings))
        return super().send(request, **settings)


def answer(status: int) -> Action:
    """Answer with a status; the request never arrives."""

    def act(request: requests.PreparedRequest, send: Send) -> requests.Response:
        response = requests.Response()
        response.status_code = status
        response.request = request
        response.url = request.url or ""
        response.raw = io.BytesIO(b"")
        return response

    return act


def refuse(request: requests.PreparedRequest, send: Send) -> requests.Response:
    """Lose the request."""
    raise requests.ConnectionError("connection refused by the test")


def lose(request: requests.PreparedRequest, send: Send) -> requests.Response:
    """Deliver the request, lose the answer."""
    send().close()
    raise requests.ConnectionError("connection reset by the test")


def after(callback: Callable[[], object]) -> Action:
    """Run `callback`, then deliver the request."""

    def act(request: requests.PreparedRequest, send: Send) -> requests.Response:
        callback()
        return send()

    return act


def before_answer(callback: Callable[[], object]) -> Action:
    """Deliver the request, run `callback`, then hand over the answer."""

    def act(request: requests.PreparedRequest, send: Send) -> requests.Response:
        response = send()
        callback()
        return response

    return act


def damaged(damage: Callable[[bytes], bytes]) -> Action:
    """Deliver the request, change the body of the answer."""

    def act(request: requests.PreparedRequest, send: Send) -> requests.Response:
        response = send()
        body = damage(response.raw.read(decode_content=False))
        response.headers["Content-Length"] = str(len(body))
        response.raw = _Body(body)
        return response

    return act


class _Body(io.BytesIO):
    """A body as urllib3 hands it over."""

    def stream(self, size: int, decode_content: bool | None = None) -> Any:
        """Yield the body in chunks."""
        while chunk := self.read(size):
            yield chunk

    def read(self, size: int | None = -1, decode_content: bool | None = None) -> bytes:
        """Return the next bytes."""
        return super().read(size)

    def release_conn(self) -> None:
        """Belong to no pool."""
