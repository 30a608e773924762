{{- /* Made by `make generate` from controller/run/watched.py. */ -}}
{{- define "seiretsu.rules" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- $frameworks := default (list "batch/job") (default (dict) $configuration.integrations).frameworks -}}
{{- $gates := default (dict) $configuration.featureGates -}}
{{- $kept := default (dict) (default (dict) $configuration.objectRetentionPolicies).workloads -}}
{{- $guard := default (dict) (default (dict) $configuration.seiretsu).guard -}}
{{- $external := default (list) (default (dict) $configuration.integrations).externalFrameworks -}}
- apiGroups: [""]
  resources: [namespaces, limitranges, nodes, resourcequotas]
  verbs: [list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [provisioningrequestconfigs, cohorts, workloadpriorityclasses]
  verbs: [list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list, watch, get, create, patch, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors, admissionchecks, clusterqueues, localqueues]
  verbs: [list, watch, patch]
- apiGroups: [kueue.x-k8s.io]
  resources: [admissionchecks/status, cohorts/status, clusterqueues/status, localqueues/status]
  verbs: [patch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [update, patch]
- apiGroups: [node.k8s.io]
  resources: [runtimeclasses]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
{{- if or (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [apps]
  resources: [replicasets, deployments]
  verbs: [get]
- apiGroups: [workload.codeflare.dev]
  resources: [appwrappers]
  verbs: [get]
{{- end }}
{{- if or (has "statefulset" $frameworks) (has "leaderworkerset.x-k8s.io/leaderworkerset" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get]
{{- end }}
{{- if or (has "leaderworkerset.x-k8s.io/leaderworkerset" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get]
{{- end }}
{{- if or (has "batch/job" $frameworks) (has "kubeflow.org/mpijob" $frameworks) (has "ray.io/rayjob" $frameworks) (has "jobset.x-k8s.io/jobset" $frameworks) (has "trainer.kubeflow.org/trainjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get]
{{- end }}
{{- if or (has "kubeflow.org/mpijob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [get]
{{- end }}
{{- if or (has "ray.io/rayjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [ray.io]
  resources: [rayjobs]
  verbs: [get]
{{- end }}
{{- if or (has "ray.io/raycluster" $frameworks) (has "ray.io/rayjob" $frameworks) (has "ray.io/rayservice" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [get]
{{- end }}
{{- if or (has "ray.io/rayservice" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [ray.io]
  resources: [rayservices]
  verbs: [get]
{{- end }}
{{- if or (has "jobset.x-k8s.io/jobset" $frameworks) (has "trainer.kubeflow.org/trainjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [get]
{{- end }}
{{- if or (has "trainer.kubeflow.org/trainjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [get]
{{- end }}
{{- if or (has "kubeflow.org/pytorchjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs]
  verbs: [get]
{{- end }}
{{- if or (has "kubeflow.org/tfjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [get]
{{- end }}
{{- if or (has "kubeflow.org/xgboostjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs]
  verbs: [get]
{{- end }}
{{- if or (has "kubeflow.org/paddlejob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [kubeflow.org]
  resources: [paddlejobs]
  verbs: [get]
{{- end }}
{{- if or (has "kubeflow.org/jaxjob" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [kubeflow.org]
  resources: [jaxjobs]
  verbs: [get]
{{- end }}
{{- if or (has "sparkoperator.k8s.io/sparkapplication" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [get]
{{- end }}
{{- if or (or (has "pod" $frameworks) (has "deployment" $frameworks) (has "statefulset" $frameworks) (has "leaderworkerset.x-k8s.io/leaderworkerset" $frameworks)) (has "sparkoperator.k8s.io/sparkapplication" $frameworks) (has "workload.codeflare.dev/appwrapper" $frameworks) ($external) }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- end }}
{{- if ne (toString (get $gates "MultiKueue")) "false" }}
- apiGroups: [kueue.x-k8s.io]
  resources: [multikueueconfigs, multikueueclusters]
  verbs: [list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [multikueueclusters/status]
  verbs: [patch]
{{- end }}
{{- if $configuration.seiretsu.provisioningRequests.enable }}
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests]
  verbs: [list, watch, create, delete]
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests/finalizers]
  verbs: [update]
{{- end }}
{{- if $configuration.seiretsu.queues.enable }}
- apiGroups: [kueue.x-k8s.io]
  resources: [queues]
  verbs: [list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [queues/status]
  verbs: [patch]
{{- end }}
{{- if ne (toString (get $gates "TopologyAwareScheduling")) "false" }}
- apiGroups: [kueue.x-k8s.io]
  resources: [topologies]
  verbs: [list, watch, patch]
{{- end }}
{{- if ne (toString (get $gates "KueueDRAIntegration")) "false" }}
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, resourceslices, resourceclaimtemplates]
  verbs: [list, watch]
{{- end }}
{{- if or ($configuration.seiretsu.queues.enable) (eq (toString (default (dict) (default (dict) $configuration.seiretsu).population).enable) "true") }}
- apiGroups: [kueue.x-k8s.io]
  resources: [localqueues]
  verbs: [create]
{{- end }}
{{- if ne (toString (get $gates "TopologyAwareScheduling")) "false" }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
{{- if eq (toString (get $gates "FailureRecoveryPolicy")) "true" }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, delete]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
{{- end }}
{{- if or ($configuration.seiretsu.provisioningRequests.enable) (eq (toString (get $gates "ConcurrentAdmission")) "true") }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/finalizers]
  verbs: [update]
{{- end }}
{{- if and (ne (toString (get $gates "ElasticJobsViaWorkloadSlices")) "false") (or (has "batch/job" $frameworks) (has "ray.io/rayjob" $frameworks) (has "ray.io/raycluster" $frameworks) (has "ray.io/rayservice" $frameworks)) }}
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
{{- if ne (toString $guard.action) "Ignore" }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
{{- end }}
{{- if not (include "seiretsu.mountsCertificate" .) }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch, patch]
  resourceNames: [resourceflavors.kueue.x-k8s.io, clusterqueues.kueue.x-k8s.io, localqueues.kueue.x-k8s.io, workloads.kueue.x-k8s.io, workloadpriorityclasses.kueue.x-k8s.io, cohorts.kueue.x-k8s.io, admissionchecks.kueue.x-k8s.io, topologies.kueue.x-k8s.io, provisioningrequestconfigs.kueue.x-k8s.io, multikueueconfigs.kueue.x-k8s.io, multikueueclusters.kueue.x-k8s.io]
{{- end }}
{{- if has "batch/job" $frameworks }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, patch]
- apiGroups: [batch]
  resources: [jobs/status]
  verbs: [patch]
- apiGroups: [batch]
  resources: [jobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "batch/job" $frameworks) }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [delete]
{{- end }}
{{- if has "kubeflow.org/mpijob" $frameworks }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [list, watch, patch]
- apiGroups: [kubeflow.org]
  resources: [mpijobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "kubeflow.org/mpijob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "kubeflow.org/mpijob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [mpijobs/status]
  verbs: [patch]
{{- end }}
{{- if has "ray.io/rayjob" $frameworks }}
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [list, watch, delete]
- apiGroups: [ray.io]
  resources: [rayjobs]
  verbs: [list, watch, patch]
- apiGroups: [ray.io]
  resources: [rayjobs/status]
  verbs: [patch]
- apiGroups: [ray.io]
  resources: [rayjobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "ray.io/rayjob" $frameworks) }}
- apiGroups: [ray.io]
  resources: [rayjobs]
  verbs: [delete]
{{- end }}
{{- if has "ray.io/raycluster" $frameworks }}
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [list, watch, patch]
- apiGroups: [ray.io]
  resources: [rayclusters/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "ray.io/raycluster" $frameworks) }}
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "ray.io/raycluster" $frameworks) }}
- apiGroups: [ray.io]
  resources: [rayclusters/status]
  verbs: [patch]
{{- end }}
{{- if has "ray.io/rayservice" $frameworks }}
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [list, watch, delete]
- apiGroups: [ray.io]
  resources: [rayservices]
  verbs: [list, watch, patch]
- apiGroups: [ray.io]
  resources: [rayservices/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "ray.io/rayservice" $frameworks) }}
- apiGroups: [ray.io]
  resources: [rayservices]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "ray.io/rayservice" $frameworks) }}
- apiGroups: [ray.io]
  resources: [rayservices/status]
  verbs: [patch]
{{- end }}
{{- if has "jobset.x-k8s.io/jobset" $frameworks }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, delete]
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [list, watch, patch]
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "jobset.x-k8s.io/jobset" $frameworks) }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "jobset.x-k8s.io/jobset" $frameworks) }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets/status]
  verbs: [patch]
{{- end }}
{{- if has "trainer.kubeflow.org/trainjob" $frameworks }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [list, watch, delete]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [list, watch, patch]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "trainer.kubeflow.org/trainjob" $frameworks) }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainingruntimes, clustertrainingruntimes]
  verbs: [list, watch]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "trainer.kubeflow.org/trainjob" $frameworks) }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "trainer.kubeflow.org/trainjob" $frameworks) }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs/status]
  verbs: [patch]
{{- end }}
{{- if has "kubeflow.org/pytorchjob" $frameworks }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs]
  verbs: [list, watch, patch]
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "kubeflow.org/pytorchjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "kubeflow.org/pytorchjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [pytorchjobs/status]
  verbs: [patch]
{{- end }}
{{- if has "kubeflow.org/tfjob" $frameworks }}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [list, watch, patch]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "kubeflow.org/tfjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "kubeflow.org/tfjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [tfjobs/status]
  verbs: [patch]
{{- end }}
{{- if has "kubeflow.org/xgboostjob" $frameworks }}
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs]
  verbs: [list, watch, patch]
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "kubeflow.org/xgboostjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "kubeflow.org/xgboostjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [xgboostjobs/status]
  verbs: [patch]
{{- end }}
{{- if has "kubeflow.org/paddlejob" $frameworks }}
- apiGroups: [kubeflow.org]
  resources: [paddlejobs]
  verbs: [list, watch, patch]
- apiGroups: [kubeflow.org]
  resources: [paddlejobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "kubeflow.org/paddlejob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [paddlejobs]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "kubeflow.org/paddlejob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [paddlejobs/status]
  verbs: [patch]
{{- end }}
{{- if has "kubeflow.org/jaxjob" $frameworks }}
- apiGroups: [kubeflow.org]
  resources: [jaxjobs]
  verbs: [list, watch, patch]
- apiGroups: [kubeflow.org]
  resources: [jaxjobs/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "kubeflow.org/jaxjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [jaxjobs]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "kubeflow.org/jaxjob" $frameworks) }}
- apiGroups: [kubeflow.org]
  resources: [jaxjobs/status]
  verbs: [patch]
{{- end }}
{{- if has "workload.codeflare.dev/appwrapper" $frameworks }}
- apiGroups: [workload.codeflare.dev]
  resources: [appwrappers]
  verbs: [list, watch, patch]
- apiGroups: [workload.codeflare.dev]
  resources: [appwrappers/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "workload.codeflare.dev/appwrapper" $frameworks) }}
- apiGroups: [workload.codeflare.dev]
  resources: [appwrappers]
  verbs: [delete]
{{- end }}
{{- if and (ne (toString (get $gates "MultiKueue")) "false") (has "workload.codeflare.dev/appwrapper" $frameworks) }}
- apiGroups: [workload.codeflare.dev]
  resources: [appwrappers/status]
  verbs: [patch]
{{- end }}
{{- if has "sparkoperator.k8s.io/sparkapplication" $frameworks }}
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [list, watch, patch]
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications/finalizers]
  verbs: [update]
{{- end }}
{{- if and (hasKey $kept "afterDeactivatedByKueue") (has "sparkoperator.k8s.io/sparkapplication" $frameworks) }}
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [delete]
{{- end }}
{{- if or (has "pod" $frameworks) (has "deployment" $frameworks) (has "statefulset" $frameworks) (has "leaderworkerset.x-k8s.io/leaderworkerset" $frameworks) }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch, delete]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods/finalizers]
  verbs: [update]
{{- end }}
{{- if has "statefulset" $frameworks }}
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch]
{{- end }}
{{- if has "leaderworkerset.x-k8s.io/leaderworkerset" $frameworks }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [list, watch]
{{- end }}
{{- end -}}
