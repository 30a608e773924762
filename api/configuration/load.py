"""Converts text to a Configuration: YAML, version, form, defaults, rules. All errors together, each with its path and
the fix.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from api import feature_gates
from api.configuration import rules
from api.configuration.feedback import Feedback
from api.configuration.model import Configuration, managed_by_default
from api.errors import FieldError, forbidden, invalid, not_supported, required, too_many, type_invalid
from api.names import CONFIG_GROUP, DISPATCHER_INCREMENTAL, NAMESPACE, V1BETA1, V1BETA2
from api.objects import Raw

_VERSIONS: Final = (f"{CONFIG_GROUP}/{V1BETA2}", f"{CONFIG_GROUP}/{V1BETA1}")
_BOTH_STRATEGIES: Final = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


class ConfigurationError(Exception):
    """The Configuration cannot be used; `errors` has the reasons, one entry for each mistake."""

    def __init__(self, errors: list[FieldError]) -> None:
        self.errors = errors
        super().__init__("invalid Configuration:\n" + "\n".join(f"  {error}" for error in errors))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A usable Configuration, every feature gate, and the warnings for the administrator."""

    configuration: Configuration
    gates: Mapping[str, bool]
    warnings: tuple[str, ...] = ()


def load(
    text: str,
    *,
    namespace: str = NAMESPACE,
    frameworks: Mapping[str, str] | None = None,
    feedback_rules: Collection[str] | None = None,
    cluster_rules: Collection[str] = (),
) -> Loaded:
    """Reads a Configuration of v1beta2 or v1beta1; an empty text means all defaults.

    `namespace` is that of the process, used if the text has none. `frameworks`, if given, are the integrations that
    exist, each with the feature gate that it needs ('' for none): others are errors. `feedback_rules`, if given, are
    the rules that exist: others are errors. `cluster_rules` are those that are only about objects without a namespace.
    Raises ConfigurationError with all errors.
    """
    raw, errors = _document(text)
    version = raw.pop("apiVersion", _VERSIONS[0])
    if version not in _VERSIONS:
        errors.append(not_supported("apiVersion", version, _VERSIONS))
    if raw.setdefault("kind", "Configuration") != "Configuration":
        errors.append(not_supported("kind", raw["kind"], ("Configuration",)))
    del raw["kind"]
    raw.setdefault("namespace", namespace)
    warnings: list[str] = []
    waits = True
    if version == _VERSIONS[1]:
        raw, waits, more = _from_v1beta1(raw)
        warnings += more
    configuration, found = _read(raw)
    errors += found
    gates, found, more = _gates(configuration.feature_gates)
    errors += [*found, *rules.check(configuration, gates, frameworks), *_known(configuration, feedback_rules)]
    if errors:
        raise ConfigurationError(errors)
    on = waits and not gates["DisableWaitForPodsReady"]
    if configuration.resources.device_class_mappings and not gates["KueueDRAIntegration"]:
        more.append("resources.deviceClassMappings: has no effect: featureGates.KueueDRAIntegration is false")
    more += _idle_entries(configuration.seiretsu.feedback, cluster_rules)
    return Loaded(_completed(configuration, waits=on), gates, (*warnings, *more))


class _Loader(yaml.SafeLoader):
    """YAML that refuses a duplicate key, which would silently lose a setting."""


def _unique(loader: yaml.SafeLoader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key, _ in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        name = loader.construct_object(key, deep=True)
        if not isinstance(name, str):
            raise yaml.constructor.ConstructorError(None, None, f"key {name!r} is not a string", key.start_mark)
        if name in seen:
            raise yaml.constructor.ConstructorError(None, None, f'key "{name}" already set in map', key.start_mark)
        seen.add(name)
    return loader.construct_mapping(node, deep)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique)


