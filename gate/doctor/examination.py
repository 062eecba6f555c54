"""The order of the checks: what is asked, and what follows from the answers.

Whatever cannot be asked is found to be unchecked, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gate.doctor import (
    called,
    dead_letters,
    environment,
    firestore,
    grants,
    state,
    sweep,
    tasks,
    trigger,
)
from gate.doctor.finding import Finding, unchecked
from gate.doctor.function import Function, Trigger, parse
from gate.doctor.grants import Need, granted
from gate.errors import GateError
from gate.gating import GateKind
from gate.settings import Settings
from gate.sinks.address import SinkAddress
from gate.state import BlobAddress
from gate.tasking import Tasking


@dataclass(frozen=True, slots=True)
class Project:
    """What one project can be asked.

    `run` takes the words of a gcloud command and returns its answer, or raises
    `ConfigurationError`.
    """

    run: Callable[..., Any]
    name: str

    def ask(self, *words: str) -> Any:
        """Return the answer to a command about this project; raises as `run` does."""
        return self.run(*words, *((f"--project={self.name}",) if self.name else ()))

    def function(self, name: str, region: str) -> Function:
        """Return a deployed function; raises as `run` does."""
        return parse(self.ask("functions", "describe", name, "--gen2", f"--region={region}"))


def examine(
    function: Function, project: Project, *, sweep_name: str = "", work_name: str = ""
) -> Iterator[Finding]:
    """Yield what is found about a deployment: its functions, and what they need.

    `function` takes events. The others have the names that are stated; see `called.names`.
    """
    yield from trigger.function_checks(function)
    yield environment.displaced(function.where, function.environment)
    yield environment.addressed(function.where, function.environment, deployed=True)
    if function.trigger and function.trigger.bucket:
        yield trigger.source(function, function.trigger)
        yield from _tried("trigger_location", _location(function, function.trigger, project))
    loaded, findings = _settings(function)
    yield from findings
    if loaded:
        yield trigger.run_time(function, loaded.limits.run)
        if loaded.state:
            yield from _tried("state", _state(loaded.state, project))
        else:
            yield from _tried("firestore", _firestore(loaded, project))
        yield from _tried("dead_letters", _dead_letters(function, loaded, project))
        for need, policies in _needs(function, loaded):
            yield from _tried("grants", _grant(need, policies, project))
    if function.trigger and function.trigger.bucket:
        yield from _tried("grants", _notified(function, project))
    tasking = loaded.tasks if loaded and loaded.tasks.queue else None
    names = called.names(function, {"sweep": sweep_name, "work": work_name})
    yield from _tried("sweep", _sweep(function, names, project))
    if tasking:
        yield from _tried("queue", _queue(function, tasking, project))
        yield from _tried("work", _work(function, names, tasking, project))


def _tried(check: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except GateError as error:
        yield unchecked(check, error.where, error.what, error.todo)


def _settings(function: Function) -> tuple[Settings | None, list[Finding]]:
    """Return the settings as deployed, with the trigger taken into account.

    What the function lacks of a gate that needs the name of its bucket is not made up for.
    """
    if "SINK" in function.secrets:
        todo = "deploy the password as a secret, and SINK as a variable"
        return None, [unchecked("settings", function.where, "SINK is a secret", todo)]
    values = dict(function.environment)
    verifying = values.get("GATE") == GateKind.VERIFY.value
    if function.trigger and not values.get("SOURCE_BUCKET") and not verifying:
        values["SOURCE_BUCKET"] = function.trigger.bucket
    return environment.load(function.where, values)


def _location(function: Function, found: Trigger, project: Project) -> Iterator[Finding]:
    bucket = project.ask("storage", "buckets", "describe", f"gs://{found.bucket}")
    yield trigger.location(function, found, bucket["location"])


def _firestore(loaded: Settings, project: Project) -> Iterator[Finding]:
    database = f"--database={loaded.firestore_database}"
    described = project.ask("firestore", "databases", "describe", database)
    yield firestore.database(loaded.firestore_database, described)
    ttls = project.ask("firestore", "fields", "ttls", "list", database)
    yield from firestore.expiry(loaded, ttls, project.name)
    fields = project.ask("firestore", "indexes", "fields", "list", database)
    yield from firestore.indexes(loaded, fields, project.name)


def _state(address: BlobAddress, project: Project) -> Iterator[Finding]:
    described = project.ask("storage", "buckets", "describe", f"gs://{address.bucket}")
    yield from state.expiry(address, described)
    yield from state.replaced(address, described)


def _dead_letters(function: Function, loaded: Settings, project: Project) -> Iterator[Finding]:
    topic = loaded.dead_letter_topic
    if not topic:
        yield dead_letters.untold(function.where)
        return
    names = project.ask("pubsub", "topics", "list-subscriptions", topic)
    described = [project.ask("pubsub", "subscriptions", "describe", name) for name in names]
    yield from dead_letters.subscriptions(topic, described, project.name)


def _needs(
    function: Function, loaded: Settings
) -> Iterator[tuple[Need, tuple[tuple[str, ...], ...]]]:
    """Yield what identities must be allowed, and the commands that print where that may stand."""
    everywhere = _everywhere(function.project)
    runtime = f"serviceAccount:{function.service_account}"

    def bucket(name: str) -> tuple[tuple[str, ...], ...]:
        return ("storage", "buckets", "get-iam-policy", f"gs://{name}"), everywhere

    found = function.trigger
    source = loaded.source_bucket
    if source:
        where = f"gs://{source}"
        yield Need(runtime, "read uploads", where, grants.STORAGE_READ), bucket(source)
    if isinstance(loaded.sink, SinkAddress):
        where = f"gs://{loaded.sink.bucket}"
        need = Need(runtime, "write and remove datasets", where, grants.STORAGE_WRITE)
        yield need, bucket(loaded.sink.bucket)
    if loaded.state:
        where = f"gs://{loaded.state.bucket}"
        need = Need(runtime, "keep claims, manifests and jobs", where, grants.STORAGE_WRITE)
        yield need, bucket(loaded.state.bucket)
    else:
        where = f"database {loaded.firestore_database}"
        yield Need(runtime, "use Firestore", where, grants.DATABASE), (everywhere,)
    topic = loaded.dead_letter_topic
    if topic:
        need = Need(runtime, "send dead letters", f"topic {topic}", grants.PUBLISH)
        _, project, *_ = topic.split("/") if "/" in topic else ("", function.project)
        yield need, (("pubsub", "topics", "get-iam-policy", topic), _everywhere(project))
    if found:
        caller = f"serviceAccount:{found.service_account}"
        yield Need(caller, "receive events", function.where, grants.RECEIVE), (everywhere,)
        yield _call(found.service_account, function)


def _everywhere(project: str) -> tuple[str, ...]:
    return "projects", "get-iam-policy", project


def _call(account: str, function: Function) -> tuple[Need, tuple[tuple[str, ...], ...]]:
    """Return what whoever calls a function needs; it is a service of Cloud Run that is called."""
    service = ("run", "services", "get-iam-policy", function.name)
    policies = ((*service, f"--region={function.location}"), _everywhere(function.project))
    caller = f"serviceAccount:{account}"
    return Need(caller, "call the function", function.where, grants.INVOKE), policies


def _grant(
    need: Need, policies: tuple[tuple[str, ...], ...], project: Project
) -> Iterator[Finding]:
    yield granted(need, *(project.ask(*words) for words in policies))


def _notified(function: Function, project: Project) -> Iterator[Finding]:
    """Yield whether Cloud Storage may publish the events of its buckets, as its own agent does."""
    number = _number(function, project)
    agent = f"serviceAccount:service-{number}@gs-project-accounts.iam.gserviceaccount.com"
    where = f"project {function.project}"
    need = Need(agent, "publish events", where, grants.PUBLISH)
    yield from _grant(need, (_everywhere(function.project),), project)


def _sweep(function: Function, names: Mapping[str, str], project: Project) -> Iterator[Finding]:
    found = project.function(called.named("sweep", names, function), function.location)
    yield called.over_http("sweep", found)
    yield called.same_settings("sweep_settings", found, function)
    jobs = project.ask("scheduler", "jobs", "list", f"--location={function.location}")
    yield from sweep.schedule(found, jobs)
    for account in sweep.callers(found, jobs):
        yield from _tried("grants", _grant(*_call(account, found), project))


def _number(function: Function, project: Project) -> str:
    return str(project.ask("projects", "describe", function.project)["projectNumber"])


def _queue(function: Function, tasking: Tasking, project: Project) -> Iterator[Finding]:
    """Yield what is found about the queue, and whether the function may make tasks."""
    queue = tasks.place(tasking.queue)
    there = replace(project, name=queue.project)
    words = (queue.name, f"--location={queue.location}")
    yield from tasks.checks(queue, there.ask("tasks", "queues", "describe", *words))
    runtime = f"serviceAccount:{function.service_account}"
    need = Need(runtime, "make tasks", queue.where, tasks.ENQUEUE)
    own: tuple[str, ...] = ("tasks", "queues", "get-iam-policy", *words)
    yield from _tried("grants", _grant(need, (own, _everywhere(queue.project)), there))
    account = tasking.account
    need = Need(runtime, "let tasks call as it", f"account {account}", tasks.ACT_AS)
    own = ("iam", "service-accounts", "get-iam-policy", account)
    home = _everywhere(tasks.home(account) or function.project)
    yield from _tried("grants", _grant(need, (own, home), project))


def _work(
    function: Function, names: Mapping[str, str], tasking: Tasking, project: Project
) -> Iterator[Finding]:
    """Yield what is found about the function that tasks call."""
    found = project.function(called.named("work", names, function), function.location)
    # Cloud Run makes one address from a hash, and one from what is known beforehand.
    host = f"{found.name}-{_number(function, project)}.{found.location}.run.app"
    yield from tasks.work(found, function, tasking, (found.uri, f"https://{host}"))
    loaded, findings = _settings(found)
    yield from findings
    if loaded:
        yield trigger.run_time(found, loaded.limits.run)
    yield from _tried("grants", _grant(*_call(tasking.account, found), project))
