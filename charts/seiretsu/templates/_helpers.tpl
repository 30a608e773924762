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
{{- $own := dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) -}}
{{- merge (fromYaml (include "seiretsu.selectorLabels" .)) $own (default (dict) .Values.commonLabels) | toYaml -}}
{{- end -}}

{{- define "seiretsu.serviceAccount" -}}
{{ default (include "seiretsu.fullname" .) .Values.serviceAccount.name }}
{{- end -}}

{{- define "seiretsu.webhookService" -}}
{{ include "seiretsu.fullname" . }}-webhook-service
{{- end -}}

{{- /* The port on which the API server calls the webhooks. */ -}}
{{- define "seiretsu.webhookServicePort" -}}
{{ (first .Values.webhookService.ports).port }}
{{- end -}}

{{- define "seiretsu.metricsService" -}}
{{ include "seiretsu.fullname" . }}-controller-manager-metrics-service
{{- end -}}

{{- /* The name is known to the app, which puts it into its certificate. */ -}}
{{- define "seiretsu.visibilityService" -}}
{{ include "seiretsu.fullname" . }}-visibility-server
{{- end -}}

{{- /* "true" where the visibility API is served. */ -}}
{{- define "seiretsu.visible" -}}
{{- $configuration := fromYaml .Values.managerConfig.controllerManagerConfigYaml -}}
{{- $gates := default (dict) $configuration.featureGates -}}
{{- range .Values.controllerManager.featureGates -}}
{{- $_ := set $gates .name .enabled -}}
{{- end -}}
{{- $wanted := or .Values.visibility.enabled .Values.enableVisibilityAuthReaderRoleBinding (kindIs "map" $configuration.visibilityServer) -}}
{{- if and $wanted (ne (toString (get $gates "VisibilityOnDemand")) "false") -}}
true
{{- end -}}
{{- end -}}

{{- /* "true" if the page is served: by the value, or by the section in the Configuration. */ -}}
{{- define "seiretsu.paged" -}}
{{- $configuration := fromYaml .Values.managerConfig.controllerManagerConfigYaml -}}
{{- $section := default (dict) (default (dict) $configuration.seiretsu).ui -}}
{{- if hasKey $section "enable" | ternary $section.enable (default (dict) .Values.ui).enabled -}}
true
{{- end -}}
{{- end -}}

{{- /* The name is known to the app, which puts it into its certificate. */ -}}
{{- define "seiretsu.uiService" -}}
{{ include "seiretsu.fullname" . }}-ui
{{- end -}}

{{- define "seiretsu.webhookSecret" -}}
{{ include "seiretsu.fullname" . }}-webhook-server-cert
{{- end -}}

{{- define "seiretsu.servingCertificate" -}}
{{ include "seiretsu.fullname" . }}-serving-cert
{{- end -}}

{{- /* "true" where the values name Kueue's image, which cannot run with Seiretsu's arguments. */ -}}
{{- define "seiretsu.namesKueuesImage" -}}
{{- if eq (base .Values.controllerManager.manager.image.repository) "kueue" -}}
true
{{- end -}}
{{- end -}}

{{- define "seiretsu.image" -}}
{{- $image := .Values.controllerManager.manager.image -}}
{{- if include "seiretsu.namesKueuesImage" . -}}
{{ .Chart.Name }}:{{ .Chart.AppVersion }}
{{- else if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Kueue's values pull Kueue's image always; the image that replaces it may be on the nodes only. */ -}}
{{- define "seiretsu.pullPolicy" -}}
{{- ternary "IfNotPresent" .Values.controllerManager.manager.image.pullPolicy (eq (include "seiretsu.namesKueuesImage" .) "true") -}}
{{- end -}}

{{- /* The level as a word. Kueue's is a number: 2, its default, is what Seiretsu calls info. */ -}}
{{- define "seiretsu.logLevel" -}}
{{- $level := .Values.controllerManager.manager.logLevel -}}
{{- if kindIs "string" $level -}}
{{ $level }}
{{- else if gt (int $level) 2 -}}
debug
{{- else -}}
info
{{- end -}}
{{- end -}}

