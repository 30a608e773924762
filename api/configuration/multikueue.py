"""Sending workloads to other clusters: the section `multiKueue`."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from api.configuration.base import Duration, Section
from api.names import DISPATCHER_ALL_AT_ONCE


class ExternalFramework(Section):
    """A kind of job that an adapter of another vendor handles."""

    name: str
    """Kind.version.group"""


class ExecEnv(Section):
    """A variable of the command."""

    name: Annotated[str, Field(min_length=1)]
    value: str = ""


class ExecConfig(Section):
    """A command that prints credentials (client-go's exec plugins)."""

    command: Annotated[str, Field(min_length=1)]
    api_version: Annotated[str, Field(min_length=1)]
    interactive_mode: Literal["Never", "IfAvailable", "Always"]
    args: list[str] = Field(default_factory=list)
    env: list[ExecEnv] = Field(default_factory=list)
    install_hint: str = ""
    provide_cluster_info: bool = False
    config: Any = None


class AccessProvider(Section):
    """How clusters of an inventory are reached."""

    name: Annotated[str, Field(min_length=1)]
    exec_config: ExecConfig


class ClusterProfile(Section):
    """Clusters of an inventory."""

    access_providers: list[AccessProvider] = Field(default_factory=list)
    credentials_providers: list[AccessProvider] = Field(default_factory=list)


class KubeConfigs(Section):
    """What the kubeconfigs of worker clusters may ask for, in addition to Kueue's rules. Kueue has no such section."""

    allow_http: bool = False
    allow_proxy_url: bool = False


class IncrementalDispatcherConfig(Section):
    """Offering workloads to more and more clusters."""

    step_size: Annotated[int, Field(ge=1)] = 3


class MultiKueue(Section):
    """Sending workloads to other clusters."""

    gc_interval: Duration = timedelta(minutes=1)
    origin: str = "multikueue"
    worker_lost_timeout: Duration = timedelta(minutes=15)
    dispatcher_name: str = DISPATCHER_ALL_AT_ONCE
    external_frameworks: list[ExternalFramework] = Field(default_factory=list)
    cluster_profile: ClusterProfile | None = None
    kube_configs: KubeConfigs = Field(default_factory=KubeConfigs)
    incremental_dispatcher_config: IncrementalDispatcherConfig | None = None
