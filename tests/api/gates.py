"""Each feature gate that can be switched, and the tests that show what it changes: on and off, by its name or by the
setting that it is read into (``SETTINGS`` tests that each gate changes the setting).
"""

from __future__ import annotations

from typing import Final

SETTINGS: Final = "tests/controller/test_settings.py::test_a_feature_gate_of_the_controller_changes_its_settings"
_METRICS: Final = "tests/controller/test_metrics.py::test_metrics_of_a_feature_gate_that_is_off_are_not_there"
_RULES: Final = "tests/api/validate/test_gates.py::test_a_rule_holds_where_its_gate_is_on"
_INTEGRATIONS: Final = "tests/core/jobs/test_integration_gates.py"
_GATES: Final = "tests/core/test_gates.py"
_CYCLE: Final = "tests/core/test_cycle.py"
_PLACED: Final = "tests/core/test_placement_cycle.py"
_DEVICES: Final = "tests/core/devices/test_inventory.py"

SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "AdmissionFairSharing": (
        SETTINGS,
        "tests/core/test_admission_fair_sharing.py::test_the_local_queue_that_used_less_goes_first_whatever_the_priority",
    ),
    "AdmissionGatedBy": (
        "tests/core/test_decode.py::test_gates_of_admission_and_reclaimable_pods_count_where_their_feature_gates_are_on",
        _RULES,
    ),
    "AssignQueueLabelsForPods": (f"{_INTEGRATIONS}::test_pods_get_the_labels_of_their_queues",),
    "CleanupProvisioningRequestsOnEviction": (
        SETTINGS,
        "tests/core/provisioning/test_any_order.py::test_the_actions_end_with_one_request_that_is_right",
    ),
    "ConcurrentAdmission": (
        "tests/core/test_checks.py::test_a_multikueue_check_excludes_concurrent_admission",
        "tests/cluster/test_admission.py::test_a_job_moves_to_the_preferred_flavor_when_that_is_free",
        _RULES,
    ),
    "CustomMetricLabels": (
        SETTINGS,
        "tests/controller/test_metrics.py::test_labels_of_objects_are_promoted_to_metrics",
    ),
    "DeferRayServiceFinalizationForRedisCleanup": (
        f"{_INTEGRATIONS}::test_a_ray_service_keeps_its_quota_until_redis_is_cleaned_up",
    ),
    "DisableWaitForPodsReady": ("tests/api/configuration/test_load.py::test_a_gate_switches_waiting_for_pods_off",),
    "ElasticJobsViaWorkloadSlices": (
        "tests/core/jobs/test_elastic.py::test_without_the_feature_a_job_that_grows_is_stopped",
        "tests/core/jobs/test_elastic.py::test_a_job_that_grows_while_it_runs_gets_a_replacement_and_is_not_stopped",
    ),
    "ElasticJobsViaWorkloadSlicesWithTAS": (f"{_GATES}::test_the_pods_of_an_elastic_job_that_run_stay_on_their_nodes",),
    "FailureRecoveryPolicy": (
        "tests/controller/test_failure_recovery.py::test_it_is_there_only_with_the_feature_gate",
    ),
    "FairSharingPreemptWithinNominal": (f"{_GATES}::test_who_is_within_its_own_quota_preempts_whatever_its_share_is",),
    "FairSharingPrioritizeNonBorrowing": (
        f"{_GATES}::test_who_needs_no_quota_of_others_comes_first_whatever_its_share_is",
    ),
    "FastQuotaReleaseInPodIntegration": (f"{_INTEGRATIONS}::test_fast_quota_release_of_pods",),
    "FinishOrphanedWorkloads": (
        "tests/core/jobs/test_decide.py::test_a_workload_whose_job_is_gone_is_finished",
        "tests/core/jobs/test_decide.py::test_without_its_gate_a_workload_whose_job_is_gone_only_loses_its_finalizer",
    ),
    "FlavorFungibility": (
        "tests/core/test_rules.py::test_without_flavor_fungibility_the_first_flavor_that_fits_is_taken",
    ),
    "FlavorFungibilityPreserveScanProgress": (
        f"{_CYCLE}::test_a_search_that_lost_its_quota_to_another_goes_on_where_its_gate_is_on",
        f"{_CYCLE}::test_a_search_goes_on_whatever_happens_meanwhile_where_its_gate_is_on",
    ),
    "KueueDRADeviceFeasibility": (
        "tests/core/devices/test_nodes.py::test_with_the_gate_off_no_node_has_devices_and_no_pod_takes_any",
    ),
    "KueueDRAIntegration": (
        "tests/controller/test_devices.py::test_without_the_integration_claims_are_refused_or_count_for_nothing",
    ),
    "KueueDRAIntegrationConsumableCapacity": (f"{_DEVICES}::test_without_its_gate_a_capacity_is_not_used",),
    "KueueDRAIntegrationExtendedResource": (f"{_DEVICES}::test_without_its_gate_no_class_stands_for_a_resource",),
    "KueueDRAIntegrationPartitionableDevices": (f"{_DEVICES}::test_without_its_gate_a_counter_is_not_used",),
    "KueueDRARejectWorkloadsWhenDRADisabled": (
        "tests/controller/test_devices.py::test_without_the_integration_claims_are_refused_or_count_for_nothing",
    ),
    "LWSImmutableGroupSize": (
        "tests/core/jobs/test_leader_worker_sets.py::test_the_size_may_change_without_its_feature_gate",
    ),
    "LocalQueueMetrics": (_METRICS,),
    "MetricForWorkloadCreationLatency": (_METRICS,),
    "MetricsForCohorts": (_METRICS,),
    "MultiKueue": (
        SETTINGS,
        "tests/cli/test_simulate_fleet.py::test_a_live_manager_whose_gate_multikueue_is_off_is_simulated_alone",
    ),
    "MultiKueueAdaptersForCustomJobs": (SETTINGS,),
    "MultiKueueClusterProfile": (
        SETTINGS,
        "tests/controller/test_multikueue.py::test_a_cluster_of_the_inventory_is_reached_by_the_command_of_its_provider",
    ),
    "MultiKueueIncrementalDispatcherConfig": (SETTINGS, "tests/core/multikueue/test_dispatch.py::test_the_dispatcher"),
    "MultiKueueIncrementalDispatcherRespectConfigOrder": (
        "tests/core/multikueue/test_dispatch.py::test_the_dispatcher",
    ),
    "MultiKueueKubeConfigPathValidation": (
        SETTINGS,
        "tests/core/multikueue/test_conditions.py::test_a_kubeconfig_file_is_read_only_below_one_directory",
    ),
    "MultiKueueManagerQuotaAutomation": (
        SETTINGS,
        "tests/controller/test_multikueue.py::test_no_quota_is_lowered_before_a_worker_is_lost_for_long",
    ),
    "MultiKueueOrchestratedPreemption": (
        SETTINGS,
        "tests/core/multikueue/test_preemption.py::test_a_copy_has_the_gate_and_none_of_the_gates_here",
    ),
    "MultiKueueRemoteSpecSync": ("tests/core/multikueue/test_forwarded.py::test_nothing_else_is_changed_there",),
    "PartialAdmission": (
        "tests/controller/test_settings.py::test_every_section_that_queueing_depends_on_is_taken_over",
        f"{_CYCLE}::test_partial_admission_takes_as_many_pods_as_fit_but_not_fewer_than_asked",
        "tests/webhook/test_configurations.py::test_workloads_lose_their_min_counts_only_where_partial_admission_is_off",
    ),
    "PodIntegrationValidateGroupOwner": (f"{_INTEGRATIONS}::test_validation_of_the_owner_of_a_group",),
    "PrioritizePreemptorWorkloads": (
        f"{_CYCLE}::test_with_its_gate_a_preemptor_gets_what_its_victims_leave_before_a_higher_priority",
    ),
    "PriorityBoost": (
        "tests/core/test_decode.py::test_the_effective_priority_has_the_boost_where_its_gate_is_on",
        _RULES,
    ),
    "PrioritySortingWithinCohort": (f"{_CYCLE}::test_among_borrowers_priority_decides_and_without_it_time",),
    "QuotaCheckStrategy": (
        SETTINGS,
        "tests/core/test_state.py::test_a_parked_workload_that_fits_in_any_way_comes_before_one_of_lower_priority",
    ),
    "ReclaimablePods": (
        "tests/core/jobs/test_decide.py::test_without_the_feature_gate_pods_keep_their_quota_until_the_job_ends",
    ),
    "RecomputeAssignmentUponPreemptionTargetsOverlap": (
        f"{_GATES}::test_who_wants_the_victim_of_another_finds_a_further_one_in_the_same_cycle",
    ),
    "RejectUpdatesToCQWithInvalidOnFlavors": (_RULES,),
    "SchedulerLibraryIntegration": (
        f"{_PLACED}::test_a_cordoned_node_is_for_pods_that_tolerate_it_with_the_scheduler_library",
    ),
    "ShortWorkloadNames": (f"{_INTEGRATIONS}::test_short_workload_names",),
    "SkipAncestorCheckForDeletedWorkloads": (
        "tests/webhook/test_job_validation.py::test_a_job_that_is_deleted_after_its_owner_may_be_changed",
    ),
    "SkipReassignmentForPodOwnedWorkloads": (f"{_GATES}::test_the_workload_of_a_pod_keeps_its_failed_node",),
    "SparkApplicationIntegration": ("tests/api/configuration/test_load.py::test_a_framework_may_need_a_feature_gate",),
    "TASAssignmentsEncodingByHostnamePrefix": (
        "tests/core/topology/test_encoding.py::test_hosts_of_different_pools_are_in_slices_of_their_own",
    ),
    "TASBalancedPlacement": (
        "tests/core/topology/test_balanced.py::test_pods_spread_evenly_over_the_fewest_hosts",
        "tests/core/topology/test_balanced.py::test_the_lowest_level_is_balanced_alone",
    ),
    "TASFailedNodeReplacement": (
        SETTINGS,
        f"{_PLACED}::test_the_pods_of_a_failed_node_are_placed_anew_or_the_workload_is_evicted",
    ),
    "TASFailedNodeReplacementFailFast": (
        f"{_PLACED}::test_the_pods_of_a_failed_node_are_placed_anew_or_the_workload_is_evicted",
        f"{_PLACED}::test_without_fail_fast_a_workload_keeps_its_quota_until_there_is_another_node",
    ),
    "TASHandleOverlappingFlavors": (f"{_GATES}::test_flavors_that_have_a_node_in_common_count_it_together",),
    "TASMultiLayerTopology": (f"{_GATES}::test_several_layers_of_slices_are_accepted",),
    "TASProfileMixed": ("tests/core/topology/test_place.py::test_without_the_mixed_profile_unconstrained_is_best_fit",),
    "TASRecomputeAssignmentWithinSchedulingCycle": (
        f"{_PLACED}::test_a_head_whose_domain_an_earlier_head_takes_is_placed_elsewhere_in_the_same_cycle",
    ),
    "TASReplaceNodeDueToNotReadyOverFixedTime": (SETTINGS, "tests/core/topology/test_health.py::test_a_node"),
    "TASReplaceNodeOnNodeTaints": (SETTINGS, "tests/core/topology/test_health.py::test_a_node"),
    "TASReplaceNodeOnPodTermination": (SETTINGS, "tests/core/topology/test_health.py::test_a_node"),
    "TASRespectNodeAffinityPreferred": ("tests/core/topology/test_place.py::test_preferred_nodes_are_taken_first",),
    "TASTopologySpreading": ("tests/core/test_spreading.py::test_with_the_gate_off_the_rules_have_no_effect",),
    "TASValidateWorkloadSliceSize": (_RULES,),
    "TopologyAwareScheduling": (f"{_PLACED}::test_with_the_gate_off_a_topology_has_no_effect",),
    "UnadmittedWorkloadsExplicitStatus": (
        "tests/controller/test_settings.py::test_the_status_is_explicit_where_both_gates_are_on",
        "tests/core/test_lifecycle.py::test_where_the_status_is_to_be_explicit_a_new_workload_says_at_once_that_it_waits",
    ),
    "UnadmittedWorkloadsObservability": (
        _METRICS,
        "tests/core/test_lifecycle.py::test_without_the_gate_it_waits_for_a_reason_of_earlier_releases",
    ),
    "ValidateRayAndSparkJobUpdates": (
        "tests/webhook/test_job_kinds.py::test_updates_of_ray_and_spark_are_checked_by_queue",
    ),
    "VisibilityOnDemand": (
        "tests/app/test_setup.py::test_the_visibility_api_is_served_on_demand_and_only_with_its_gate",
    ),
    "WorkloadIdentifierAnnotations": (f"{_GATES}::test_identifiers_are_read_from_annotations_before_labels",),
    "WorkloadPriorityClassDefaulting": ("tests/webhook/test_jobs.py::test_defaults_of_an_unqueued_job",),
    "WorkloadValidateResourcesAreNonNegative": (_RULES,),
    "WorkloadValidationForPodSetMetadata": (_RULES,),
}