def _document(text: str) -> tuple[Raw, list[FieldError]]:
    try:
        documents = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigurationError([invalid(where, "", f"not YAML: {error.problem}")]) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError([invalid("", "", f"not YAML: {error}")]) from error
    if len(documents) > 1:
        raise ConfigurationError([too_many("", len(documents), 1)])
    document = documents[0] if documents else {}
    if not isinstance(document, dict):
        raise ConfigurationError([type_invalid("", document, "must be a mapping of fields to values")])
    return _without_nulls(document), []


def _without_nulls(value: Any) -> Any:
    """A null is an absent field, as everywhere in Kubernetes."""
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value


def _from_v1beta1(raw: Raw) -> tuple[Raw, bool, list[str]]:
    """The same in the form of v1beta2, whether it waits for ready pods, and what fell away."""
    raw = dict(raw)
    warnings = []
    if raw.pop("queueVisibility", None) is not None:
        warnings.append("queueVisibility: has no effect any more; use the visibility API")
    if isinstance(integrations := raw.get("integrations"), dict) and "podOptions" in integrations:
        raw["integrations"] = {key: value for key, value in integrations.items() if key != "podOptions"}
        warnings.append("integrations.podOptions: has no effect any more; use managedJobsNamespaceSelector")
    waits = False
    if isinstance(wait := raw.get("waitForPodsReady"), dict):
        waits = wait.get("enable") is True
        rest = {key: value for key, value in wait.items() if not (key == "enable" and isinstance(value, bool))}
        raw["waitForPodsReady"] = {"blockAdmission": True, **rest}
    if isinstance(sharing := raw.get("fairSharing"), dict):
        if sharing.get("enable") is True:
            rest = {key: value for key, value in sharing.items() if key != "enable"}
            raw["fairSharing"] = {**rest, "preemptionStrategies": rest.get("preemptionStrategies") or _BOTH_STRATEGIES}
        elif sharing.get("enable", False) is False:
            del raw["fairSharing"]
    return raw, waits, warnings


def _read(raw: Raw) -> tuple[Configuration, list[FieldError]]:
    """The form. A section with an error is left out, so that the others are still judged."""
    if "managedJobsNamespaceSelector" not in raw and isinstance(raw.get("namespace"), str):
        selector = managed_by_default(raw["namespace"]).model_dump(by_alias=True, exclude_none=True)
        raw = {**raw, "managedJobsNamespaceSelector": selector}
    try:
        return Configuration.model_validate(raw), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    broken = {detail["loc"][0] for detail in details}
    rest = {key: value for key, value in raw.items() if key not in broken}
    return Configuration.model_validate(rest), [_field_error(detail) for detail in details]


def _field_error(detail: ErrorDetails) -> FieldError:
    path, value, context = _path(detail["loc"]), detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return forbidden(path, f"unknown field{_did_you_mean(detail['loc'])}")
        case "missing":
            return required(path)
        case "literal_error" | "enum":
            return not_supported(path, value, _choices(str(context["expected"])))
        case "too_long" if isinstance(value, list):
            return too_many(path, len(value), context["max_length"])
        case "value_error":
            return invalid(path, value, str(context["error"]))
        case kind if kind.endswith(("_type", "_parsing", "_from_float")):
            return type_invalid(path, value, f"must be {_TYPE_NAMES.get(kind.rsplit('_', 1)[0], 'a map of fields')}")
    return invalid(path, value, detail["msg"][:1].lower() + detail["msg"][1:])


_TYPE_NAMES: Final = {
    "bool": "a boolean",
    "int": "an integer",
    "float": "a number",
    "string": "a string",
    "list": "a list",
    "dict": "a map",
    "model": "a map of fields",
}


def _choices(expected: str) -> list[str]:
    """pydantic lists choices as `'a', 'b' or 'c'`."""
    return expected.replace(" or ", ", ").replace("'", "").split(", ")


