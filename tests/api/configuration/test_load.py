"""A Configuration written for Kueue is read with the same meaning; a wrong one is refused with all its errors."""

from datetime import timedelta

import pytest

from api.configuration import ConfigurationError, load

V1BETA1 = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(text, feedback_rules=("unknown-queue", "never-fits"))
    return [str(error) for error in raised.value.errors]


def test_nothing_is_all_defaults() -> None:
    loaded = load("")
    configuration = loaded.configuration
    assert loaded.warnings == ()
    assert configuration.webhook.port == 9443
    assert configuration.metrics.bind_address == ":8443"
    assert configuration.metrics.local_queue_metrics.enable
    assert configuration.health.health_probe_bind_address == ":8081"
    assert configuration.leader_election.leader_elect
    assert configuration.leader_election.lease_duration == timedelta(seconds=15)
    assert not configuration.manage_jobs_without_queue_name
    assert configuration.integrations.frameworks == ["batch/job"]
    assert configuration.internal_cert_management.webhook_service_name == "kueue-webhook-service"
    assert configuration.client_connection.qps == 300
    assert configuration.fair_sharing is None
    assert configuration.object_retention_policies.workloads.after_finished is None
    assert configuration.managed_namespaces == {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
        ]
    }


def test_pods_are_waited_for_by_default_and_recovery_takes_as_long_as_the_start() -> None:
    wait = load("waitForPodsReady: {timeout: 7m}").configuration.wait_for_pods_ready
    assert wait is not None
    assert (wait.timeout, wait.recovery_timeout) == (timedelta(minutes=7), timedelta(minutes=7))
    assert not wait.block_admission
    assert wait.requeuing_strategy.backoff_limit_count is None
    assert wait.requeuing_strategy.timestamp == "Eviction"


def test_a_gate_switches_waiting_for_pods_off() -> None:
    assert load("featureGates: {DisableWaitForPodsReady: true}").configuration.wait_for_pods_ready is None


def test_the_namespace_of_seiretsu_is_never_managed_by_default() -> None:
    assert load("", namespace="batch").configuration.managed_namespaces["matchExpressions"][0]["values"] == [
        "kube-system",
        "batch",
    ]
    assert load("namespace: other", namespace="batch").configuration.namespace == "other"


def test_what_is_written_is_read() -> None:
    configuration = load(
        """
        apiVersion: config.kueue.x-k8s.io/v1beta2
        kind: Configuration
        manageJobsWithoutQueueName: true
        managedJobsNamespaceSelector: {matchLabels: {team: a}}
        clientConnection: {qps: 50, burst: 100}
        fairSharing: {preemptionStrategies: [LessThanInitialShare]}
        admissionFairSharing: {usageHalfLifeTime: 168h, resourceWeights: {cpu: 2, memory: 0.5}}
        resources:
          excludeResourcePrefixes: [networking.example.com]
          transformations:
          - {input: nvidia.com/mig-1g.5gb, strategy: Replace, outputs: {example.com/accelerator-memory: 5Ki, n: 1.5}}
        objectRetentionPolicies: {workloads: {afterFinished: 1h30m}}
        multiKueue: {dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-incremental}
        seiretsu:
          feedback:
            rules:
            - {name: never-fits, action: Deny, namespaceSelector: {matchLabels: {env: prod}}}
        """
    ).configuration
    assert configuration.manage_jobs_without_queue_name
    assert configuration.managed_namespaces == {"matchLabels": {"team": "a"}}
    assert configuration.client_connection.qps == 50.0
    assert configuration.fair_sharing is not None
    assert configuration.fair_sharing.preemption_strategies == ["LessThanInitialShare"]
    assert configuration.admission_fair_sharing is not None
    assert configuration.admission_fair_sharing.usage_half_life_time == timedelta(days=7)
    assert configuration.admission_fair_sharing.resource_weights == {"cpu": 2.0, "memory": 0.5}
    assert configuration.resources.transformations[0].outputs == {"example.com/accelerator-memory": "5Ki", "n": "1500m"}
    assert configuration.object_retention_policies.workloads.after_finished == timedelta(minutes=90)
    assert configuration.multi_kueue.incremental_dispatcher_config is not None
    assert configuration.multi_kueue.incremental_dispatcher_config.step_size == 3
    (rule,) = configuration.seiretsu.feedback.rules
    assert (rule.name, rule.action) == ("never-fits", "Deny")


