{{- define "vramgate.selector" -}}
app.kubernetes.io/name: vramgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "vramgate.labels" -}}
{{ include "vramgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "vramgate.image" -}}
{{- $repository := required "image.repository is needed: no image is published; build one from the Dockerfile and name it" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* Whether the webhook runs in this cluster: "true" or nothing. */ -}}
{{- define "vramgate.inCluster" -}}
{{- if not .Values.webhook.url }}true{{ end -}}
{{- end }}

{{- define "vramgate.tlsSecret" -}}
{{- if eq .Values.certificates.mode "certManager" -}}
vramgate-tls
{{- else -}}
{{ required "certificates.provided.secretName is needed with certificates.mode: provided" .Values.certificates.provided.secretName }}
{{- end -}}
{{- end }}

{{- define "vramgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "vramgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* What the policies add to registrations and roles, as JSON: {"classes": [], "privileged": false, "maps": [], "plugin": []}.
       The same as `vramgate webhook-config --policy-dir` takes from them; the built-in default is always one of them. */ -}}
{{- define "vramgate.gate" -}}
{{- $classes := list -}}
{{- $maps := list "gpu-operator/default-mig-parted-config" -}}
{{- $plugin := list -}}
{{- $privileged := false -}}
{{- $names := list -}}
{{- range $policy := .Values.policies -}}
  {{- if has $policy.metadata.name $names -}}
    {{- fail (printf "policies: two are named %q: names are unique" $policy.metadata.name) -}}
  {{- end -}}
  {{- $names = append $names $policy.metadata.name -}}
  {{- $spec := $policy.spec | default dict -}}
  {{- $access := $spec.access | default dict -}}
  {{- $classes = concat $classes ($access.runtimeClasses | default list) -}}
  {{- if has ($access.privileged | default "ignore") (list "warn" "deny") -}}{{- $privileged = true -}}{{- end -}}
  {{- $device := $spec.device | default dict -}}
  {{- with $device.pluginConfig -}}
    {{- $maps = append $maps . -}}
    {{- $plugin = append $plugin (splitList "/" . | last) -}}
  {{- end -}}
  {{- with $device.migConfig -}}{{- $maps = append $maps . -}}{{- end -}}
{{- end -}}
{{- range $name := $classes -}}
  {{- if not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" $name) -}}
    {{- fail (printf "policies: spec.access.runtimeClasses: %q is no name of a RuntimeClass" $name) -}}
  {{- end -}}
{{- end -}}
{{- range $name := $maps -}}
  {{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" $name) -}}
    {{- fail (printf "policies: spec.device: %q names no ConfigMap: write NAMESPACE/NAME" $name) -}}
  {{- end -}}
{{- end -}}
{{- dict "classes" ($classes | uniq | sortAlpha) "maps" ($maps | uniq | sortAlpha) "plugin" ($plugin | uniq | sortAlpha) "privileged" $privileged | toJson -}}
{{- end }}

{{- /* The registrations as `vramgate webhook-config` prints them, from the file that is generated from it. Between
       `<<NAME|` and `|NAME>>` stands what belongs there only under such a policy, and @NAME@ is the list of names. */ -}}
{{- define "vramgate.registrations" -}}
{{- $gate := include "vramgate.gate" . | fromJson -}}
{{- $text := .Files.Get "files/registrations.json" -}}
{{- range $name := list "classes" "privileged" "maps" -}}
  {{- $value := get $gate $name -}}
  {{- if $value -}}
    {{- $text = $text | replace (printf "<<%s|" $name) "" | replace (printf "|%s>>" $name) "" -}}
    {{- if kindIs "slice" $value -}}
      {{- $quoted := list -}}
      {{- range $value -}}{{- $quoted = append $quoted (printf "'%s'" .) -}}{{- end -}}
      {{- $text = $text | replace (printf "@%s@" $name) (join ", " $quoted) -}}
    {{- end -}}
  {{- else -}}
    {{- $text = regexReplaceAll (printf "<<%s\\|.*?\\|%s>>" $name $name) $text "" -}}
  {{- end -}}
{{- end -}}
{{- $text -}}
{{- end }}
