"""The programs of a control plane and their paths on this machine.

A program is searched in the directory `KUBEBUILDER_ASSETS`, then in the user's cache directory, and is else built once
from the Go modules pinned in this package: `build.ensure`. The cache directory of a module has the hash of everything
that affects its programs, so an upgrade never uses the programs of the previous version.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "tools"

Report = Callable[[str], None]
"""Receives one sentence of progress; for example `print`."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program: the Go package it is built from, and the linker stamps with its version.

    `stamps` maps a Go variable to a format string over `version`, `major` and `minor` of the module `source`.
    """

    name: str
    package: str
    source: str
    stamps: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """A file of the Go module `source`, by its path there, that is kept beside the programs under `name`."""

    name: str
    source: str
    path: str


@dataclass(frozen=True, slots=True)
class Module:
    """A go.mod and the programs built together from it. `minutes`: a guess for two cores and a fast network. `tags`:
    build tags, separated by commas.
    """

    name: str
    directory: Path
    tools: tuple[Tool, ...]
    minutes: int
    manifests: tuple[Manifest, ...] = ()
    tags: str = ""


_KUBERNETES = "k8s.io/kubernetes"
_VERSION = "k8s.io/component-base/version"
_KUBERNETES_STAMPS = (
    (f"{_VERSION}.gitVersion", "{version}"),
    (f"{_VERSION}.gitMajor", "{major}"),
    (f"{_VERSION}.gitMinor", "{minor}"),
    (f"{_VERSION}.gitTreeState", "clean"),
)


def _of_kubernetes(name: str) -> Tool:
    return Tool(name, f"{_KUBERNETES}/cmd/{name}", _KUBERNETES, _KUBERNETES_STAMPS)


CONTROL_PLANE = Module(
    "control plane",
    MODULES,
    (
        Tool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        _of_kubernetes("kube-apiserver"),
        _of_kubernetes("kube-controller-manager"),
        _of_kubernetes("kube-scheduler"),
        _of_kubernetes("kubectl"),
        Tool("kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    ),
    minutes=6,
)
_HELM = "helm.sh/helm/v4"
_HELM3 = "helm.sh/helm/v3"
HELM = Module(
    "helm 4 and helm 3",
    MODULES / "helm",
    (
        Tool("helm", f"{_HELM}/cmd/helm", _HELM, ((f"{_HELM}/internal/version.version", "{version}"),)),
        Tool(
            "helm3",
            f"{_HELM3}/cmd/helm",
            _HELM3,
            (
                (f"{_HELM3}/internal/version.version", "{version}"),
                (f"{_HELM3}/pkg/chartutil.k8sVersionMajor", "1"),
                (f"{_HELM3}/pkg/chartutil.k8sVersionMinor", "36"),
            ),
        ),
    ),
    minutes=3,
)
_PROMETHEUS = "github.com/prometheus/prometheus"
PROMTOOL = Module(
    "promtool",
    MODULES / "promtool",
    (Tool("promtool", f"{_PROMETHEUS}/cmd/promtool", _PROMETHEUS),),
    minutes=2,
    tags="remove_all_sd",  # without the clients of all clouds, which service discovery needs
)
KIND = Module("kind", MODULES / "kind", (Tool("kind", "sigs.k8s.io/kind", "sigs.k8s.io/kind"),), minutes=1)
_KUBECONFORM = "github.com/yannh/kubeconform"
_PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator"
_PROMETHEUS_CRDS = "example/prometheus-operator-crd/monitoring.coreos.com"
_CERT_MANAGER = "github.com/cert-manager/cert-manager"
KUBECONFORM = Module(
    "kubeconform",
    MODULES / "kubeconform",
    (Tool("kubeconform", f"{_KUBECONFORM}/cmd/kubeconform", _KUBECONFORM),),
    minutes=1,
    manifests=(
        Manifest("swagger.json", _KUBERNETES, "api/openapi-spec/swagger.json"),
        *(
            Manifest(f"{each}.yaml", _PROMETHEUS_OPERATOR, f"{_PROMETHEUS_CRDS}_{each}.yaml")
            for each in ("servicemonitors", "prometheusrules")
        ),
        *(
            Manifest(f"{each}.yaml", _CERT_MANAGER, f"deploy/crds/cert-manager.io_{each}.yaml")
            for each in ("certificates", "certificaterequests", "issuers", "clusterissuers")
        ),
    ),
)
"""With what it compares: the schemas of Kubernetes, and of the kinds of the Prometheus operator and cert-manager."""
CERT_MANAGER = Module(
    "cert-manager",
    MODULES / "certmanager",
    (Tool("cert-manager", "seiretsu.dev/devcluster/tools/certmanager", _CERT_MANAGER),),
    minutes=5,
)
"""Its controllers and its CA injector in one program of our own, `main.go`: their own ones cannot be required."""
_JOBSET = "sigs.k8s.io/jobset"
_MPI = "github.com/kubeflow/mpi-operator"
_TRAINING = "github.com/kubeflow/training-operator"
_LWS = "sigs.k8s.io/lws"
_TRAINER = "github.com/kubeflow/trainer/v2"
_APPWRAPPER = "github.com/project-codeflare/appwrapper"
_KUBERAY = "github.com/ray-project/kuberay/ray-operator"
_SPARK = "github.com/kubeflow/spark-operator/v2"


def _crds(source: str, directory: str, group: str, *plurals: str) -> tuple[Manifest, ...]:
    """The definitions of these resources, each as PLURAL.yaml."""
    return tuple(Manifest(f"{each}.yaml", source, f"{directory}/{group}_{each}.yaml") for each in plurals)


OPERATORS = Module(
    "the operators of JobSet, MPI, Kubeflow, LeaderWorkerSet and AppWrapper",
    MODULES / "operators",
    (
        Tool("jobset-controller", _JOBSET, _JOBSET),
        Tool("mpi-operator", f"{_MPI}/cmd/mpi-operator", _MPI),
        Tool("training-operator", f"{_TRAINING}/cmd/training-operator.v1", _TRAINING),
        Tool("lws-controller", f"{_LWS}/cmd", _LWS),
        Tool("trainer-controller", f"{_TRAINER}/cmd/trainer-controller-manager", _TRAINER),
        Tool("appwrapper-controller", f"{_APPWRAPPER}/cmd", _APPWRAPPER),
    ),
    minutes=3,
    manifests=(
        Manifest("jobset-crd.yaml", _JOBSET, "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
        Manifest("jobset-webhooks.yaml", _JOBSET, "config/components/webhook/manifests.yaml"),
        *_crds(_TRAINING, "manifests/base/crds", "kubeflow.org", "pytorchjobs", "tfjobs", "xgboostjobs"),
        *_crds(_TRAINING, "manifests/base/crds", "kubeflow.org", "paddlejobs", "jaxjobs"),
        Manifest("mpijobs.yaml", _MPI, "manifests/base/kubeflow.org_mpijobs.yaml"),
        *_crds(_LWS, "config/crd/bases", "leaderworkerset.x-k8s.io", "leaderworkersets"),
        *_crds(_LWS, "config/crd/bases", "disaggregatedset.x-k8s.io", "disaggregatedsets"),
        Manifest("lws-webhooks.yaml", _LWS, "config/webhook/manifests.yaml"),
        *_crds(_TRAINER, "manifests/base/crds", "trainer.kubeflow.org", "trainjobs", "trainingruntimes"),
        *_crds(_TRAINER, "manifests/base/crds", "trainer.kubeflow.org", "clustertrainingruntimes"),
        Manifest("trainer-webhooks.yaml", _TRAINER, "manifests/base/webhook/manifests.yaml"),
        *_crds(_APPWRAPPER, "config/crd/bases", "workload.codeflare.dev", "appwrappers"),
    ),
)
"""One module, because most of the cost is Kubernetes' own packages, which the six then share."""
RAY_AND_SPARK = Module(
    "the operators of Ray and Spark",
    MODULES / "ray_and_spark",
    (
        Tool("kuberay-operator", _KUBERAY, _KUBERAY),
        Tool("spark-operator", f"{_SPARK}/cmd/operator", _SPARK),
    ),
    minutes=2,
    manifests=(
        *_crds(_KUBERAY, "config/crd/bases", "ray.io", "rayclusters", "rayjobs", "rayservices"),
        *_crds(_SPARK, "config/crd/bases", "sparkoperator.k8s.io", "sparkapplications", "scheduledsparkapplications"),
        *_crds(_SPARK, "config/crd/bases", "sparkoperator.k8s.io", "sparkconnects"),
    ),
)
"""Apart from the others: they do not compile with controller-runtime 0.23 and newer."""
_AUTOSCALER = "k8s.io/autoscaler/cluster-autoscaler/apis"
AUTOSCALER = Module(
    "the definition of ProvisioningRequests",
    MODULES / "autoscaler",
    (),
    minutes=1,
    manifests=_crds(_AUTOSCALER, "config/crd", "autoscaling.x-k8s.io", "provisioningrequests"),
)
"""As cluster-autoscaler publishes it; its program has a stand-in in the tests."""
ALL = (
    CONTROL_PLANE,
    HELM,
    PROMTOOL,
    KUBECONFORM,
    CERT_MANAGER,
    KIND,
    OPERATORS,
    RAY_AND_SPARK,
    AUTOSCALER,
)


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the directory of this user's data: `XDG_CACHE_HOME`, or the default of the platform."""
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base) / "seiretsu"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "seiretsu"
    return Path.home() / ".cache" / "seiretsu"