def test_the_older_version_waits_and_shares_only_where_enabled() -> None:
    off = load(V1BETA1 + "waitForPodsReady: {timeout: 1m}\nfairSharing: {enable: false}").configuration
    assert off.wait_for_pods_ready is None
    assert off.fair_sharing is None
    on = load(V1BETA1 + "waitForPodsReady: {enable: true}\nfairSharing: {enable: true}").configuration
    assert on.wait_for_pods_ready is not None
    assert on.wait_for_pods_ready.block_admission
    assert on.fair_sharing is not None
    assert on.fair_sharing.preemption_strategies == ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


def test_what_fell_away_since_the_older_version_is_a_warning() -> None:
    loaded = load(
        V1BETA1 + "queueVisibility: {updateIntervalSeconds: 5}\nintegrations: {podOptions: {namespaceSelector: {}}}"
    )
    assert loaded.warnings == (
        "queueVisibility: has no effect any more; use the visibility API",
        "integrations.podOptions: has no effect any more; use managedJobsNamespaceSelector",
    )


def test_a_mapping_of_devices_without_its_gate_gives_a_warning() -> None:
    mapping = "resources: {deviceClassMappings: [{name: example.com/gpu, deviceClassNames: [gpu.example.com]}]}"
    assert load(mapping).warnings == ()
    assert load(f"{mapping}\nfeatureGates: {{KueueDRAIntegration: false}}").warnings == (
        "resources.deviceClassMappings: has no effect: featureGates.KueueDRAIntegration is false",
    )


FRAMEWORKS = {"batch/job": "", "pod": "", "example.com/alpha": "SparkApplicationIntegration"}


def test_a_framework_that_does_not_exist_is_an_error_with_those_that_do() -> None:
    text = "integrations: {frameworks: [batch/job, example.com/gang]}"
    assert load(text, frameworks=FRAMEWORKS | {"example.com/gang": ""}).warnings == ()
    with pytest.raises(ConfigurationError) as raised:
        load(text, frameworks=FRAMEWORKS)
    assert [str(error) for error in raised.value.errors] == [
        'integrations.frameworks[1]: Unsupported value: "example.com/gang": supported values:'
        ' "batch/job", "example.com/alpha", "pod"'
    ]


def test_a_framework_may_need_a_feature_gate() -> None:
    text = "integrations: {frameworks: [example.com/alpha]}"
    with pytest.raises(ConfigurationError) as raised:
        load(text, frameworks=FRAMEWORKS)
    assert [str(error) for error in raised.value.errors] == [
        'integrations.frameworks[0]: Invalid value: "example.com/alpha": is an alpha feature:'
        " enable the feature gate SparkApplicationIntegration"
    ]
    enabled = f"{text}\nfeatureGates: {{SparkApplicationIntegration: true}}"
    assert load(enabled, frameworks=FRAMEWORKS).warnings == ()


def test_t20_an_unknown_feature_gate_is_an_error() -> None:
    """T20: a typo must not start a process whose gate has its default; Kueue refuses it, too."""
    assert errors("featureGates: {PartialAdmision: false, Unheard: true}") == [
        'featureGates.PartialAdmision: Forbidden: unknown feature gate; did you mean "PartialAdmission"?',
        "featureGates.Unheard: Forbidden: unknown feature gate: correct its name, or remove it",
    ]


