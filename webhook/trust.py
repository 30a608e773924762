"""Who is believed, in CEL: the API server knows the account of a request and its rights.

Everybody may write owner references, so "follows its owner" counts only if the account of that owner's controller wrote
them. That is a controller of Kubernetes (a ServiceAccount of kube-system), an account that the operator names, or, as
long as the operator does not turn that off, any account that may update the status of the owner's kind in all
namespaces, or a ServiceAccount of another namespace that may do so here: the controller of a kind must, and no role for
tenants allows it. A pod controls what it creates with its
own token, as a Spark driver its executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.names import GROUP, Annotation, JobControllerLabel, Label, Plural
from core.jobs.kinds import ALL
from core.jobs.owners import KNOWN, kind_and_group
from webhook.settings import WebhookSettings

OF_THE_CLUSTER: Final = (
    "request.userInfo.username.startsWith('system:serviceaccount:kube-system:') ||"
    " request.userInfo.username == 'system:kube-controller-manager'"
)
"""CEL: the controllers of Kubernetes, among them garbage collection and the deletion of namespaces."""

_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_MAY_WRITE: Final = "authorizer.group({group}).resource({resource}).subresource('status').check('update').allowed()"
_MAY_WRITE_HERE: Final = _MAY_WRITE.replace(".check(", ".namespace(request.namespace).check(")
_FROM_ELSEWHERE: Final = (
    "(request.userInfo.username.startsWith('system:serviceaccount:') &&"
    " !request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':'))"
)
"""CEL: a ServiceAccount of another namespace: that of an operator with a Role in each namespace that it works in. No
tenant of this namespace can use it or give it that right."""
_RUNS_SETS: Final = _MAY_WRITE.format(group="'leaderworkerset.x-k8s.io'", resource="'leaderworkersets'")
_SET_OF_A_LEADER: Final = "(request.resource.resource == 'statefulsets' && o.kind == 'Pod')"
"""CEL: a StatefulSet with the workers of a LeaderWorkerSet's group, which the group's leader, a pod, controls."""
ADMINISTERS: Final = _MAY_WRITE.format(group=f"'{GROUP}'", resource=f"'{Plural.WORKLOADS}'")
"""CEL: the account may write the status of Workloads in all namespaces, and so decides about quota anyway."""
PLURAL: Final = (
    "(o.kind.endsWith('y') ? o.kind.lowerAscii().substring(0, size(o.kind) - 1) + 'ies' :"
    " o.kind.lowerAscii() + (o.kind.endsWith('s') ? 'es' : 's'))"
)
"""CEL: the usual plural of an owner's kind, which is that of every known kind."""
_GROUP: Final = "(o.apiVersion.contains('/') ? o.apiVersion.split('/')[0] : '')"
OWNER: Final = f"(o.kind + '.' + {_GROUP})"
"""CEL: the kind and the group of owner ``o``, with a dot between."""
_KINDS: Final = " ".join(sorted(f"{kind}.{group}" for group, kind in KNOWN))
_JOBS: Final = " ".join(sorted(f"{kind.kind}.{kind.group}" for kind in ALL))
OF_A_JOB: Final = f"{OWNER} in '{_JOBS}'.split(' ')"
"""CEL: owner ``o`` is of a kind of job."""
_BY_THE_POD: Final = (
    "(o.kind == 'Pod' && o.apiVersion == 'v1' && has(request.userInfo.extra) &&"
    f" '{_POD_UID}' in request.userInfo.extra && o.uid in request.userInfo.extra['{_POD_UID}'])"
)
_SAME_OWNER: Final = (
    "(oldObject != null && has(oldObject.metadata.ownerReferences) &&"
    " oldObject.metadata.ownerReferences.exists(p, has(p.controller) && p.controller && p.uid == o.uid &&"
    " p.kind == o.kind && p.name == o.name))"
)
"""CEL: owner ``o`` controlled the object before."""
_UID: Final = f"'{JobControllerLabel.CONTROLLER_UID}'"
_OTHER_JOB: Final = (
    "(request.resource.resource == 'pods' && o.kind == 'Job' && o.apiVersion.startsWith('batch/') &&"
    f" !(has(object.metadata.labels) && {_UID} in object.metadata.labels && object.metadata.labels[{_UID}] == o.uid))"
)
"""CEL: the object is a pod without the label with the uid of owner ``o``, a Job."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The operator's settings in CEL: ``ours`` is the condition for Seiretsu's account, ``by_rights`` and ``all_jobs``
    are booleans, ``accounts`` are names and ``external`` kinds with groups of external frameworks, with spaces between.
    """

    ours: str
    accounts: str
    by_rights: str
    external: str
    all_jobs: str

    @staticmethod
    def of(settings: WebhookSettings, ours: str) -> Trust:
        """Returns that of these settings; ``ours`` is the condition for Seiretsu's account."""
        controllers = settings.controllers
        return Trust(
            ours=ours,
            accounts=" ".join(sorted(controllers.accounts)),
            by_rights=_boolean(controllers.by_rights),
            external=" ".join(sorted(".".join(kind_and_group(each)) for each in settings.external_frameworks)),
            all_jobs=_boolean(settings.manage_jobs_without_queue_name),
        )

    @property
    def fixed(self) -> str:
        """CEL: the request is from Seiretsu, a controller of Kubernetes or an account that the operator names."""
        named = (
            "exists(a, a == request.userInfo.username || (a.endsWith(':*') &&"
            " request.userInfo.username.startsWith(a.substring(0, size(a) - 1))))"
        )
        return f"({self.ours}) || {OF_THE_CLUSTER} || '{self.accounts}'.split(' ').{named}"

    @property
    def administers(self) -> str:
        """CEL: the account decides about quota anyway, if rights count."""
        return f"({self.by_rights} && {ADMINISTERS})"

    @property
    def controls(self) -> str:
        """CEL: the account has the right of a controller of owner ``o``, if rights count."""
        return f"({self.by_rights} && {_MAY_WRITE.format(group=_GROUP, resource=PLURAL)})"

    @property
    def creates(self) -> str:
        """CEL: the account has the right of a controller of owner ``o``, in all namespaces or, from another namespace,
        in this one. At most two rights are asked for: more would exceed what an expression may cost.
        """
        group, resource = _GROUP, PLURAL
        anywhere, here = (each.format(group=group, resource=resource) for each in (_MAY_WRITE, _MAY_WRITE_HERE))
        return (
            f"({self.by_rights} && ({_SET_OF_A_LEADER} ? {_RUNS_SETS} : ({anywhere} || ({_FROM_ELSEWHERE} && {here}))))"
        )

    @property
    def believed(self) -> str:
        """CEL: the request comes from the controller of owner ``o``, or from the pod that owner ``o`` is."""
        return f"({self.fixed} || {_BY_THE_POD} || {self.creates})"

    @property
    def claims(self) -> str:
        """CEL: the object newly names an owner as its controller whose controller did not write this; to be asked only
        if not ``fixed``.

        Only owners that may be queued, or be below one that is. Of pods that are not queued, only those below a job:
        a Deployment may have pods that an account of its namespace creates. A pod below a Job must have the label with
        the Job's uid, which its controller sets.
        """
        queued = " || ".join(
            f"(has(object.metadata.{held}) && '{key}' in object.metadata.{held})"
            for held, key in (
                ("labels", Label.QUEUE_NAME),
                ("annotations", Label.QUEUE_NAME),
                ("annotations", Annotation.POD_SUSPENDING_PARENT),
            )
        )
        matters = f"(request.resource.resource != 'pods' || {self.all_jobs} || {queued} || {OF_A_JOB})"
        references = "object.metadata.ownerReferences"
        known = f"({OWNER} in '{_KINDS}'.split(' ') || {OWNER} in '{self.external}'.split(' '))"
        return (
            f"has({references}) && {references}.exists(o, has(o.controller) && o.controller && {known} && {matters} &&"
            f" !{_SAME_OWNER} && !(!{_OTHER_JOB} && ({_BY_THE_POD} || {self.creates})))"
        )

    @property
    def labelled(self) -> str:
        """CEL: a new pod has a label that the Job controller sets, so that it would become one of a Job's pods; to be
        asked only if not ``fixed``.
        """
        labels = "object.metadata.labels"
        keys = (JobControllerLabel.CONTROLLER_UID, JobControllerLabel.LEGACY_CONTROLLER_UID)
        has = " || ".join(f"'{key}' in {labels}" for key in keys)
        pod = "request.resource.resource == 'pods' && request.operation == 'CREATE'"
        return f"{pod} && has({labels}) && ({has}) && !{self.administers}"


def _boolean(value: bool) -> str:
    return "true" if value else "false"