{{- /* The user's Configuration with what only the chart knows: its namespace and the names of Service and Secret. */ -}}
{{- define "seiretsu.configuration" -}}
{{- $given := fromYaml .Values.managerConfig.controllerManagerConfigYaml -}}
{{- if hasKey $given "Error" -}}
{{- fail (printf "managerConfig.controllerManagerConfigYaml is not YAML: %s" $given.Error) -}}
{{- end -}}
{{- include "seiretsu.checkConfiguration" . -}}
{{- $names := dict "webhookServiceName" (include "seiretsu.webhookService" .) "webhookSecretName" (include "seiretsu.webhookSecret" .) -}}
{{- $management := default (dict) $given.internalCertManagement -}}
{{- if and (eq (toString $management.enable) "false") (not .Values.enableCertManager) $management.webhookSecretName -}}
{{- /* neither Seiretsu nor the chart makes this Secret: it has the name that its maker gave it */ -}}
{{- $_ := unset $names "webhookSecretName" -}}
{{- end -}}
{{- $certs := merge $names $management -}}
{{- if .Values.enableCertManager -}}
{{- $_ := set $certs "enable" false -}}
{{- end -}}
{{- $own := dict "namespace" .Release.Namespace "internalCertManagement" $certs -}}
{{- if include "seiretsu.visible" . -}}
{{- $_ := set $own "visibilityServer" (merge (default (dict) $given.visibilityServer) (dict "bindPort" 8082)) -}}
{{- end -}}
{{- /* what decides about rights is written down, so that the process uses no more than it may */ -}}
{{- $section := default (dict) $given.seiretsu -}}
{{- $requests := default (dict) $section.provisioningRequests -}}
{{- $queues := default (dict) $section.queues -}}
{{- $asks := hasKey $requests "enable" | ternary $requests.enable .Values.provisioningRequests.enabled -}}
{{- $mirrors := hasKey $queues "enable" | ternary $queues.enable (has "v1alpha1" (default (list) .Values.crds.olderVersions)) -}}
{{- $_ := set $own "seiretsu" (dict "provisioningRequests" (dict "enable" $asks) "queues" (dict "enable" $mirrors)) -}}
{{- $population := default (dict) .Values.population -}}{{- /* helm upgrade --reuse-values has no new defaults */ -}}
{{- if $population.enabled -}}
{{- $made := dict "enable" true "localQueueNameMode" (default "Static" $population.localQueueNameMode) -}}
{{- with $population.localQueueName }}{{ $_ := set $made "localQueueName" . }}{{ end -}}
{{- with $population.namespaceSelector }}{{ $_ := set $made "namespaceSelector" . }}{{ end -}}
{{- $_ := set $own.seiretsu "population" $made -}}
{{- end -}}
{{- if include "seiretsu.paged" . -}}
{{- $page := dict "enable" true "bindAddress" (default "0.0.0.0:8445" (default (dict) $section.ui).bindAddress) -}}
{{- if .Values.ui.proxy.secretName -}}
{{- $_ := set $page "proxy" (dict "clientCaFile" "/etc/seiretsu-ui-proxy/ca.crt" "allowedNames" (default (list) .Values.ui.proxy.names)) -}}
{{- end -}}
{{- $_ := set $own.seiretsu "ui" $page -}}
{{- end -}}
{{- $history := default (dict) .Values.history -}}{{- /* null: helm upgrade --reuse-values has no new defaults */ -}}
{{- if $history.enabled -}}
{{- $kept := dict "enable" true "users" $history.users "maxAge" $history.maxAge "maxSize" $history.maxSize -}}
{{- if $history.postgres.secretName -}}
{{- $_ := set $kept "urlFile" "/etc/seiretsu-history/url" -}}
{{- else -}}
{{- $_ := set $kept "directory" "/var/lib/seiretsu" -}}
{{- $_ := set $kept "sharedVolume" (has "ReadWriteMany" $history.volume.accessModes) -}}
{{- end -}}
{{- $_ := set $own.seiretsu "history" $kept -}}
{{- end -}}
{{- $recorder := default (dict) .Values.recorder -}}
{{- if $recorder.enabled -}}
{{- $_ := set $own.seiretsu "recorder" (dict "enable" true "directory" "/var/lib/seiretsu-recordings" "maxSize" $recorder.maxSize) -}}
{{- end -}}
{{- $gates := dict -}}
{{- range .Values.controllerManager.featureGates -}}
{{- $_ := set $gates .name .enabled -}}
{{- end -}}
{{- if $gates -}}
{{- if $given.featureGates -}}
{{- fail "controllerManager.featureGates and featureGates in managerConfig.controllerManagerConfigYaml are both set: as in Kueue, set only one of them" -}}
{{- end -}}
{{- $_ := set $own "featureGates" $gates -}}
{{- end -}}
{{- mergeOverwrite $given $own | toYaml -}}
{{- end -}}

