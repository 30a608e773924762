"""What `seiretsu bundle` writes of a cluster in which other products run, too."""

from __future__ import annotations

import base64

from api import crds
from api.objects import Raw, Resource
from api.resources import EVENTS, PODS
from cli.bundle import CONFIG_MAPS, CONFIGURATION, DEPLOYMENTS, collect
from cli.installation import SERVICES
from controller.kube.client import Client
from controller.kube.errors import ApiError, NotFound
from operations.objects import CRDS, MUTATING, VALIDATING
from webhook.configurations import HookOptions, mutating, validating

OURS, OTHER = {"app.kubernetes.io/name": "seiretsu"}, {"app.kubernetes.io/name": "another"}


def named(name: str, namespace: str = "", labels: dict[str, str] | None = None, **rest: object) -> Raw:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, **rest}


def webhooks(product: str, *groups: str) -> Raw:
    config = {"service": {"name": product, "namespace": product}, "caBundle": ""}
    rules = [{"apiGroups": [group]} for group in groups]
    return named(product, webhooks=[{"name": f"validate.{product}.svc", "clientConfig": config, "rules": rules}])


class Cluster(Client):
    """An API server with these objects; every pod has a log with its own name."""

    def __init__(self, objects: dict[Resource, list[Raw]]) -> None:
        self.objects = objects

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Raw:
        def selected(raw: Raw) -> bool:
            metadata = raw["metadata"]
            pairs = [each.partition("=") for each in label_selector.split(",") if "=" in each]
            name = field_selector.removeprefix("metadata.name=")
            return (
                namespace in ("", metadata.get("namespace"))
                and name in ("", metadata["name"])
                and all(metadata["labels"].get(key) == value for key, _, value in pairs)
            )

        return {"items": [raw for raw in self.objects.get(resource, []) if selected(raw)]}

    async def create(self, resource: Resource, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
        assert dry_run, "doctor stores nothing"
        return body

    async def raw(self, path: str) -> Raw:
        if path.endswith("/recordings/last"):
            raise NotFound(404, "NotFound", "no such path")
        return {"gitVersion": "v1.36.0"}

    async def text(self, path: str, params: object = None) -> str:
        return f"log of {path}"


async def test_nothing_of_other_products_is_collected() -> None:
    """Neither of products with webhooks and CRDs of their own, nor of policy engines with rules for our kinds, nor of
    what else runs in our namespace.
    """
    options = HookOptions()
    ours, service = options.endpoint.namespace, options.endpoint.service
    policy = webhooks("policies", "kueue.x-k8s.io")
    theirs = {"kind": "CustomResourceDefinition", **named("certificates.cert-manager.io"), "spec": {"versions": []}}
    theirs["spec"]["conversion"] = {"webhook": {"clientConfig": {"service": {"name": "issuer", "namespace": "issuer"}}}}
    places = {"policies": OTHER, "vault": OTHER, "issuer": OTHER, ours: OTHER}
    others = [named("other-1", place, labels) for place, labels in places.items()]
    config = {"data": {CONFIGURATION: "kind: Configuration"}}
    about = [named(f"e-{name}", ours, involvedObject={"name": name}) for name in ("main-1", "main-0", "other-1")]
    cluster = Cluster(
        {
            CRDS: [*crds.definitions(options.endpoint.client_config("/convert", b"")), theirs],
            MUTATING: [mutating(options), webhooks("vault", ""), policy],
            VALIDATING: [validating(options), policy],
            SERVICES: [
                named(service, ours, spec={"selector": OURS}),
                *(named(place, place, spec={"selector": OTHER}) for place in places),
            ],
            DEPLOYMENTS: [named("main", ours, OURS), *others],
            PODS: [named("main-1", ours, OURS), *others],
            EVENTS: about,
            CONFIG_MAPS: [named("ours", ours, OURS, **config), named("theirs", ours, OTHER, **config)],
        }
    )
    files, _ = await collect(cluster)
    assert {name for name in files if name.startswith(f"{ours}/")} == {
        *(f"{ours}/{name}.yaml" for name in ("deployments", "pods", "events", "ours")),
        f"{ours}/logs/main-1.log",
        f"{ours}/logs/main-1-previous.log",
    }
    assert {name.partition("/")[0] for name in files} == {"doctor.txt", "version.json", "objects", ours}
    assert "e-main-1" in str(files[f"{ours}/events.yaml"])
    assert "e-main-0" in str(files[f"{ours}/events.yaml"])
    whole = "".join(map(str, files.values()))
    for word in ("other-1", "vault", "policies", "cert-manager"):
        assert word not in whole


class Recording(Cluster):
    """Of two replicas the second one leads."""

    asked = 0

    async def raw(self, path: str) -> Raw:
        if not path.endswith("/recordings/last"):
            return await super().raw(path)
        self.asked += 1
        if self.asked == 1:
            raise ApiError(503, "ServiceUnavailable", "this replica has no recording")
        return {"data": base64.b64encode(b"recorded").decode()}


async def test_the_last_minutes_of_the_recording_are_attached_whichever_replica_leads() -> None:
    files, _ = await collect(Recording({}))
    assert files["last.recording"] == b"recorded"
    assert "last.recording" not in (await collect(Cluster({})))[0], "there is none"
