"""The local stack: emulators, a bucket that notifies, and the function behind a push.

    upload ──► fake-gcs-server ──► topic ──► push subscription ──► functions-framework
                                  (Pub/Sub emulator, redelivers)    main.py, `ingest`
                                                                    │
                                       Firestore emulator ◄─────────┤
                                                                    │
    every second: a stand-in for Cloud Scheduler ─────────────────► functions-framework
                                                                    main.py, `sweep`
    where jobs are given to tasks, or bundles are looked at in some:
    `ingest`, `sweep` ──► a stand-in for Cloud Tasks ─────────────► functions-framework
                                                                    main.py, `work`

Nothing but loopback is listened on, and nothing is kept once it ends, except
the logs. fake-gcs-server is started after the topic exists: it drops, without
a word, the notifications of a time when it could not reach Pub/Sub.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gate.identity import Pin
from gate.local import postgres
from gate.local.children import Addresses, Children
from gate.local.postgres import Server
from gate.local.processes import LOOPBACK, ChildError, answers, post
from gate.local.scheduler import Scheduler
from gate.local.tools import Tools, find_tools
from gate.local.topics import Events, Topics
from gate.settings import Settings, load
from gate.variables import VARIABLES

if TYPE_CHECKING:
    from gate.local.task_queue import TaskQueue

PROJECT = "gate-local"
SOURCE_BUCKET = "uploads"
SINK_BUCKET = "datasets"
UPLOADS_TOPIC = "uploads"
DEAD_LETTER_TOPIC = "dead-letters"
DEAD_LETTER_SUBSCRIPTION = "dead-letters"
QUEUE = f"projects/{PROJECT}/locations/local/queues/work"
TASK_ACCOUNT = f"tasks@{PROJECT}.iam.gserviceaccount.com"
START_SECONDS = 60.0
MAIN = Path(__file__).resolve().parents[2] / "main.py"

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class Stack:
    """A running stack, as a context manager.

    `settings` are environment variables for the function alone, on top of
    `environment` and of this process's own. A bucket that they keep the state in is
    made. `main` is the file that holds the
    function, `target` its name in there. Logs go to `folder`, which stays.
    With `postgis`, layers go to tables of a PostgreSQL server that is started too.

    Entering raises `SettingsError` if the function would refuse its settings,
    `ConfigurationError` if a tool is missing, and `ChildError` if a part does
    not start; nothing is left running then. If a port was taken
    by somebody else in the meantime, all is started once more on other ports.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        main: Path = MAIN,
        target: str = "ingest",
        postgis: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="gate-local-"))
        self.addresses = Addresses.free()
        self._settings = dict(settings or {})
        self._told = self._settings
        self._main = main
        self._target = target
        self._postgis = postgis
        self._server: Server | None = None
        self._topics: Events | None = None
        self._queue: TaskQueue | None = None
        self._children = Children(self.folder)
        self._scheduler = Scheduler(lambda: post(self.sweep_url, b"", {}))

    # --- what a user of the stack asks ---------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        """Return what clients and the function need to be told to use this stack.

        The settings that this process was started with are among it.
        """
        bucket = f"gs://{SINK_BUCKET}/layers"
        stated = {one.name: os.environ.get(one.name, "") for one in VARIABLES}
        told = {
            **{name: text for name, text in stated.items() if text},
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "FIRESTORE_EMULATOR_HOST": self.addresses.firestore,
            "PUBSUB_EMULATOR_HOST": self.addresses.pubsub,
            "STORAGE_EMULATOR_HOST": f"http://{self.addresses.storage}",
            "SOURCE_BUCKET": SOURCE_BUCKET,
            "SINK": postgres.uri(self._database_port) if self._postgis else bucket,
            "DEAD_LETTER_TOPIC": f"projects/{PROJECT}/topics/{DEAD_LETTER_TOPIC}",
        }
        if self.has_tasks:
            told |= {
                "CLOUD_TASKS_EMULATOR_HOST": self.addresses.tasks,
                "TASK_QUEUE": QUEUE,
                "WORK_URL": f"http://{self.addresses.work}/",
                "TASK_SERVICE_ACCOUNT": TASK_ACCOUNT,
            }
        if any(name in os.environ or name.upper() in os.environ for name in _PROXIES):
            told["NO_PROXY"] = told["no_proxy"] = LOOPBACK
        return told

    @property
    def deployed(self) -> Settings:
        """Return the settings of the function; raises `SettingsError` if it would refuse them."""
        return load({**os.environ, **self.environment, **self._settings})

    @property
    def buckets(self) -> tuple[str, ...]:
        """Return the buckets that the function needs; raises as `deployed` does."""
        kept = self.deployed.state
        needed = (SOURCE_BUCKET, SINK_BUCKET, *((kept.bucket,) if kept else ()))
        return tuple(dict.fromkeys(needed))

    @property
    def has_tasks(self) -> bool:
        """Tell whether there is a queue of tasks: the settings call for one, or it runs already."""
        told = {**os.environ, **self._settings}
        called_for = told.get("EXECUTOR") == "tasks" or told.get("GATE") == "poll"
        return called_for or self._queue is not None

    @property
    def function_url(self) -> str:
        """Return where the function takes events."""
        return f"http://{self.addresses.function}/"

    @property
    def sweep_url(self) -> str:
        """Return where the sweep is called."""
        return f"http://{self.addresses.sweep}/"

    @property
    def function_log(self) -> Path:
        """Return the file with all that the functions wrote, across restarts."""
        return self._children.log("function")

    @property
    def topics(self) -> Events:
        """Return the stack's topics. Raises `RuntimeError` unless the stack runs."""
        if self._topics is None:
            raise RuntimeError("the stack does not run")
        return self._topics

    def uploaded(self, pin: Pin) -> None:
        """Take note of an upload to the source; the bucket itself sends its event."""

    @property
    def pids(self) -> dict[str, int]:
        """Return the process id of each child; each leads a process group."""
        return self._children.pids

    def ended(self) -> ChildError | None:
        """Return what to say of a child that is no longer there, `None` if all are."""
        return self._children.ended()

    def stop_function(self) -> None:
        """End the function; Pub/Sub goes on trying to deliver."""
        self._children.stop("function")

    def restart_function(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the function again at the same address, with `settings` on top of its own.

        The others, which are of the same deployment, are started again too if their
        settings are others now.
        """
        told = {**self._settings, **(settings or {})}
        self.stop_function()
        self._start_function(told)
        if told == self._told:
            return
        for name, start in (("sweep", self._start_sweep), ("work", self._start_work)):
            if self._children.stop(name):
                start(told)
        self._told = told

    def start_tasks(self) -> None:
        """Start a queue of tasks, and the function `work` that it calls.

        The other functions are told of it when they are started again.
        """
        from gate.local.task_queue import TaskQueue

        self._queue = TaskQueue(QUEUE)
        self._queue.start(self.addresses.tasks)
        self._start_work(self._settings)

    # --- starting and ending --------------------------------------------------

    def __enter__(self) -> Stack:
        _ = self.deployed
        tools = self._find_tools()
        try:
            try:
                self._start(tools)
            except ChildError as error:
                if not error.port_taken:
                    raise
                self.close()
                self._children.begin_again()
                self.addresses = Addresses.free()
                self._start(tools)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every child and wait until all of their processes are gone."""
        self._scheduler.stop()
        self._children.end()
        if self._queue is not None:
            self._queue.stop()
            self._queue = None
        if self._topics is not None:
            self._topics.close()
            self._topics = None
        if self._server is not None:
            self._server.remove()
            self._server = None

    def _find_tools(self) -> Tools:
        return find_tools()

    def _parts(self, tools: Tools) -> tuple[Callable[[], None], ...]:
        return (
            lambda: self._start_firestore(tools),
            lambda: self._start_notifications(tools),
            lambda: self._start_function(self._settings),
            lambda: self._start_sweep(self._settings),
            *((self._start_database,) if self._postgis else ()),
            *((self.start_tasks,) if self.has_tasks else ()),
        )

    def _start(self, tools: Tools) -> None:
        """Start the slow parts side by side, and wait for all of them.

        Worker threads do the starting, so that an interrupt, which reaches the
        main thread only, cannot come between a child's birth and its entry in
        the list of those to be ended.
        """
        parts = self._parts(tools)
        pool = ThreadPoolExecutor(len(parts), thread_name_prefix="start")
        try:
            starting: list[Future[None]] = [pool.submit(part) for part in parts]
            done, _ = wait(starting, return_when=FIRST_EXCEPTION)
            failures = [failure for one in done if (failure := one.exception())]
            if failures:
                raise failures[0]
        except BaseException:
            self.close()  # ends what the other threads wait for
            raise
        finally:
            pool.shutdown()
        if failure := self.ended():
            raise failure
        self._scheduler.start()

    def _start_firestore(self, tools: Tools) -> None:
        address = self.addresses.firestore
        child = self._children.launch(
            "firestore",
            (tools.gcloud, "emulators", "firestore", "start", f"--host-port={address}"),
            self._gcloud_environment("firestore"),
        )
        child.wait_until(lambda: answers(f"http://{address}/"), seconds=START_SECONDS)

    def _start_notifications(self, tools: Tools) -> None:
        """Start Pub/Sub, make its topics, then start the storage that publishes to one."""
        address = self.addresses.pubsub
        files = self.folder / "pubsub"
        files.mkdir(exist_ok=True)
        child = self._children.launch(
            "pubsub",
            (
                *(tools.gcloud, "beta", "emulators", "pubsub", "start"),
                *(f"--host-port={address}", f"--data-dir={files}"),
            ),
            self._gcloud_environment("pubsub"),
        )
        child.wait_until(lambda: answers(f"http://{address}/"), seconds=START_SECONDS)
        topics = self._topics = Topics(address, PROJECT)
        child.wait_until(lambda: topics.create(UPLOADS_TOPIC), seconds=START_SECONDS)
        topics.create(DEAD_LETTER_TOPIC)
        topics.collect(DEAD_LETTER_SUBSCRIPTION, topic=DEAD_LETTER_TOPIC)
        # The path names the topic: functions-framework takes it from there.
        topics.push(
            "uploads-to-function",
            topic=UPLOADS_TOPIC,
            endpoint=f"{self.function_url}{topics.topic(UPLOADS_TOPIC)}",
        )
        self._start_storage(
            tools,
            *("-event.pubsub-project-id", PROJECT, "-event.pubsub-topic", UPLOADS_TOPIC),
            *("-event.bucket", SOURCE_BUCKET, "-event.list", "finalize"),
        )

    def _start_storage(self, tools: Tools, *events: str) -> None:
        """Start a storage server with its buckets; `events` say what it publishes."""
        address = self.addresses.storage
        host, port = address.split(":")
        url = f"http://{address}"
        child = self._children.launch(
            "storage",
            (
                tools.storage_server,
                *("-scheme", "http", "-backend", "memory", "-host", host, "-port", port),
                *("-external-url", url, "-public-host", address),
                *events,
            ),
            {**os.environ, **self.environment},
        )
        buckets = f"{url}/storage/v1/b"
        child.wait_until(lambda: answers(buckets), seconds=START_SECONDS)
        for bucket in self.buckets:
            body = json.dumps({"name": bucket}).encode()
            status = post(buckets, body, {"Content-Type": "application/json"})
            if status != 200:
                raise ChildError(
                    f"answered {status} to the creation of bucket {bucket}",
                    where="storage",
                    cure=f"read {child.log}",
                )

    def _start_function(self, settings: Mapping[str, str]) -> None:
        self._serve("function", self.addresses.function, self._target, "cloudevent", settings)

    def _start_sweep(self, settings: Mapping[str, str]) -> None:
        self._serve("sweep", self.addresses.sweep, "sweep", "http", settings)

    def _start_work(self, settings: Mapping[str, str]) -> None:
        self._serve("work", self.addresses.work, "work", "http", settings)

    def _serve(
        self, name: str, address: str, target: str, signature: str, settings: Mapping[str, str]
    ) -> None:
        host, port = address.split(":")
        child = self._children.launch(
            name,
            (
                *(sys.executable, "-m", "functions_framework"),
                *("--target", target, "--source", str(self._main)),
                *("--signature-type", signature, "--host", host, "--port", port),
            ),
            {**os.environ, "PYTHONUNBUFFERED": "1", **self.environment, **settings},
            log=self.function_log,
            grace_seconds=5.0,
        )
        # All of them refuse a GET, once the framework has loaded them.
        child.wait_until(lambda: answers(f"http://{address}/", status=405), seconds=START_SECONDS)

    @property
    def _database_port(self) -> int:
        return int(self.addresses.database.rpartition(":")[2])

    def _start_database(self) -> None:
        server = self._server = postgres.prepare(self._database_port)
        try:
            child = self._children.launch(
                "database", server.command, os.environ, grace_seconds=postgres.GRACE_SECONDS
            )
            child.wait_until(server.answers, seconds=START_SECONDS)
        except BaseException:
            server.remove()  # the stack may have ended while the files were made
            raise

    def _gcloud_environment(self, name: str) -> dict[str, str]:
        """Keep gcloud from the user's configuration, the network and questions."""
        return {
            **os.environ,
            "CLOUDSDK_CORE_PROJECT": PROJECT,
            "CLOUDSDK_CONFIG": str(self.folder / f"{name}-gcloud"),
            "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
        }