{{- /* The namespaces whose jobs are managed: those that the Configuration selects, without the system's and the release's. */ -}}
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

{{- /* "true" where the history is in a file, and so in a volume. */ -}}
{{- define "seiretsu.historyVolume" -}}
{{- $history := default (dict) .Values.history -}}
{{- if and $history.enabled (not $history.postgres.secretName) -}}
true
{{- end -}}
{{- end -}}

{{- define "seiretsu.historyClaim" -}}
{{ default (printf "%s-history" (include "seiretsu.fullname" .)) .Values.history.volume.existingClaim }}
{{- end -}}

{{- define "seiretsu.lease" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- default "c1f6bfd2.kueue.x-k8s.io" (default (dict) $configuration.leaderElection).resourceName -}}
{{- end -}}

{{- /* "true" where the replicas elect a leader, which is the default. */ -}}
{{- define "seiretsu.elects" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- if ne (toString (default (dict) $configuration.leaderElection).leaderElect) "false" -}}
true
{{- end -}}
{{- end -}}

{{- define "seiretsu.leaseNamespace" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- default .Release.Namespace (default (dict) $configuration.leaderElection).resourceNamespace -}}
{{- end -}}

{{- /* "true" where the certificate comes from elsewhere, in the Secret that is mounted. */ -}}
{{- define "seiretsu.mountsCertificate" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- if eq (toString $configuration.internalCertManagement.enable) "false" -}}
true
{{- end -}}
{{- end -}}

{{- /* The ports of the container, by the names that Services and probes use; metrics: 0 where they are switched off. */ -}}
{{- define "seiretsu.ports" -}}
{{- $configuration := fromYaml (include "seiretsu.configuration" .) -}}
{{- $health := default ":8081" (default (dict) $configuration.health).healthProbeBindAddress -}}
{{- $served := default (dict) $configuration.metrics -}}
{{- $metrics := hasKey $served "bindAddress" | ternary (toString $served.bindAddress) ":8443" -}}
webhook: {{ default 9443 (default (dict) $configuration.webhook).port }}
health: {{ $health | splitList ":" | last }}
metrics: {{ $metrics | splitList ":" | last | default 0 }}
visibility: {{ (default (dict) $configuration.visibilityServer).bindPort | default 0 }}
ui: {{ (default (dict) (default (dict) $configuration.seiretsu).ui).bindAddress | default ":0" | splitList ":" | last }}
{{- end -}}

{{- /* A number of replicas, or a percentage of them: list of it, the replicas, and 99 to round up or 0 to round down. */ -}}
{{- define "seiretsu.share" -}}
{{- $given := first . -}}
{{- if kindIs "string" $given -}}
{{ div (add (mul (trimSuffix "%" $given | int) (index . 1)) (last .)) 100 }}
{{- else -}}
{{ int $given }}
{{- end -}}
{{- end -}}

{{- /* The seconds in which a pod that is stopped still answers new calls: those of extraArgs, or the program's own in a cluster. */ -}}
{{- define "seiretsu.lameDuck" -}}
{{- $found := regexFindAll "(^| )--lame-duck[= ][0-9.]+" (join " " .Values.controllerManager.manager.extraArgs) -1 -}}
{{- if $found -}}
{{ last $found | regexFind "[0-9.]+$" | float64 | ceil }}
{{- else -}}
10
{{- end -}}
{{- end -}}

