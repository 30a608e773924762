"""The accounts of the operators: a ServiceAccount each, with the rights that its release gives it and no others.

So what ``webhook.trust`` believes is tried with the rights that operators have. The rules are those of the versions in
devcluster/tools, by the files named beside them; what a release grants for schedulers, networks or clouds that no test
has is left out.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Raw = dict[str, Any]
Rule = tuple[str, str, str]
"""API groups, resources and verbs, with spaces between; ``core`` is the group without a name."""

_READ: Final = "get list watch"
_WRITE: Final = f"{_READ} create update patch delete"
_KEEP: Final = "get update patch"
_HOOKS: Final[Rule] = (
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations validatingwebhookconfigurations",
    f"{_READ} update",
)
_SECRETS: Final[Rule] = ("core", "secrets", f"{_READ} update")
_LEADS: Final[tuple[Rule, ...]] = (
    ("core", "configmaps", _WRITE),
    ("coordination.k8s.io", "leases", _WRITE),
    ("core", "events", "create patch"),
)
"""What kubebuilder's releases give their controllers in their own namespace (leader_election_role.yaml)."""


class Account(NamedTuple):
    """A ServiceAccount. ``rules`` hold in all namespaces, or with ``one`` in that of its jobs alone; ``home`` are those
    in its own namespace.
    """

    namespace: str
    name: str
    rules: tuple[Rule, ...]
    home: tuple[Rule, ...] = ()
    one: bool = False


def _kinds(group: str, *plurals: str, verbs: str = _WRITE) -> tuple[Rule, ...]:
    """A controller's rules for its own kinds, as kubebuilder writes them."""
    parts = {part: " ".join(f"{each}/{part}" for each in plurals) for part in ("status", "finalizers")}
    return (group, " ".join(plurals), verbs), (group, parts["status"], _KEEP), (group, parts["finalizers"], "update")


