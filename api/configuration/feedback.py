"""The section `seiretsu`: feedback about objects that Kueue would accept and leave waiting, trusted controllers, and
the end of pods.

Kueue does not know the section: only Seiretsu reads a Configuration that has it.
"""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from api.configuration.base import Duration, Section
from api.configuration.forecast import Forecast
from api.configuration.guard import Guard
from api.configuration.history import History
from api.configuration.notifications import Notifications
from api.configuration.population import Population
from api.configuration.recorder import Recorder
from api.configuration.time_sharing import TimeSharing
from api.configuration.ui import Ui
from api.v1beta2.base import LabelSelector

Action = Literal["Ignore", "Warn", "Deny"]
"""The action of a rule."""


RuleName = Annotated[str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""The name of a rule."""

ExpressionResource = Literal["jobs", "workloads", "clusterqueues", "localqueues", "cohorts", "resourceflavors"]
"""The objects that a rule of the operator may check."""


class FeedbackRule(Section):
    """The action of one rule in some namespaces."""

    name: RuleName
    """The rule."""
    action: Action
    """Ignore does nothing, Warn accepts the object with a warning, Deny refuses it."""
    namespace_selector: LabelSelector | None = None
    """The namespaces this holds for; absent is all. Of several entries for a rule the first that matches counts."""


class FeedbackExpression(Section):
    """A rule of the operator. Its action is set as for any other rule, by its name under `rules`."""

    name: RuleName
    """The rule."""
    resources: list[ExpressionResource] = Field(["jobs"], min_length=1)
    """The objects that it checks: `jobs` are jobs of every kind with a queue name, `workloads` those without a job."""
    expression: Annotated[str, Field(min_length=1, max_length=4096)]
    """A CEL expression that is true for correct objects. It can use `object`, `oldObject` (null on create), `request`
    (`operation`, `namespace`, `name`, `username`, `dryRun`), `namespaceObject` and, for jobs and workloads, `job`
    (`queue`, `priorityClass`, `pods`, `requests` by resource: cpu in thousandths, the rest in units, as
    `amount(resource, quantity)` returns them).
    """
    message: Annotated[str, Field(min_length=1, max_length=120)]
    """The message when it is false; it should name the fix."""
    message_expression: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """A CEL expression that returns the message; `message` is used if it fails."""


class Feedback(Section):
    """Feedback of admission."""

    expressions: list[FeedbackExpression] = Field(default_factory=list)
    """Rules of the operator."""
    rules: list[FeedbackRule] = Field(default_factory=list)
    """Rules that differ from their default, which is Warn."""


AccountName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\s'\"\\]+$")]
"""A user name as the API server authenticates it."""


class Controllers(Section):
    """Which accounts are believed to be controllers of jobs: only what they create follows its owner."""

    accounts: list[AccountName] = Field(default_factory=list)
    """User names; `system:serviceaccount:NAMESPACE:*` names all ServiceAccounts of a namespace. The ServiceAccounts of
    kube-system are always believed.
    """
    by_rights: bool = True
    """Whether an account is also believed that may update the status of the owner's kind in all namespaces."""


class EnableSection(Section):
    """Whether something is used that Kueue always uses. Without it, fewer rights are needed."""

    enable: bool = True


class SeiretsuSection(Section):
    """Settings that Kueue's Configuration does not have."""

    controllers: Controllers = Field(default_factory=Controllers)
    """Which accounts are believed to be controllers of jobs."""
    provisioning_requests: EnableSection = Field(default_factory=EnableSection)
    """ProvisioningRequests and their PodTemplates, for AdmissionChecks that ask for nodes."""
    queues: EnableSection = Field(default_factory=EnableSection)
    """Queues of v0.1, for each of which a LocalQueue is created."""

    feedback: Feedback = Field(default_factory=Feedback)
    """Feedback about objects that would wait for ever."""
    forecast: Forecast = Field(default_factory=Forecast)
    """When waiting workloads start."""
    guard: Guard = Field(default_factory=Guard)
    """What is done about pods that run without quota."""
    history: History = Field(default_factory=History)
    """What is recorded of workloads after they are gone."""
    notifications: Notifications = Field(default_factory=Notifications)
    """Who is notified of what happens to workloads."""
    population: Population = Field(default_factory=Population)
    """LocalQueues that namespaces get by themselves."""
    recorder: Recorder = Field(default_factory=Recorder)
    """Whether the decisions of each cycle are recorded."""
    time_sharing: TimeSharing = Field(default_factory=TimeSharing)
    """Workloads that have run for long give way."""
    system_priority_namespaces: list[str] = Field(default_factory=lambda: ["kube-system"])
    """Where the PriorityClasses of Kubernetes (`system-`) of pods order the queue; `*` is everywhere, as in Kueue."""
    terminating_pods_timeout: Duration = timedelta(minutes=5)
    """How long a stopped job keeps its quota while its pods terminate; with 0 it releases it before, as in Kueue."""
    ui: Ui = Field(default_factory=Ui)
    """The page for people."""
