{{- /* Made by `make generate` from controller/run/user_roles.py. */ -}}
{{- define "seiretsu.userRoles" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- $frameworks := default (list "batch/job") (default (dict) $configuration.integrations).frameworks -}}
kinds:
- {name: resourceflavor, group: kueue.x-k8s.io, plural: resourceflavors, status: false}
- {name: clusterqueue, group: kueue.x-k8s.io, plural: clusterqueues, status: true}
- {name: localqueue, group: kueue.x-k8s.io, plural: localqueues, status: true, user: view}
- {name: queue, group: kueue.x-k8s.io, plural: queues, status: true, user: view}
- {name: workload, group: kueue.x-k8s.io, plural: workloads, status: true, user: view}
- {name: workloadpriorityclass, group: kueue.x-k8s.io, plural: workloadpriorityclasses, status: false}
- {name: cohort, group: kueue.x-k8s.io, plural: cohorts, status: true}
- {name: admissioncheck, group: kueue.x-k8s.io, plural: admissionchecks, status: true}
- {name: topology, group: kueue.x-k8s.io, plural: topologies, status: false}
- {name: provisioningrequestconfig, group: kueue.x-k8s.io, plural: provisioningrequestconfigs, status: false}
- {name: multikueueconfig, group: kueue.x-k8s.io, plural: multikueueconfigs, status: false}
- {name: multikueuecluster, group: kueue.x-k8s.io, plural: multikueueclusters, status: true}
{{- if has "batch/job" $frameworks }}
- {name: job, group: batch, plural: jobs, status: true, user: edit}
{{- end }}
{{- if has "kubeflow.org/mpijob" $frameworks }}
- {name: mpijob, group: kubeflow.org, plural: mpijobs, status: true, user: edit}
{{- end }}
{{- if has "ray.io/rayjob" $frameworks }}
- {name: rayjob, group: ray.io, plural: rayjobs, status: true, user: edit}
{{- end }}
{{- if has "ray.io/raycluster" $frameworks }}
- {name: raycluster, group: ray.io, plural: rayclusters, status: true, user: edit}
{{- end }}
{{- if has "ray.io/rayservice" $frameworks }}
- {name: rayservice, group: ray.io, plural: rayservices, status: true, user: edit}
{{- end }}
{{- if has "jobset.x-k8s.io/jobset" $frameworks }}
- {name: jobset, group: jobset.x-k8s.io, plural: jobsets, status: true, user: edit}
{{- end }}
{{- if has "trainer.kubeflow.org/trainjob" $frameworks }}
- {name: trainjob, group: trainer.kubeflow.org, plural: trainjobs, status: true, user: edit}
{{- end }}
{{- if has "kubeflow.org/pytorchjob" $frameworks }}
- {name: pytorchjob, group: kubeflow.org, plural: pytorchjobs, status: true, user: edit}
{{- end }}
{{- if has "kubeflow.org/tfjob" $frameworks }}
- {name: tfjob, group: kubeflow.org, plural: tfjobs, status: true, user: edit}
{{- end }}
{{- if has "kubeflow.org/xgboostjob" $frameworks }}
- {name: xgboostjob, group: kubeflow.org, plural: xgboostjobs, status: true, user: edit}
{{- end }}
{{- if has "kubeflow.org/paddlejob" $frameworks }}
- {name: paddlejob, group: kubeflow.org, plural: paddlejobs, status: true, user: edit}
{{- end }}
{{- if has "kubeflow.org/jaxjob" $frameworks }}
- {name: jaxjob, group: kubeflow.org, plural: jaxjobs, status: true, user: edit}
{{- end }}
{{- if has "workload.codeflare.dev/appwrapper" $frameworks }}
- {name: appwrapper, group: workload.codeflare.dev, plural: appwrappers, status: true, user: edit}
{{- end }}
{{- if has "sparkoperator.k8s.io/sparkapplication" $frameworks }}
- {name: sparkapplication, group: sparkoperator.k8s.io, plural: sparkapplications, status: true, user: edit}
{{- end }}
{{- if has "leaderworkerset.x-k8s.io/leaderworkerset" $frameworks }}
- {name: leaderworkerset, group: leaderworkerset.x-k8s.io, plural: leaderworkersets, status: true, user: edit}
{{- end }}
{{- end -}}
