"""A typed client: submit a job to a queue, wait with progress, learn why it waits and for how long it probably will.

It imports the standard library only, and its classes may have the names of those of the program; the credentials come
from the pod it runs in, or from the configuration of the official ``kubernetes`` package::

    from kubernetes import client, config
    from seiretsu.client import Queue

    config.load_kube_config()
    queue = Queue.of(client.Configuration.get_default_copy(), "main", namespace="team-a")
    job = queue.submit(manifest)
    job.wait(progress=print)

It works with every kind that has one Workload, and with Kueue's controller too: it reads jobs, Workloads and events.

``CheckController`` is for those who write the controller of an AdmissionCheck.
"""

from seiretsu.client.check import CheckController
from seiretsu.client.estimate import Estimate, Forecast
from seiretsu.client.http import ApiError, UnreachableError
from seiretsu.client.queue import Job, Queue, WaitTimeoutError
from seiretsu.client.standing import JobStanding, Limit, QueueStanding
from seiretsu.client.state import Phase, State
from seiretsu.client.verdict import Question, Verdict

__all__ = [
    "ApiError",
    "CheckController",
    "Estimate",
    "Forecast",
    "Job",
    "JobStanding",
    "Limit",
    "Phase",
    "Question",
    "Queue",
    "QueueStanding",
    "State",
    "UnreachableError",
    "Verdict",
    "WaitTimeoutError",
]
