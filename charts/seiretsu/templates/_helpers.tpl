{{- define "seiretsu.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "seiretsu.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "seiretsu.labels" -}}
{{ include "seiretsu.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "seiretsu.webhookService" -}}
{{ include "seiretsu.fullname" . }}-webhook-service
{{- end -}}

{{- define "seiretsu.webhookSecret" -}}
{{ include "seiretsu.fullname" . }}-webhook-server-cert
{{- end -}}

{{- define "seiretsu.servingCertificate" -}}
{{ include "seiretsu.fullname" . }}-serving-cert
{{- end -}}

{{- /* The user's Configuration with what only the chart knows: its namespace and the names of Service and Secret. */ -}}
{{- define "seiretsu.configuration" -}}
{{- $given := fromYaml .Values.managerConfig.controllerManagerConfigYaml -}}
{{- if hasKey $given "Error" -}}
{{- fail (printf "managerConfig.controllerManagerConfigYaml is not YAML: %s" $given.Error) -}}
{{- end -}}
{{- $names := dict "webhookServiceName" (include "seiretsu.webhookService" .) "webhookSecretName" (include "seiretsu.webhookSecret" .) -}}
{{- $certs := mergeOverwrite $names (default (dict) $given.internalCertManagement) -}}
{{- if .Values.enableCertManager -}}
{{- $_ := set $certs "enable" false -}}
{{- end -}}
{{- mergeOverwrite (dict "namespace" .Release.Namespace) $given (dict "internalCertManagement" $certs) | toYaml -}}
{{- end -}}

{{- /* The namespaces whose Jobs we look at: those the Configuration chooses, never those of the system nor our own. */ -}}
{{- define "seiretsu.managedNamespaces" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- $chosen := default (dict) $configuration.managedJobsNamespaceSelector -}}
{{- $never := list "kube-node-lease" "kube-system" "kueue-system" .Release.Namespace | uniq | sortAlpha -}}
{{- $excluded := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" $never -}}
{{- $selector := dict "matchExpressions" (append (default (list) $chosen.matchExpressions) $excluded) -}}
{{- if $chosen.matchLabels -}}
{{- $_ := set $selector "matchLabels" $chosen.matchLabels -}}
{{- end -}}
{{- toYaml $selector -}}
{{- end -}}

{{- define "seiretsu.lease" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- default "c1f6bfd2.kueue.x-k8s.io" (default (dict) $configuration.leaderElection).resourceName -}}
{{- end -}}

{{- /* "true" where the certificate is somebody else's, in the Secret that is mounted. */ -}}
{{- define "seiretsu.mountsCertificate" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- if eq (toString $configuration.internalCertManagement.enable) "false" -}}
true
{{- end -}}
{{- end -}}
