"""What the server answers about a Workload, through the visibility API: with the rights of a user of one namespace, and
without reading a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote

from api import visibility
from api.objects import Raw
from cli.reader import Reader
from cli.target import reached
from controller.kube.errors import ApiError, Unauthorized, Unreachable
from core.explain import document
from core.explain.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Standing:
    """The answer; ``jobs`` are the jobs of the Workloads that it names, both as NAMESPACE/NAME. ``forecast`` is when
    the server expects the start, None while it does not know.
    """

    explanation: Explanation
    jobs: dict[str, str]
    forecast: Raw | None = None


def standing(reader: Reader, workload: Raw) -> Standing | None:
    """Returns where a Workload stands; None if the server has no answer: the visibility API is not served, or that of
    another program, or the user may not ask it. Raises UnreadableError if the API server does not answer.
    """
    metadata = workload["metadata"]
    namespace, name = (quote(metadata[each], safe="") for each in ("namespace", "name"))
    version = f"{visibility.GROUP}/{visibility.VERSIONS[0]}"
    path = f"/apis/{version}/namespaces/{namespace}/{visibility.WORKLOADS}/{name}/{visibility.STANDING}"
    with reached(reader.connection.server):
        try:
            found = reader.get(path)
        except (Unreachable, Unauthorized):
            raise
        except ApiError:
            return None
    try:
        explanation = document.read(found)
        return Standing(explanation, document.jobs(found), found.get("forecast"))
    except (KeyError, TypeError, ValueError, AttributeError):  # of a version that is not known here
        return None


def with_summary(answer: Standing, summary: str) -> Standing:
    """Returns the answer with a sentence about all parts of the object that was asked for."""
    return replace(answer, explanation=replace(answer.explanation, summary=summary))