{{- /* Fails for values that are valid each, but not together. */ -}}
{{- define "seiretsu.check" -}}
{{- $manager := .Values.controllerManager -}}
{{- $replicas := int $manager.replicas -}}
{{- if and (lt $replicas 1) (eq .Values.webhooks.failurePolicy "Fail") -}}
{{- fail "controllerManager.replicas: 0 with webhooks.failurePolicy: Fail refuses every queued job and every change of a queue: set webhooks.failurePolicy=Ignore, or at least one replica" -}}
{{- end -}}
{{- $least := $manager.podDisruptionBudget.minAvailable -}}
{{- /* a share is rounded up, as the API server does */ -}}
{{- $kept := int (include "seiretsu.share" (list $least $replicas 99)) -}}
{{- if and $manager.podDisruptionBudget.enabled (gt $replicas 1) (ge $kept $replicas) -}}
{{- fail (printf "controllerManager.podDisruptionBudget.minAvailable: %v of %d replicas leaves none that may go: no node with a replica could be drained" $least $replicas) -}}
{{- end -}}
{{- $update := default (dict) $manager.strategy -}}
{{- $missing := default 0 (default (dict) $update.rollingUpdate).maxUnavailable -}}
{{- /* this share is rounded down */ -}}
{{- $stopped := int (include "seiretsu.share" (list $missing $replicas 0)) -}}
{{- if and (gt $replicas 1) (ne (toString $update.type) "Recreate") (ge $stopped $replicas) (eq .Values.webhooks.failurePolicy "Fail") -}}
{{- fail (printf "controllerManager.strategy.rollingUpdate.maxUnavailable: %v of %d replicas with webhooks.failurePolicy: Fail refuses every queued job while an update stops all of them: use a smaller number" $missing $replicas) -}}
{{- end -}}
{{- $duck := include "seiretsu.lameDuck" . -}}
{{- $ports := fromYaml (include "seiretsu.ports" .) -}}
{{- if gt (add (int $duck) 6) (int $manager.terminationGracePeriodSeconds) -}}
{{- fail (printf "controllerManager.terminationGracePeriodSeconds: %d is too short for --lame-duck=%s in controllerManager.manager.extraArgs: after these seconds a pod needs 6 more for the calls in progress and its end" (int $manager.terminationGracePeriodSeconds) $duck) -}}
{{- end -}}
{{- $called := first .Values.webhookService.ports -}}
{{- $target := toString (default $called.port $called.targetPort) -}}
{{- $bound := regexMatch "--bind\\b" (join " " (default (list) $manager.manager.extraArgs)) -}}
{{- if and (not $bound) (not (has $target (list "webhook" (toString $ports.webhook)))) -}}
{{- fail (printf "webhookService.ports[0].targetPort: %s is not the port of the webhooks: it is webhook, or %v (webhook.port in managerConfig.controllerManagerConfigYaml)" $target $ports.webhook) -}}
{{- end -}}
{{- $scraped := first .Values.metricsService.ports -}}
{{- $target = toString (default $scraped.port $scraped.targetPort) -}}
{{- if and $ports.metrics (not (has $target (list "metrics" (toString $ports.metrics)))) -}}
{{- fail (printf "metricsService.ports[0].targetPort: %s is not the port of the metrics: it is metrics, or %v (metrics.bindAddress in managerConfig.controllerManagerConfigYaml)" $target $ports.metrics) -}}
{{- end -}}
{{- if and $manager.hostNetwork (eq (toString $manager.hostUsers) "false") -}}
{{- fail "controllerManager.hostUsers: false is not possible with hostNetwork: true: Kubernetes refuses such pods" -}}
{{- end -}}
{{- if and .Values.webhooks.clientCA.names (not .Values.webhooks.clientCA.secretName) -}}
{{- fail "webhooks.clientCA.secretName is required with webhooks.clientCA.names: without a CA no client certificate is verified, and every call is answered" -}}
{{- end -}}
{{- if and (gt $replicas 1) (not (include "seiretsu.elects" .)) -}}
{{- fail (printf "controllerManager.replicas: %d replicas without leader election would all admit the same jobs: set one replica, or leaderElection.leaderElect: true in managerConfig.controllerManagerConfigYaml" $replicas) -}}
{{- end -}}
{{- if and (include "seiretsu.visible" .) (include "seiretsu.mountsCertificate" .) (not .Values.enableCertManager) -}}
{{- fail "visibility.enabled (or visibilityServer, or enableVisibilityAuthReaderRoleBinding) with internalCertManagement.enable: false needs enableCertManager: true: nobody else writes the CA of your certificate into the APIServices" -}}
{{- end -}}
{{- if and .Values.ui.proxy.names (not .Values.ui.proxy.secretName) -}}
{{- fail "ui.proxy.secretName is required with ui.proxy.names: without a CA no proxy can prove who it is" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is required with serviceAccount.create: false" -}}
{{- end -}}
{{- if include "seiretsu.historyVolume" . -}}
{{- $modes := .Values.history.volume.accessModes -}}
{{- if and (not (has "ReadWriteMany" $modes)) (or (gt $replicas 1) (ne (toString $update.type) "Recreate")) -}}
{{- fail (printf "history.volume.accessModes: a volume of %s cannot be used by two pods, and an update starts the new pod before it stops the old one: set history.postgres.secretName, or accessModes: [ReadWriteMany], or controllerManager.replicas: 1 with controllerManager.strategy.type: Recreate" (join ", " $modes)) -}}
{{- end -}}
{{- end -}}
{{- include "seiretsu.checkGates" . -}}
{{- end -}}

{{- /* Fails for a field, a type or a name in the Configuration that Seiretsu refuses at its start. */ -}}
{{- define "seiretsu.checkConfiguration" -}}
{{- $table := fromYaml (include "seiretsu.configurationTable" .) -}}
{{- $given := fromYaml .Values.managerConfig.controllerManagerConfigYaml -}}
{{- if and $given.apiVersion (not (has $given.apiVersion $table.versions)) -}}
{{- include "seiretsu.refuse" (list ".apiVersion" $given.apiVersion $table.versions) -}}
{{- end -}}
{{- $older := eq (toString $given.apiVersion) (last $table.versions) -}}
{{- include "seiretsu.checkSection" (list "" $given "Configuration" $table $older) -}}
{{- range $index, $name := (default (dict) $given.integrations).frameworks -}}
{{- if not (has $name $table.frameworks) -}}
{{- include "seiretsu.refuse" (list (printf ".integrations.frameworks[%d]" $index) $name $table.frameworks) -}}
{{- end -}}
{{- end -}}
{{- $feedback := default (dict) (default (dict) $given.seiretsu).feedback -}}
{{- $rules := $table.rules -}}
{{- range $own := $feedback.expressions -}}{{- $rules = append $rules $own.name -}}{{- end -}}
{{- range $index, $rule := $feedback.rules -}}
{{- if and $rule.name (not (has $rule.name $rules)) -}}
{{- include "seiretsu.refuse" (list (printf ".seiretsu.feedback.rules[%d].name" $index) $rule.name $rules) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails for a value that is none of some words, with the one that was meant. List of the path, the value and the words. */ -}}
{{- define "seiretsu.refuse" -}}
{{- $path := index . 0 | trimPrefix "." -}}{{- $value := index . 1 | toString -}}{{- $words := index . 2 -}}
{{- $meant := include "seiretsu.similar" (list $value $words) -}}
{{- $hint := default (printf "; supported values: %s" (join ", " $words)) $meant -}}
{{- fail (printf "managerConfig.controllerManagerConfigYaml: %s: unsupported value %q%s" $path $value $hint) -}}
{{- end -}}

{{- /* Compares the fields of one section of the Configuration. List of its path, the value, its name in the table, the table, and
whether the version is the older one. */ -}}
{{- define "seiretsu.checkSection" -}}
{{- $path := index . 0 -}}{{- $given := index . 1 -}}{{- $name := index . 2 -}}{{- $table := index . 3 -}}{{- $older := index . 4 -}}
{{- if not (kindIs "map" $given) -}}
{{- fail (printf "managerConfig.controllerManagerConfigYaml: %s: must be a map of fields" (trimPrefix "." $path)) -}}
{{- end -}}
{{- $fields := index $table.sections $name -}}
{{- if $older -}}
{{- $fields = merge (dict) $fields (default (dict) (get $table.older $name)) -}}
{{- end -}}
{{- range $key, $value := $given -}}
{{- $at := printf "%s.%s" $path $key -}}
{{- if not (hasKey $fields $key) -}}
{{- $meant := include "seiretsu.similar" (list $key (keys $fields | sortAlpha)) -}}
{{- fail (printf "managerConfig.controllerManagerConfigYaml: %s: unknown field%s" (trimPrefix "." $at) $meant) -}}
{{- end -}}
{{- if not (kindIs "invalid" $value) -}}
{{- include "seiretsu.checkField" (list $at $value (get $fields $key) $table $older) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The same of one field: list of its path, the value, its type in the table, and the rest. */ -}}
{{- define "seiretsu.checkField" -}}
{{- $path := index . 0 -}}{{- $value := index . 1 -}}{{- $type := index . 2 -}}{{- $table := index . 3 -}}{{- $older := index . 4 -}}
{{- if kindIs "slice" $type -}}
{{- if not (has (toString $value) $type) -}}
{{- include "seiretsu.refuse" (list $path $value $type) -}}
{{- end -}}
{{- else if hasPrefix "section " $type -}}
{{- include "seiretsu.checkSection" (list $path $value (trimPrefix "section " $type) $table $older) -}}
{{- else -}}
{{- $kinds := dict "boolean" (list "bool") "string" (list "string") "integer" (list "float64" "int64" "int") "number" (list "float64" "int64" "int") "object" (list "map") "list" (list "slice") -}}
{{- $of := trimPrefix "list of " $type -}}
{{- $wanted := ternary "list" $type (hasPrefix "list" $type) -}}
{{- if and (hasKey $kinds $wanted) (not (has (kindOf $value) (get $kinds $wanted))) -}}
{{- fail (printf "managerConfig.controllerManagerConfigYaml: %s: must be of type %s, not %s" (trimPrefix "." $path) $wanted (kindOf $value)) -}}
{{- end -}}
{{- if ne $of $type -}}
{{- range $index, $each := $value -}}
{{- $next := ternary "string" (printf "section %s" $of) (eq $of "string") -}}
{{- include "seiretsu.checkField" (list (printf "%s[%d]" $path $index) $each $next $table $older) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails for a feature gate that Seiretsu refuses at its start. */ -}}
{{- define "seiretsu.checkGates" -}}
{{- range $index, $gate := .Values.controllerManager.featureGates -}}
{{- include "seiretsu.checkGate" (list (printf "controllerManager.featureGates[%d].name" $index) $gate.name $gate.enabled) -}}
{{- end -}}
{{- $given := (fromYaml .Values.managerConfig.controllerManagerConfigYaml).featureGates -}}
{{- if kindIs "map" $given -}}
{{- range $name, $enabled := $given -}}
{{- include "seiretsu.checkGate" (list (printf "managerConfig.controllerManagerConfigYaml: featureGates.%s" $name) $name $enabled) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "seiretsu.checkGate" -}}
{{- $path := index . 0 -}}{{- $name := index . 1 -}}{{- $enabled := index . 2 -}}
{{- $gates := fromYaml (include "seiretsu.featureGates" .) -}}
{{- if has $name $gates.newer -}}
{{- fail (printf "%s: %s is a feature gate of a newer release of Kueue, which Seiretsu does not have: remove it" $path $name) -}}
{{- end -}}
{{- if not (or (has $name $gates.known) (has $name $gates.removed)) -}}
{{- $meant := default ": correct its name, or remove it" (include "seiretsu.similar" (list $name $gates.known)) -}}
{{- fail (printf "%s: unknown feature gate %q%s" $path $name $meant) -}}
{{- end -}}
{{- if and (has $name $gates.locked) (eq (toString $enabled) "false") -}}
{{- fail (printf "%s: cannot set feature gate %s to false: it is locked to true" $path $name) -}}
{{- end -}}
{{- end -}}

{{- /* The hint which of some words was meant, which follows a name: the one that has most pairs of letters in common with
it. Empty if these are less than half of them. List of the name and the words. */ -}}
{{- define "seiretsu.similar" -}}
{{- $name := first . | lower -}}
{{- $best := dict "share" 99 "word" "" -}}
{{- range $word := last . -}}
{{- $same := 0 -}}
{{- range $at := until (sub (max (len $name) 1) 1 | int) -}}
{{- if contains (substr $at (add $at 2 | int) $name) (lower $word) -}}{{- $same = add $same 1 -}}{{- end -}}
{{- end -}}
{{- $share := div (mul 400 $same) (add (len $name) (len $word)) -}}
{{- if gt (int $share) (int $best.share) -}}
{{- $_ := set $best "share" $share -}}{{- $_ := set $best "word" $word -}}
{{- end -}}
{{- end -}}
{{- with $best.word -}}
; did you mean {{ quote . }}?
{{- end -}}
{{- end -}}

{{- define "seiretsu.metricsLabels" -}}
{{- $own := dict "app.kubernetes.io/component" "metrics" -}}
{{- merge $own (fromYaml (include "seiretsu.labels" .)) (default (dict) .Values.metricsService.labels) | toYaml -}}
{{- end -}}