def module_versions(directory: Path) -> dict[str, str]:
    """The version of every module that a directory's go.mod requires."""
    text = (directory / "go.mod").read_text()
    return dict(re.findall(r"^(?:require)?\s*([a-z0-9][^\s]*) (v[^\s]+)(?: // indirect)?$", text, re.MULTILINE))


def stamps(tool: Tool, directory: Path) -> dict[str, str]:
    """The linker's variables for a program, with the version its go.mod pins."""
    if not tool.stamps:
        return {}
    version = module_versions(directory)[tool.source]
    major, minor = version.removeprefix("v").split(".")[:2]
    return {variable: value.format(version=version, major=major, minor=minor) for variable, value in tool.stamps}


def module_hash(module: Module) -> str:
    """Everything that decides the programs of a module: pinned sources, packages, stamps, tags, platform."""
    digest = hashlib.sha256()
    for file in (module.directory / "go.mod", module.directory / "go.sum", *sorted(module.directory.glob("*.go"))):
        digest.update(file.read_bytes())
    for tool in module.tools:
        digest.update(repr(tool).encode())
    for manifest in module.manifests:
        digest.update(repr(manifest).encode())
    digest.update(f"{sys.platform} {platform.machine()}{module.tags}".encode())
    return digest.hexdigest()[:16]


def module_directory(module: Module, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the programs built from a module are kept."""
    return cache_directory(environ) / "tools" / module_hash(module)


def module_of(name: str) -> Module:
    """Returns the module that a program is built from; `KeyError` for an unknown program."""
    for module in ALL:
        if any(tool.name == name for tool in module.tools):
            return module
    raise KeyError(name)


def find(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the path of a program, without building: `KUBEBUILDER_ASSETS` first, then the cache; `None` if it is in
    neither.
    """
    places = [module_directory(module_of(name), environ)]
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        places.insert(0, Path(assets))
    for place in places:
        if os.access(place / name, os.X_OK) and (place / name).is_file():
            return place / name
    return None