def test_a_gate_of_a_newer_kueue_is_an_error_that_says_what_to_do() -> None:
    assert errors("featureGates: {KueueDRAIntegrationPrioritizedList: true}") == [
        "featureGates.KueueDRAIntegrationPrioritizedList: Forbidden: is a feature gate of a newer release of Kueue,"
        " which Seiretsu does not have: remove it",
    ]


def test_a_gate_of_an_earlier_release_of_kueue_gives_a_warning() -> None:
    loaded = load("featureGates: {LendingLimit: true, KeepQuotaForProvReqRetry: false, PriorityBoost: true}")
    assert loaded.warnings == (
        "featureGates.LendingLimit: is no gate any more, ignored",
        "featureGates.KeepQuotaForProvReqRetry: is no gate any more, ignored",
    )
    assert loaded.gates["PriorityBoost"]


def test_nulls_are_absent_fields() -> None:
    assert load("webhook:\nmetrics: {bindAddress: null}").configuration == load("").configuration


def test_all_errors_of_form_and_meaning_are_reported_together() -> None:
    assert errors(
        """
        apiVersion: v1
        kind: Config
        metrics: {bindAdress: ":1"}
        manageJobsWithoutQueueName: "true"
        waitForPodsReady: {timeout: 5 minutes, requeuingStrategy: {timestamp: Now, backoffBaseSeconds: x}}
        resources: {transformations: [{outputs: {a: []}}]}
        clientConnection: {qps: lots}
        health: 5
        webhook: {port: 99999}
        featureGates: {PriorityBoost: maybe}
        multiKueue: {origin: "a b", gcInterval: -1s}
        fairSharing: {preemptionStrategies: []}
        seiretsu: {feedback: {rules: [{name: never-fits, action: Explode}]}}
        """
    ) == [
        'apiVersion: Unsupported value: "v1": supported values: "config.kueue.x-k8s.io/v1beta2",'
        ' "config.kueue.x-k8s.io/v1beta1"',
        'kind: Unsupported value: "Config": supported values: "Configuration"',
        "webhook.port: Invalid value: 99999: input should be less than or equal to 65535",
        'metrics.bindAdress: Forbidden: unknown field; did you mean "bindAddress"?',
        "health: Invalid value: 5: must be a map of fields",
        'manageJobsWithoutQueueName: Invalid value: "true": must be a boolean',
        'waitForPodsReady.timeout: Invalid value: "5 minutes": must be a duration such as "30s", "5m" or "1h30m"',
        'waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: "Now": supported values: "Creation",'
        ' "Eviction"',
        'waitForPodsReady.requeuingStrategy.backoffBaseSeconds: Invalid value: "x": must be an integer',
        'clientConnection.qps: Invalid value: "lots": must be a number',
        "resources.transformations[0].input: Required value",
        'resources.transformations[0].outputs.a: Invalid value: []: must be a quantity such as "500m" or "1Gi"',
        'featureGates.PriorityBoost: Invalid value: "maybe": must be a boolean',
        'seiretsu.feedback.rules[0].action: Unsupported value: "Explode": supported values: "Ignore", "Warn", "Deny"',
        'multiKueue.gcInterval: Invalid value: "-1s": must be greater than or equal to 0',
        'multiKueue.origin: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric'
        " characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or"
        " 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        "fairSharing.preemptionStrategies: Required value: must be specified",
    ]


