"""The API server with our CRDs and nothing else of ours: what it says of an object, it says by schema and CEL."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from copy import deepcopy

from api import crds
from api.kinds import KINDS
from api.objects import Raw
from devcluster.controlplane import ControlPlane
from tests.eventually import WAIT

BY_KIND = {kind.kind: kind for kind in KINDS}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CUT_SHORT = "some validation rules were not checked because the object was invalid"


class Server:
    """The API server with our CRDs and without our webhooks, over one connection."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._connection = plane.administrator.connection()

    def install(self) -> None:
        """Our CRDs, established."""
        for definition in crds.definitions():
            status, answer = self.ask("POST", DEFINITIONS, definition)
            assert status == 201, answer
        names = [f"crd/{definition['metadata']['name']}" for definition in crds.definitions()]
        self.plane.kubectl(*WAIT, "--for=condition=Established", *names, check=True)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def ask(
        self, method: str, path: str, body: Raw | None = None, *, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Raw]:
        """Status and answer of one request."""
        content = None if body is None else json.dumps(body)
        given = {"Content-Type": "application/json", **(headers or {})}
        try:
            self._connection.request(method, path, content, given)
        except (http.client.HTTPException, OSError):  # it was idle for too long
            self._connection.close()
            self._connection.request(method, path, content, given)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def path(self, obj: Raw, *, named: bool = False) -> str:
        """The path of an object, or of its collection."""
        kind = BY_KIND[obj["kind"]]
        scope = "/namespaces/default" if kind.namespaced else ""
        name = f"/{obj['metadata']['name']}" if named else ""
        return f"/apis/{obj['apiVersion']}{scope}/{kind.plural}{name}"

    def create(self, obj: Raw) -> tuple[int, Raw]:
        """Creates it with a unique name."""
        asked = deepcopy(obj)
        asked["metadata"].pop("name")
        asked["metadata"]["generateName"] = "x-"
        return self.ask("POST", self.path(obj), asked)

    def put(self, current: Raw, obj: Raw, subresource: str = "", query: str = "") -> tuple[int, Raw]:
        """Replace `current` by `obj`."""
        metadata = {**obj["metadata"], **{key: current["metadata"][key] for key in ("name", "resourceVersion")}}
        asked = {**obj, "metadata": metadata}
        return self.ask("PUT", f"{self.path(asked, named=True)}{subresource}?{query}", asked)


def reasons(answer: Raw) -> list[str]:
    """The errors of a refusal, as kubectl prints them."""
    causes = [cause for cause in answer["details"].get("causes", ()) if CUT_SHORT not in cause["message"]]
    return [f"{cause['field']}: {cause['message']}".removeprefix("<nil>: ") for cause in causes]
