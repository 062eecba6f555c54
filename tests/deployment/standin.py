"""A stand-in for APIs of which the simulator knows the writing, and here the reading matters.

What is created can be read, listed and changed, and has an IAM policy. That is
all: no value is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

PROJECT = "sim"

# gcloud's name of an API → what paths begin with here.
APIS = {
    "ARTIFACTREGISTRY": "ar",
    "CLOUDSCHEDULER": "cs",
    "CLOUDTASKS": "ct",
    "FIRESTORE": "fs",
    "IAM": "iam",
    "MONITORING": "mon",
    "PUBSUB": "ps",
    "STORAGE": "storage/v1",
}

# Where a change is an operation that goes on after the answer; here it has ended by then.
LONG = ("ar", "fs")

STORAGE_AGENT = "service-123456789012@gs-project-accounts.iam.gserviceaccount.com"

# What the server adds to what it is sent.
ADDED = {"jobs": {"state": "ENABLED"}, "queues": {"state": "RUNNING"}}


class Standin:
    """Everything that was sent: `calls` by API, `policies` and `resources` by name."""

    def __init__(self) -> None:
        self.calls: dict[str, list[dict[str, Any]]] = {}
        self.policies: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, dict[str, Any]] = {}
        self._lock = Lock()

    def answer(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer to a call."""
        api, _, rest = path.strip("/").partition("/")
        name, _, verb = rest.partition("/")[2].partition(":")
        # Of an account the project may be left open.
        name = name.replace("projects/-/", f"projects/{PROJECT}/")
        if name.endswith("/iam"):
            name, verb = name.removesuffix("/iam"), "setIamPolicy" if body else "getIamPolicy"
        with self._lock:
            if verb == "setIamPolicy":
                self.policies[name] = body.get("policy", body)
            if verb:
                return 200, self.policies.get(name, {"version": 1, "bindings": []})
            if method == "GET":
                return self._read(name, query)
            called = {"method": method, "path": path.strip("/"), "query": query, "body": body}
            self.calls.setdefault(api, []).append(called)
            return 200, self._written(api, method, name, query, body)

    def _read(self, name: str, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if "/operations/" in name:
            return 200, {"name": name, "done": True, "response": {}}
        if name in self.resources:
            return 200, self.resources[name]
        if name.endswith("/serviceAccount"):
            return 200, {"email_address": STORAGE_AGENT}
        parent, _, collection = name.rpartition("/")
        if len(name.split("/")) % 2 == 0:
            return 404, {"error": {"code": 404, "message": f"{name} is not there"}}
        if collection == "subscriptions" and "/topics/" in parent:
            topic = [each for each, sent in self.resources.items() if sent.get("topic") == parent]
            return 200, {collection: topic}
        if collection == "fields":
            part = "ttlConfig" if "ttlConfig" in query.get("filter", "") else "indexConfig"
            fields = [sent for each, sent in self.resources.items() if "/fields/" in each]
            return 200, {collection: [sent for sent in fields if part in sent]}
        listed = [
            self.resources[each] for each in self.resources if each.rpartition("/")[0] == name
        ]
        return 200, {collection: listed}

    def _written(
        self, api: str, method: str, name: str, query: dict[str, str], body: dict[str, Any]
    ) -> dict[str, Any]:
        if method == "POST":
            given = body.get("name", "")
            stated = [text for key, text in query.items() if key.endswith("Id")]
            own = [*stated, *filter(None, [given]), str(len(self.resources))][0]
            name = given if "/" in given else f"{name}/{own}"
        added = ADDED.get(name.split("/")[-2], {})
        # A bucket is called by its last name, everything else by the whole.
        called = {"name": name.rpartition("/")[2] if api == "storage" else name}
        changed = {**self.resources.get(name, {}), **added, **body, **called}
        self.resources[name] = changed
        if api in LONG and (method == "POST" or api == "fs"):
            place = "/".join(name.split("/")[:4])
            typed = {"@type": "type.googleapis.com/google.protobuf.Struct", "name": name}
            operation = {"name": f"{place}/operations/o", "done": True, "response": typed}
            return {**operation, "metadata": typed}
        return changed


@contextmanager
def serving(standin: Standin) -> Iterator[str]:
    """Serve a stand-in on this machine, and yield the shell commands that lead gcloud to it."""

    class Calls(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _called(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            url = urlsplit(self.path)
            body = json.loads(self.rfile.read(length) or b"{}")
            query = dict(parse_qsl(url.query))
            status, told = standin.answer(self.command, unquote(url.path), query, body)
            answer = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    for method in ("GET", "POST", "PUT", "PATCH"):
        setattr(Calls, f"do_{method}", Calls._called)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Calls)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        yield "\n".join(
            f"export CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}={base}/{prefix}/"
            for api, prefix in APIS.items()
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
