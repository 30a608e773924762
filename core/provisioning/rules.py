"""Decides the next write about the ProvisioningRequests of a Workload: a chain of rules, of which the first that
answers decides.

A request and its PodTemplates exist while quota is reserved and the check waits for nodes; the templates are created
first, so the autoscaler never sees a request without them. What the autoscaler answers becomes the state of the check,
and everything else follows from that state (``core.workload.lifecycle``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from api import names
from api.names import CheckState, Condition
from api.names import ProvisioningAnnotation as Annotation
from api.names import ProvisioningCondition as Answer
from api.objects import Resource, key_of
from api.resources import POD_TEMPLATES, PROVISIONING_REQUESTS
from api.validate.common import is_true
from core.actions import Action, Create, Delete, Patch, Target, Wait, first, status
from core.jobs import meta
from core.jobs.template import ConflictError, FlavorMissingError, same
from core.model import CheckState as State
from core.model import Raw, Workload
from core.model.events import NORMAL, Event, failed
from core.provisioning import naming, pods
from core.provisioning.config import Config
from core.provisioning.pods import Pods
from core.wire.active import condition_of
from core.wire.guard import guarded
from core.workload import transitions

INACTIVE = "the check is not active"
NOT_NEEDED = "the provisioning request is not needed"
GONE = Wait(1.0)
"""How often a PodTemplate is looked for that is being deleted: its name does not contain that of the Workload."""
MOST_AHEAD = 1000
"""So many attempts after the present one are recognized in names that were cut: each of them costs a hash."""
AGAIN_SECONDS = 30.0
"""After this time a PodTemplate that could not be made is tried again."""
NOT_CREATED = "Error creating "
"""The message of a check begins with this while an object for it is refused."""
WORDS = {PROVISIONING_REQUESTS: "request", POD_TEMPLATES: "template"}
AFTER_FAILURE, AFTER_EXPIRY = "Retrying after failure: ", "Retrying after booking expired: "


@dataclass(frozen=True, slots=True)
class ProvisioningSituation:
    """``checks`` has the checks of the Workload that ProvisioningRequests decide, None for one that is not active.
    ``requests`` are those that the Workload owns. ``template`` returns the PodTemplate with a name in its namespace;
    ``own_templates`` are those that still belong to the Workload and not to a request. ``exists`` is whether the
    Workload or request that owns a PodTemplate is there. ``cleans_up`` is whether an eviction removes requests (feature
    gate CleanupProvisioningRequestsOnEviction).
    """

    now: float
    workload: Workload
    raw: Raw
    checks: Mapping[str, Config | None]
    requests: tuple[Raw, ...] = ()
    template: Callable[[str], Raw | None] = lambda name: None
    own_templates: tuple[Raw, ...] = ()
    exists: Callable[[Raw], bool] = lambda reference: False
    flavors: Mapping[str, Raw] = field(default_factory=dict)
    cleans_up: bool = True

    def states(self) -> Iterator[tuple[State, Config | None]]:
        """The states of these checks with their configs."""
        for state in self.workload.checks:
            if state.name in self.checks:
                yield state, self.checks[state.name]


ProvisioningRule = Callable[[ProvisioningSituation], Action | None]


def decide(situation: ProvisioningSituation) -> Action:
    """The first action that a rule asks for."""
    return first(RULES, situation) or Wait()


def over(s: ProvisioningSituation) -> Action | None:
    """A Workload that has finished or was evicted asks for no nodes; without cleanup an eviction keeps its requests."""
    finished, evicted = s.workload.holds(Condition.FINISHED), s.workload.holds(Condition.EVICTED)
    if not finished and not evicted:
        return None
    return (_left(s, (), s.own_templates) or Wait()) if finished or s.cleans_up else Wait()


def without_quota(s: ProvisioningSituation) -> Action | None:
    """A Workload without quota asks for no nodes; a request that it has stays, because quota may be reserved again."""
    held = s.workload.holds(Condition.QUOTA_RESERVED) and s.workload.admission is not None
    return None if held and not s.workload.deleting else Wait()


def answered(s: ProvisioningSituation) -> Action | None:
    """The states of the checks follow from the answers of the autoscaler: one write for all checks."""
    after, events = s.workload, []
    for state, config in s.states():
        found = verdict(s, state, config)
        if found is None or (found.state == state.state and _refused(s, state, config)):
            continue
        after = transitions.with_check_state(
            after,
            state.name,
            found.state,
            found.message[: names.CONDITION_MESSAGE_LIMIT],
            s.now,
            requeue_after=found.requeue_after,
            pod_set_updates=found.pod_set_updates,
        )
        if found.state != state.state:
            text = f"Admission check {state.name} updated state from {state.state} to {found.state}"
            events.append(f"{text} with message: {found.message}" if found.message else text)
    recorded = (Event(NORMAL, names.Event.ADMISSION_CHECK_UPDATED, each) for each in events)
    return status(s.workload, after, "answer", *recorded)


def unused(s: ProvisioningSituation) -> Action | None:
    """Requests are deleted that are not the last attempt of a check, or do not match its config or admission any
    more, and PodTemplates of requests that will not be made.
    """
    return _left(s, [current(s, state, config) for state, config in s.states()], _leftover_templates(s))


def adopted(s: ProvisioningSituation) -> Action | None:
    """PodTemplates belong to their request, so that Kubernetes deletes both together."""
    for state, config in s.states():
        request = current(s, state, config)
        for name in _template_names(request):
            template = s.template(name)
            if request is not None and template is not None and meta.controller_uid(template) == s.workload.uid:
                others = [each for each in _owners(template) if each["uid"] != s.workload.uid]
                owners = [
                    *others,
                    meta.owner_reference(names.AUTOSCALING_API_VERSION, names.Kind.PROVISIONING_REQUEST, request),
                ]
                patch = guarded({"metadata": {"ownerReferences": owners}}, template)
                return Patch(patch, target=Target(POD_TEMPLATES, key_of(template)), why="adopt template")
    return None


def requested(s: ProvisioningSituation) -> Action | None:
    """A pending check has a request, and the request has its PodTemplates."""
    waits: Action | None = None
    for state, config in s.states():
        action = _lacks(s, state, config)
        if action is not None and action != GONE:
            return action
        waits = action or waits
    return waits


RULES: tuple[ProvisioningRule, ...] = (over, without_quota, answered, unused, adopted, requested)


def verdict(s: ProvisioningSituation, state: State, config: Config | None) -> State | None:
    """Returns the state of a check with a new state, message, delay and additions to pods; None to leave it."""
    request = current(s, state, config)
    if config is None and request is not None and is_true(request, Answer.CAPACITY_REVOKED):
        return _revoked(s, state, request)
    if config is None:
        return None if _settled(s, state, config) else _with(state, CheckState.PENDING, INACTIVE)
    if not pods.asked(s.workload, s.raw, config):
        ready = state.state == CheckState.READY
        return None if ready else _with(state, CheckState.READY, NOT_NEEDED, updates=())
    if request is None:
        return None
    if is_true(request, Answer.FAILED):
        return _again(s, state, config, request, Answer.FAILED, AFTER_FAILURE)
    if is_true(request, Answer.CAPACITY_REVOKED):
        return _revoked(s, state, request)
    if is_true(request, Answer.BOOKING_EXPIRED):
        if s.workload.holds(Condition.ADMITTED):
            return None
        return _again(s, state, config, request, Answer.BOOKING_EXPIRED, AFTER_EXPIRY)
    if is_true(request, Answer.PROVISIONED):
        if state.state == CheckState.READY:
            return None
        message = _message(request, Answer.PROVISIONED)
        return _with(state, CheckState.READY, message, updates=_updates(s, request, config))
    if not is_true(request, Answer.ACCEPTED):
        return _with(state, CheckState.PENDING, "")
    if condition_of(request, Answer.PROVISIONED) is None:
        return _with(state, CheckState.PENDING, "") if state.message.startswith(NOT_CREATED) else None
    return _with(state, CheckState.PENDING, _message(request, Answer.PROVISIONED))


def current(s: ProvisioningSituation, state: State, config: Config | None) -> Raw | None:
    """The request of the last attempt of a check, None if there is none that its nodes come from, or may come from."""
    wanted = _asked(s, config)
    found = [
        each
        for each in s.requests
        if not meta.deleting(each)
        and _number(s, each, state, config) is not None
        and (
            _used(s, each, state, config)
            or (config is not None and wanted and _matches(s, each, state, config, wanted))
        )
    ]
    return max(found, key=lambda each: _number(s, each, state, config) or 0, default=None)


def not_created(s: ProvisioningSituation, check: str, message: str) -> Patch | None:
    """Reports on a check that an object was refused; None if that is reported already."""
    after = s.workload
    for state in s.workload.checks:
        if state.name == check:
            text = message[: names.CONDITION_MESSAGE_LIMIT]
            after = transitions.with_check_state(
                s.workload,
                check,
                state.state,
                text,
                s.now,
                requeue_after=state.requeue_after,
                pod_set_updates=state.pod_set_updates,
            )
    return status(s.workload, after, "not created", failed(names.Event.FAILED_CREATE, message))


def is_reported(s: ProvisioningSituation, check: str, kind: str, name: str) -> bool:
    """Whether the message of a check is that this object was refused."""
    return any(each.name == check and each.message.startswith(refusal(kind, name, "")) for each in s.workload.checks)


def _lacks(s: ProvisioningSituation, state: State, config: Config | None) -> Action | None:
    """What is still to do for the request of a pending check and its PodTemplates; None if it has all."""
    wanted = _asked(s, config)
    if config is None or not wanted or state.state != CheckState.PENDING:
        return None
    request, name = _due(s, state, config)
    if request is None and any(each["metadata"]["name"] == name for each in s.requests):
        return None  # the one before it is still being deleted
    action = _templates(s, state, request or _named(name), wanted)
    if action is None and request is None:
        message = f'Created ProvisioningRequest: "{name}"'
        made = Event(NORMAL, names.Event.PROVISIONING_REQUEST_CREATED, message)
        manifest = _manifest(s, config, name, wanted)
        return Create(manifest, PROVISIONING_REQUESTS, part=state.name, why="create request", events=(made,))
    return action


def _asked(s: ProvisioningSituation, config: Config | None) -> tuple[Pods, ...]:
    """The pods whose nodes are asked for; none while the config is missing."""
    return pods.asked(s.workload, s.raw, config) if config is not None else ()


def _due(s: ProvisioningSituation, state: State, config: Config | None) -> tuple[Raw | None, str]:
    """The request from which the nodes of a check may come, None if it is still to be made, and its name."""
    request = current(s, state, config)
    if request is not None and not _tried(s, request):
        return request, str(request["metadata"]["name"])
    tried = _number(s, request, state, config) or 1 if request is not None else state.retry_count
    return None, naming.request(s.workload.key.name, state.name, tried + 1)


def _leftover_templates(s: ProvisioningSituation) -> list[Raw]:
    """PodTemplates of requests that will not be made: their check was removed, or its config changed, before that.
    None while a config is missing, which may come back.
    """
    states = list(s.states()) if s.own_templates else []
    if any(config is None for _, config in states):
        return []
    expected = {name for state, config in states for name in _expected_templates(s, state, config)}
    return [each for each in s.own_templates if each["metadata"]["name"] not in expected]


def _expected_templates(s: ProvisioningSituation, state: State, config: Config | None) -> list[str]:
    """The PodTemplates of the last request of a check, and those of the next one."""
    found = [naming.template(_due(s, state, config)[1], each.name) for each in _asked(s, config)]
    return _template_names(current(s, state, config)) + found


def _refused(s: ProvisioningSituation, state: State, config: Config | None) -> bool:
    """Whether the message of a check reports an object that is still to be created.

    If an answer replaced the report, the next refusal would write it again: two writes without end.
    """
    return state.message.startswith(NOT_CREATED) and _lacks(s, state, config) is not None


def _again(s: ProvisioningSituation, state: State, config: Config, request: Raw, answer: str, prefix: str) -> State:
    """Asks for another attempt as long as any is left. One that follows already is not asked for again."""
    message, attempt = _message(request, answer), (_number(s, request, state, config) or 1)
    if attempt > config.retries:
        return _with(state, CheckState.REJECTED, message)
    if attempt <= state.retry_count:
        return _with(state, state.state, f"{prefix}{message}")
    seconds = int(config.backoff.seconds(state.retry_count + 1))
    return _with(state, CheckState.RETRY, f"{prefix}{message}", after=seconds)


def _revoked(s: ProvisioningSituation, state: State, request: Raw) -> State | None:
    """Rejects the check, unless its Workload is being deactivated already."""
    message = _message(request, Answer.CAPACITY_REVOKED)
    return _with(state, CheckState.REJECTED, message) if s.workload.active else None


def _with(
    state: State, new: str, message: str, *, after: float | None = None, updates: tuple[Raw, ...] | None = None
) -> State:
    """A delay and additions to pods stay if no new ones are given, as in Kueue."""
    return State(
        state.name,
        new,
        message,
        requeue_after=state.requeue_after if after is None else after,
        pod_set_updates=state.pod_set_updates if updates is None else updates,
    )


def _updates(s: ProvisioningSituation, request: Raw, config: Config) -> tuple[Raw, ...]:
    """What the pods of a provisioned request get: which request their nodes are for, and labels of these nodes.

    Pod sets that share a template get it too; in Kueue only the first of them does, and the autoscaler does not know
    what the nodes are for that it made for the others.
    """
    details = (request.get("status") or {}).get("provisioningClassDetails") or {}
    selector = {label: str(details[detail]) for label, detail in config.node_selector if detail in details}
    annotations = {
        Annotation.REQUEST: request["metadata"]["name"],
        Annotation.CLASS: (request.get("spec") or {}).get("provisioningClassName", ""),
    }
    more = {"nodeSelector": selector} if selector else {}
    asked = pods.asked(s.workload, s.raw, config)
    return tuple({"name": name, "annotations": annotations, **more} for each in asked for name in each.names)


def _left(s: ProvisioningSituation, used: Iterable[Raw | None], templates: Iterable[Raw]) -> Action | None:
    """Deletes the next request that is not used, then these PodTemplates."""
    kept = {each["metadata"]["uid"] for each in used if each is not None}
    for request in s.requests:
        if request["metadata"]["uid"] not in kept and not meta.deleting(request):
            return _deleted(PROVISIONING_REQUESTS, request)
    return next((_deleted(POD_TEMPLATES, each) for each in templates if not meta.deleting(each)), None)


def _deleted(resource: Resource, raw: Raw) -> Delete:
    return Delete(meta.uid(raw), Target(resource, key_of(raw)), why=f"delete {WORDS[resource]}")


def _templates(s: ProvisioningSituation, state: State, request: Raw, wanted: Iterable[Pods]) -> Action | None:
    """What is still to do for the PodTemplates of a request; None if it has all."""
    waits: Action | None = None
    for each in wanted:
        name = naming.template(request["metadata"]["name"], each.name)
        found = s.template(name)
        if found is None:
            return _create_template(s, state, name, each)
        of_this = meta.controller_uid(found) in (None, s.workload.uid, request["metadata"].get("uid"))
        if of_this and _placed(s, request["metadata"]["name"], each):
            continue
        owner = meta.controller(found)
        if owner is not None and not of_this and s.exists(owner):
            message = refusal(
                "PodTemplate", name, f'it exists already and belongs to {owner["kind"]} "{owner["name"]}"'
            )
            return not_created(s, state.name, message) or Wait(AGAIN_SECONDS)
        if not meta.deleting(found):
            return _deleted(
                POD_TEMPLATES, found
            )  # of a request of the same name that is gone, or of an earlier admission
        waits = GONE
    return waits


def refusal(kind: str, name: str, reason: object) -> str:
    """The message of a check whose object cannot be created."""
    return f'{NOT_CREATED}{kind} "{name}": {reason}'


def _create_template(s: ProvisioningSituation, state: State, name: str, wanted: Pods) -> Action:
    try:
        made = pods.template(wanted, s.flavors)
    except (ConflictError, FlavorMissingError) as error:
        message = refusal("PodTemplate", name, error)
        return not_created(s, state.name, message) or Wait(AGAIN_SECONDS)
    metadata = _metadata(s, name)
    manifest = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": made}
    return Create(manifest, POD_TEMPLATES, part=state.name, why="create template")


def _manifest(s: ProvisioningSituation, config: Config, name: str, wanted: Iterable[Pods]) -> Raw:
    parameters = {**config.parameters, **_own_parameters(s)}
    return {
        "apiVersion": names.AUTOSCALING_API_VERSION,
        "kind": names.Kind.PROVISIONING_REQUEST,
        "metadata": _metadata(s, name),
        "spec": {
            "provisioningClassName": config.class_name,
            **({"parameters": parameters} if parameters else {}),
            "podSets": _asks_for(name, wanted),
        },
    }


def _own_parameters(s: ProvisioningSituation) -> Raw:
    """The parameters in annotations of the Workload, which take precedence over those of the config."""
    prefix = names.Annotation.PROVISIONING_PARAMETER_PREFIX
    return {key[len(prefix) :]: value for key, value in meta.annotations(s.raw).items() if key.startswith(prefix)}


def _asks_for(request: str, wanted: Iterable[Pods]) -> list[Raw]:
    """The pod sets of a request of this name."""
    return [{"podTemplateRef": {"name": naming.template(request, each.name)}, "count": each.count} for each in wanted]


def _metadata(s: ProvisioningSituation, name: str) -> Raw:
    return {
        "name": name,
        "namespace": s.workload.key.namespace,
        "labels": {names.Label.MANAGED: "true"},
        "ownerReferences": [meta.owner_reference(names.API_VERSION, names.Kind.WORKLOAD, s.raw)],
    }


def _settled(s: ProvisioningSituation, state: State, config: Config | None) -> bool:
    """Whether the check is ready and stays so if its config is missing."""
    return state.state == CheckState.READY and (config is not None or s.workload.holds(Condition.ADMITTED))


def _used(s: ProvisioningSituation, request: Raw, state: State, config: Config | None) -> bool:
    """Whether the nodes of a request are there and used, so that a change of the config changes nothing any more.

    Kueue deletes the request of a running Workload when its config changes, and asks for the same nodes again when a
    config that was missing is back.
    """
    return _settled(s, state, config) and is_true(request, Answer.PROVISIONED)


def _matches(s: ProvisioningSituation, request: Raw, state: State, config: Config, wanted: tuple[Pods, ...]) -> bool:
    """Whether a request has the class and parameters of the config. While the check is pending, it must also ask for
    the pods and flavors of the present admission: one that was made for an earlier admission may not be deleted yet.
    """
    spec = request.get("spec") or {}
    parameters = spec.get("parameters") or {}
    if spec.get("provisioningClassName") != config.class_name:
        return False
    own = _own_parameters(s)
    if any(parameters.get(key) != value for key, value in config.parameters.items() if key not in own):
        return False
    if state.state != CheckState.PENDING:
        return True
    name = request["metadata"]["name"]
    return same(spec.get("podSets"), _asks_for(name, wanted)) and all(_placed(s, name, each) for each in wanted)


def _placed(s: ProvisioningSituation, request: str, wanted: Pods) -> bool:
    """Whether the PodTemplate of a request, if it exists, asks for the nodes of the assigned flavors."""
    found = s.template(naming.template(request, wanted.name))
    try:
        made = pods.template(wanted, s.flavors)
    except (ConflictError, FlavorMissingError):
        return True
    return found is None or same(_selector(found["template"]), _selector(made))


def _selector(template: Raw) -> object:
    return (template.get("spec") or {}).get("nodeSelector")


def _tried(s: ProvisioningSituation, request: Raw) -> bool:
    """Whether a request can provide no nodes any more, so that the next attempt is due."""
    expired = is_true(request, Answer.BOOKING_EXPIRED) and not s.workload.holds(Condition.ADMITTED)
    return is_true(request, Answer.FAILED) or expired


def _number(s: ProvisioningSituation, request: Raw, state: State, config: Config | None) -> int | None:
    """Which attempt of a check a request is; None if it is of another check."""
    most = min(max(config.retries if config is not None else 0, state.retry_count), state.retry_count + MOST_AHEAD) + 1
    return naming.attempt(request["metadata"]["name"], s.workload.key.name, state.name, most)


def _named(name: str) -> Raw:
    """A request that does not exist yet."""
    return {"metadata": {"name": name}}


def _template_names(request: Raw | None) -> list[str]:
    podsets = ((request or {}).get("spec") or {}).get("podSets") or ()
    return [(each.get("podTemplateRef") or {}).get("name") or "" for each in podsets]


def _owners(raw: Raw) -> list[Raw]:
    return raw["metadata"].get("ownerReferences") or []


def _message(request: Raw, kind: str) -> str:
    found = condition_of(request, kind)
    return (found or {}).get("message") or ""