ACCOUNTS: Final[dict[str, Account]] = {
    # sigs.k8s.io/jobset: config/components/rbac/{role,manager_secrets_role,leader_election_role}.yaml
    "jobset-controller": Account(
        "jobset-system",
        "jobset-controller-manager",
        (
            ("core", "nodes", _READ),
            ("core", "persistentvolumeclaims", f"{_READ} create"),
            ("core", "pods", f"{_READ} delete patch update"),
            ("core", "services", _WRITE),
            ("core events.k8s.io", "events", "create patch update watch"),
            _HOOKS,
            ("batch", "jobs", _WRITE),
            ("batch", "jobs/status", _KEEP),
            *_kinds("jobset.x-k8s.io", "jobsets"),
        ),
        (*_LEADS, _SECRETS),
    ),
    # sigs.k8s.io/lws: config/rbac/{role,leader_election_role}.yaml
    "lws-controller": Account(
        "lws-system",
        "lws-controller-manager",
        (
            ("core", "nodes", f"{_READ} patch update"),
            ("core", "pods services", _WRITE),
            ("core", "pods/finalizers", "update"),
            _SECRETS,
            ("core events.k8s.io", "events", f"{_READ} create patch update"),
            _HOOKS,
            *_kinds("apps", "controllerrevisions", "statefulsets"),
            *_kinds("disaggregatedset.x-k8s.io", "disaggregatedsets"),
            *_kinds("leaderworkerset.x-k8s.io", "leaderworkersets"),
        ),
        _LEADS,
    ),
    # github.com/kubeflow/mpi-operator: manifests/base/cluster-role.yaml
    "mpi-operator": Account(
        "mpi-operator",
        "mpi-operator",
        (
            ("core", "configmaps secrets services", "create list watch update"),
            ("core", "pods", _WRITE),
            ("core", "pods/exec", "create"),
            ("core", "endpoints", "create get update"),
            ("core", "events", "create patch"),
            ("batch", "jobs", "create list update watch"),
            ("apiextensions.k8s.io", "customresourcedefinitions", "create get"),
            ("kubeflow.org", "mpijobs mpijobs/finalizers mpijobs/status", "*"),
            ("coordination.k8s.io", "leases", "*"),
            ("scheduling.k8s.io", "priorityclasses", _READ),
        ),
    ),
    # github.com/kubeflow/training-operator: manifests/base/rbac/role.yaml
    "training-operator": Account(
        "kubeflow",
        "training-operator",
        (
            ("core", "configmaps", "create list update watch"),
            ("core", "events pods", _WRITE),
            ("core", "pods/exec", "create"),
            _SECRETS,
            ("core", "serviceaccounts", f"{_READ} create"),
            ("core", "services", f"{_READ} create delete"),
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations", f"{_READ} update"),
            ("autoscaling", "horizontalpodautoscalers", _WRITE),
            *_kinds("kubeflow.org", "jaxjobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"),
            ("rbac.authorization.k8s.io", "rolebindings roles", "create list update watch"),
        ),
    ),
    # github.com/kubeflow/trainer: manifests/base/rbac/role.yaml
    "trainer-controller": Account(
        "kubeflow-system",
        "kubeflow-trainer-controller-manager",
        (
            ("core", "configmaps secrets", f"{_READ} create patch update"),
            ("core", "limitranges", _READ),
            ("core events.k8s.io", "events", "create patch update watch"),
            _HOOKS,
            ("coordination.k8s.io", "leases", "create get list update"),
            ("jobset.x-k8s.io", "jobsets", _WRITE),
            ("node.k8s.io", "runtimeclasses", _READ),
            ("trainer.kubeflow.org", "clustertrainingruntimes trainingruntimes trainjobs", f"{_READ} patch update"),
            ("trainer.kubeflow.org", "clustertrainingruntimes/finalizers trainingruntimes/finalizers", _KEEP),
            ("trainer.kubeflow.org", "trainjobs/finalizers trainjobs/status", _KEEP),
        ),
    ),
    # github.com/project-codeflare/appwrapper: config/rbac/{role,leader_election_role}.yaml
    "appwrapper-controller": Account(
        "appwrapper-system",
        "appwrapper-controller-manager",
        (
            ("core", "events", "create patch update watch"),
            ("core", "nodes", _READ),
            ("core", "pods services", f"{_READ} create delete"),
            _SECRETS,
            _HOOKS,
            ("apiextensions.k8s.io", "customresourcedefinitions", "list"),
            ("apps", "deployments statefulsets", f"{_READ} create delete"),
            ("authorization.k8s.io", "subjectaccessreviews", "create"),
            ("batch", "jobs", f"{_READ} create delete"),
            ("jobset.x-k8s.io", "jobsets", f"{_READ} create delete"),
            ("kubeflow.org", "pytorchjobs", f"{_READ} create delete"),
            ("ray.io", "rayclusters rayjobs", f"{_READ} create delete"),
            ("scheduling.sigs.k8s.io scheduling.x-k8s.io", "podgroups", f"{_READ} create delete"),
            *_kinds("workload.codeflare.dev", "appwrappers"),
        ),
        _LEADS,
    ),
    # github.com/ray-project/kuberay/ray-operator: config/rbac/{role,leader_election_role}.yaml
    "kuberay-operator": Account(
        "ray-system",
        "kuberay-operator",
        (
            ("core", "events pods pods/status services", _WRITE),
            ("core", "pods", "deletecollection"),
            ("core", "pods/proxy services/status", _KEEP),
            ("core", "pods/resize", "patch"),
            ("core", "secrets", f"{_READ} create"),
            ("core", "serviceaccounts", f"{_READ} create delete"),
            ("core", "services/proxy", "create get patch update"),
            ("batch", "jobs", _WRITE),
            ("coordination.k8s.io", "leases", "create get list update"),
            ("discovery.k8s.io", "endpointslices", _READ),
            ("networking.k8s.io", "ingresses", _WRITE),
            ("networking.k8s.io", "ingressclasses", _READ),
            *_kinds("ray.io", "rayclusters", "raycronjobs", "rayjobs", "rayservices"),
            ("rbac.authorization.k8s.io", "rolebindings", f"{_READ} create delete"),
            ("rbac.authorization.k8s.io", "roles", f"{_READ} create delete update"),
        ),
        _LEADS,
    ),
    # github.com/kubeflow/spark-operator: charts/spark-operator-chart/templates/controller/{_helpers.tpl,rbac.yaml}; by
    # default it has a Role in each namespace with applications.
    "spark-operator": Account(
        "spark-operator",
        "spark-operator-controller",
        (
            ("core", "pods", f"{_READ} create update delete"),
            ("core", "configmaps", f"{_READ} create update patch"),
            ("core", "services", _WRITE),
            ("core", "events", "create update patch"),
            ("networking.k8s.io", "ingresses", "get create update delete"),
            ("sparkoperator.k8s.io", "sparkapplications", f"{_READ} create delete"),
            ("sparkoperator.k8s.io", "scheduledsparkapplications sparkconnects", _READ),
            *(
                ("sparkoperator.k8s.io", f"{each}/status {each}/finalizers", "update")
                for each in ("sparkapplications", "scheduledsparkapplications", "sparkconnects")
            ),
        ),
        (("core", "events", "create update patch"),),
        one=True,
    ),
}
"""By the program of the operator."""
DRIVER: Final = Account(
    "",
    "spark",
    (),
    (("core", "pods configmaps persistentvolumeclaims services", f"{_WRITE} deletecollection"),),
)
"""That of Spark's drivers in the namespace of their applications (config/spark-rbac/spark-application-rbac.yaml). A pod
of any user of this namespace may use it.
"""


def objects_of(account: Account, jobs: str = "") -> list[Raw]:
    """Returns the objects that make an account: its namespace, if it is an operator's, itself, its roles and their
    bindings.

    ``jobs``: the namespace with the jobs of an operator that has its rights in one namespace only.
    """
    name, home = account.name, account.namespace
    made: list[Raw] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}}]
    if account.rules:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}
        made = [space, *made, *_role(account, account.rules, jobs if account.one else "")]
    return [*made, *_role(account, account.home, home)] if account.home else made


def _role(account: Account, rules: tuple[Rule, ...], namespace: str) -> list[Raw]:
    """A role of these rules in a namespace, or in all, and its binding."""
    kind = "Role" if namespace else "ClusterRole"
    metadata: Raw = {"name": account.name, **({"namespace": namespace} if namespace else {})}
    of_rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    given = [
        {
            "apiGroups": ["" if each == "core" else each for each in groups.split()],
            "resources": resources.split(),
            "verbs": verbs.split(),
        }
        for groups, resources, verbs in rules
    ]
    return [
        {**of_rbac, "kind": kind, "rules": given},
        {
            **of_rbac,
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account.name},
            "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
        },
    ]
