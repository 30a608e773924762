"""The resources that the API server serves, from its discovery documents.

A kind that is not served is answered with a plain "404 page not found", as any proxy would: that alone is no proof.
"""

from __future__ import annotations

from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.errors import ApiError, Unintelligible


async def serves(client: Client, resource: Resource) -> bool:
    """Whether the API server lists the resource. Raises ``ApiError`` where it does not answer with a document of its
    own: a group is missing only if it is not in the list of all groups.
    """
    if resource.group:
        try:
            group = await client.raw(f"/apis/{resource.group}")
        except ApiError as error:
            if error.status == 404 and resource.group not in await _groups(client):
                return False
            raise
        if resource.version not in {version.get("version") for version in _list(group, "APIGroup", "versions")}:
            return False
    base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    found = await client.raw(base)
    return resource.plural in {each.get("name") for each in _list(found, "APIResourceList", "resources")}


async def _groups(client: Client) -> set[str]:
    """The names of all API groups."""
    return {str(each.get("name")) for each in _list(await client.raw("/apis"), "APIGroupList", "groups")}


def _list(document: Raw, kind: str, field: str) -> list[Raw]:
    found = document.get(field)
    if document.get("kind") != kind or not isinstance(found, list):
        raise Unintelligible(200, "Unintelligible", f"not an {kind}: kind {document.get('kind')!r}")
    return [each for each in found if isinstance(each, dict)]