def _path(location: tuple[int | str, ...]) -> str:
    """`fairSharing.preemptionStrategies[0]`; branches of unions, which pydantic names too, are left out."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part in ("int", "str") or "[" in part:
            continue
        else:
            path += f".{part}" if path else part
    return path


def _did_you_mean(location: tuple[int | str, ...]) -> str:
    model: Any = Configuration
    for part in location[:-1]:
        if isinstance(part, str):
            model = _child(model, part)
    if model is None:
        return ""
    return _suggestion(str(location[-1]), [field.alias or name for name, field in model.model_fields.items()])


def _child(model: type[BaseModel] | None, alias: str) -> type[BaseModel] | None:
    for field in (model.model_fields if model else {}).values():
        if field.alias == alias:
            return next(_models(field.annotation), None)
    return None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def _suggestion(name: str, known: Collection[str]) -> str:
    lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), lower, n=1)
    return f'; did you mean "{lower[close[0]]}"?' if close else ""


def _gates(asked: Mapping[str, bool]) -> tuple[dict[str, bool], list[FieldError], list[str]]:
    """Returns all gates. An unknown one is an error, as in Kueue: a typo would leave the gate at its default.

    So is a locked one that is switched; one of an earlier release of Kueue causes a warning.
    """
    gates = dict(feature_gates.DEFAULTS)
    errors, warnings = [], []
    for name, value in asked.items():
        path = f"featureGates.{name}"
        if feature_gates.is_removed(name):
            warnings.append(f"{path}: is no gate any more, ignored")
        elif feature_gates.is_newer(name):
            errors.append(forbidden(path, feature_gates.NEWER))
        elif name not in gates:
            meant = _suggestion(name, gates) or ": correct its name, or remove it"
            errors.append(forbidden(path, f"unknown feature gate{meant}"))
        elif feature_gates.is_locked(name) and value is not gates[name]:
            locked = str(gates[name]).lower()
            errors.append(invalid(path, value, f"cannot set feature gate {name}, feature is locked to {locked}"))
        else:
            gates[name] = value
            fixed, why = feature_gates.LIMITED.get(name, (value, ""))
            if value is not fixed:
                warnings.append(f"{path}: {str(value).lower()} {why}")
    return gates, errors, warnings


def _known(configuration: Configuration, feedback_rules: Collection[str] | None) -> list[FieldError]:
    if feedback_rules is None:
        return []
    feedback = configuration.seiretsu.feedback
    known = {*feedback_rules, *(own.name for own in feedback.expressions)}
    return [
        *(
            invalid(f"seiretsu.feedback.expressions[{index}].name", own.name, "a built-in rule has this name")
            for index, own in enumerate(feedback.expressions)
            if own.name in feedback_rules
        ),
        *(
            not_supported(f"seiretsu.feedback.rules[{index}].name", rule.name, sorted(known))
            for index, rule in enumerate(feedback.rules)
            if rule.name not in known
        ),
    ]


def _idle_entries(feedback: Feedback, cluster_rules: Collection[str]) -> list[str]:
    """Entries that count for no object: they choose namespaces, and their rule is about objects that are in none."""
    within = {"jobs", "workloads", "localqueues"}
    own = {each.name for each in feedback.expressions if within.isdisjoint(each.resources)}
    return [
        f"seiretsu.feedback.rules[{index}].namespaceSelector: {rule.name} is about objects that are in no namespace, so"
        " this entry never counts; leave the selector out"
        for index, rule in enumerate(feedback.rules)
        if rule.namespace_selector is not None and (rule.name in cluster_rules or rule.name in own)
    ]


def _completed(configuration: Configuration, *, waits: bool) -> Configuration:
    """Defaults that follow from other fields."""
    wait = configuration.wait_for_pods_ready if waits else None
    if wait is not None and wait.recovery_timeout is None:
        wait = wait.model_copy(update={"recovery_timeout": wait.timeout})
    multi = configuration.multi_kueue
    if multi.dispatcher_name == DISPATCHER_INCREMENTAL and multi.incremental_dispatcher_config is None:
        filled = type(multi).model_validate({"incrementalDispatcherConfig": {}}).incremental_dispatcher_config
        multi = multi.model_copy(update={"incremental_dispatcher_config": filled})
    return configuration.model_copy(update={"wait_for_pods_ready": wait, "multi_kueue": multi})