CASES = {
    "a negative wait": (
        "waitForPodsReady: {timeout: -1m, requeuingStrategy: {backoffLimitCount: -1}}",
        [
            'waitForPodsReady.timeout: Invalid value: "-1m0s": must be greater than or equal to 0',
            "waitForPodsReady.requeuingStrategy.backoffLimitCount: Invalid value: -1: must be greater than or equal"
            " to 0",
        ],
    ),
    "frameworks twice": (
        "integrations: {frameworks: [pod, pod], externalFrameworks: [a.b, Foo.v1.example.com, Foo.v1.example.com]}",
        [
            'integrations.frameworks[1]: Duplicate value: "pod"',
            "integrations.externalFrameworks[0]: Invalid value: \"a.b\": must be format, 'Kind.version.group.com'",
            'integrations.externalFrameworks[2]: Duplicate value: "Foo.v1.example.com"',
        ],
    ),
    "a selector that takes in the system": (
        "managedJobsNamespaceSelector: {}",
        [
            'managedJobsNamespaceSelector: Invalid value: {}: should not match the "kube-system" namespace',
            'managedJobsNamespaceSelector: Invalid value: {}: should not match the "kueue-system" namespace',
        ],
    ),
    "a selector that is none": (
        "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: In}]}",
        [
            "managedJobsNamespaceSelector.matchExpressions[0].values: Required value: must be specified when"
            " `operator` is 'In' or 'NotIn'"
        ],
    ),
    "strategies in no legal order": (
        "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare]}",
        [
            'fairSharing.preemptionStrategies: Unsupported value: ["LessThanInitialShare",'
            '"LessThanOrEqualToFinalShare"]: supported values: "LessThanOrEqualToFinalShare", "LessThanInitialShare",'
            ' "LessThanOrEqualToFinalShare,LessThanInitialShare"'
        ],
    ),
    "usage that is never sampled": (
        "admissionFairSharing: {usageSamplingInterval: 0s, resourceWeights: {cpu: -1}}",
        [
            'admissionFairSharing.usageSamplingInterval: Invalid value: "0s": must be greater than 0',
            'admissionFairSharing.resourceWeights[cpu]: Invalid value: "-1.0": must be greater than or equal to 0',
        ],
    ),
    "a transformation twice, and prefixes with undeclared ignored": (
        "resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a],"
        " transformations: [{input: a}, {input: a}]}",
        [
            'resources.quotaCheckStrategy: Invalid value: "IgnoreUndeclared": excludeResourcePrefixes is not allowed'
            " when quotaCheckStrategy is IgnoreUndeclared",
            'resources.transformations[1].input: Duplicate value: "a"',
        ],
    ),
    "ciphers that cannot be chosen": (
        "tls: {minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256]}",
        [
            'tls.cipherSuites: Invalid value: ["TLS_AES_128_GCM_SHA256"]: may not be specified when `minVersion` is'
            " 'VersionTLS13'"
        ],
    ),
    "an address that is none": (
        "visibilityServer: {bindAddress: everywhere, bindPort: 0}",
        ["visibilityServer.bindPort: Invalid value: 0: input should be greater than or equal to 1"],
    ),
    "steps without the incremental dispatcher": (
        "multiKueue: {incrementalDispatcherConfig: {stepSize: 2}}",
        [
            'multiKueue.incrementalDispatcherConfig: Invalid value: {"stepSize":2}: incrementalDispatcherConfig is'
            " only valid when dispatcherName is set to the incremental dispatcher"
        ],
    ),
    "labels of metrics": (
        "metrics: {customLabels: [{name: 1a}, {name: b, sourceLabelKey: x, sourceAnnotationKey: y},"
        " {name: b, sourceKind: Workload}]}",
        [
            'metrics.customLabels[0].name: Invalid value: "1a": must match ^[a-zA-Z][a-zA-Z0-9_]*$',
            'metrics.customLabels[1]: Invalid value: {"name":"b","sourceLabelKey":"x","sourceAnnotationKey":"y"}:'
            " sourceLabelKey and sourceAnnotationKey are mutually exclusive",
            'metrics.customLabels[2].name: Duplicate value: "b"',
            "metrics.customLabels[2].trackedValues: Invalid value: []: must not be empty when sourceKind is 'Workload'",
        ],
    ),
    "a lease shorter than its renewal": (
        "leaderElection: {leaseDuration: 5s}",
        [
            'leaderElection.leaseDuration: Invalid value: "5s": must be longer than renewDeadline, and that longer'
            " than retryPeriod, and that longer than 0"
        ],
    ),
    "a gate that is locked": (
        "featureGates: {TLSOptions: false}",
        [
            "featureGates.TLSOptions: Invalid value: false: cannot set feature gate TLSOptions, feature is locked to"
            " true"
        ],
    ),
    "a rule nobody knows": (
        "seiretsu: {feedback: {rules: [{name: no-such-rule, action: Warn}]}}",
        [
            'seiretsu.feedback.rules[0].name: Unsupported value: "no-such-rule": supported values: "never-fits",'
            ' "unknown-queue"'
        ],
    ),
    "a key twice": (
        "metrics: {}\nmetrics: {}",
        ['line 2, column 1: Invalid value: "": not YAML: key "metrics" already set in map'],
    ),
    "a key that is no text": ("1: x", ['line 1, column 1: Invalid value: "": not YAML: key 1 is not a string']),
    "two documents": ("a: b\n---\nc: d", ["Too many: 2: must have at most 1 item"]),
    "a list": ("- a", ['Invalid value: ["a"]: must be a mapping of fields to values']),
    "notifications to where they may not go": (
        """
        seiretsu:
          notifications:
            waitingAfter: 5s
            receivers:
            - {name: a, url: "https://user:pass@example.com"}
            - {name: a, url: "https://example.com/x?token=1"}
            - {name: c, url: "http://example.com"}
            - {name: d, url: "http://example.com", allowHttp: true, pathFile: secret}
            - {name: e, url: "file:///etc/passwd", networks: [10.0.0.1/8]}
            - {name: f, url: "https://example.com", header: {name: Host, file: /a}, body: {text: ["{nam}"]}}
        """,
        [
            'seiretsu.notifications.waitingAfter: Invalid value: "5s": must be at least 1m',
            "seiretsu.notifications.receivers[0].url: Forbidden: has a user or password; write it to the file"
            " of header",
            'seiretsu.notifications.receivers[1].name: Duplicate value: "a"',
            "seiretsu.notifications.receivers[1].url: Forbidden: has a query or fragment; write the end of the"
            " URL to the file of pathFile",
            "seiretsu.notifications.receivers[2].url: Forbidden: http:// is neither encrypted nor"
            " authenticated; use https:// or set allowHttp",
            "seiretsu.notifications.receivers[3].url: Forbidden: a secret is not sent over http://; use https://",
            'seiretsu.notifications.receivers[3].pathFile: Invalid value: "secret": must be an absolute path',
            'seiretsu.notifications.receivers[4].url: Invalid value: "file": must be https://HOST[:PORT]/PATH',
            'seiretsu.notifications.receivers[4].networks[0]: Invalid value: "10.0.0.1/8": must be a network'
            " such as 10.96.0.0/12",
            "seiretsu.notifications.receivers[5].header.name: Forbidden: Host is set by Seiretsu",
            'seiretsu.notifications.receivers[5].body.text[0]: Invalid value: "{nam}": {nam} is no'
            " placeholder; there are {clusterQueue}, {job}, {localQueue}, {message}, {name}, {namespace},"
            " {priority}, {reason}, {text}, {time}, {type}",
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_an_error_is_reported_with_its_path(text: str, expected: list[str]) -> None:
    assert errors(text) == expected


def test_the_message_lists_one_error_a_line() -> None:
    with pytest.raises(ConfigurationError, match="invalid Configuration:\n  a: Forbidden: unknown field"):
        load("a: b")


@pytest.mark.parametrize(
    "text", ["a: [", "\x00", "a: !!python/object:os.system x", "[" * 5000, "&a {b: *a}", "? [a] : b"]
)
def test_no_text_is_too_strange_to_be_refused_calmly(text: str) -> None:
    with pytest.raises(ConfigurationError):
        load(text)
