package chart

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

// other is the namespace for which objects outside of the installation's namespace are rendered.
const other = "mark-namespace"

const inNamespace = "{{- range .Values.rbac.namespaces }}\n{{- $namespace := . }}\n{{- with $ }}\n"

// templates returns a function for each template, by its name.
func (c *Chart) templates() map[string]func() (string, error) {
	const (
		rights = ".Values.rbac.create"
		least  = "and .Values.rbac.create (not .Values.rbac.clusterAdministrator)"
		agents = ".Values.deployNodeAgent"
	)
	return map[string]func() (string, error){
		"serviceaccount.yaml": func() (string, error) {
			return c.template("ServiceAccount/velero", "", ".Values.serviceAccount.server.create", func(m *marked) {
				m.value(`include "cleat.serviceAccount" .`, "metadata", "name")
				m.optional(".Values.serviceAccount.server.annotations", "metadata", "annotations")
			})
		},
		"clusterrolebinding.yaml": func() (string, error) {
			return c.template("ClusterRoleBinding/velero", "", rights, func(m *marked) {
				clusterScoped(m)
				subject(m)
				m.value(`ternary "cluster-admin" (include "cleat.clusterName" .) .Values.rbac.clusterAdministrator`, "roleRef",
					"name")
			})
		},
		"clusterrole.yaml": func() (string, error) { return c.template("ClusterRole/velero", "", least, clusterRole) },
		"role.yaml":        func() (string, error) { return c.template("Role/velero", "", least, nil) },
		"rolebinding.yaml": func() (string, error) { return c.template("RoleBinding/velero", "", least, subject) },
		"namespaces.yaml": func() (string, error) {
			role, err := c.template("Role", other, least, inOther)
			if err != nil {
				return "", err
			}
			binding, err := c.template("RoleBinding", other, least,
				func(m *marked) { inOther(m); subject(m); m.value(`include "cleat.clusterName" .`, "roleRef", "name") })
			return inNamespace + "---\n" + role + "---\n" + binding + "{{- end }}\n{{- end }}\n", err
		},
		"secret.yaml": func() (string, error) {
			return c.template("Secret", "", "and .Values.credentials.useSecret (not .Values.credentials.existingSecret)",
				func(m *marked) {
					m.value(`include "cleat.secretName" .`, "metadata", "name")
					m.block("data:\n{{- range $key, $content := .Values.credentials.secretContents }}\n  {{ $key }}: {{ $content | "+
						"b64enc }}\n{{- end }}", "data")
				})
		},
		"backupstoragelocations.yaml": func() (string, error) {
			return c.locations("BackupStorageLocation", "backupStorageLocation", "true")
		},
		"volumesnapshotlocations.yaml": func() (string, error) {
			return c.locations("VolumeSnapshotLocation", "volumeSnapshotLocation", "$.Values.snapshotsEnabled")
		},
		"deployment.yaml": func() (string, error) { return c.template("Deployment/velero", "", "", c.deployment) },
		"console.yaml": func() (string, error) {
			service, err := c.template("Service/"+install.ConsoleName, "", ".Values.console.enabled", consoleService)
			if err != nil {
				return "", err
			}
			deployment, err := c.template("Deployment/"+install.ConsoleName, "", ".Values.console.enabled", c.console)
			return "---\n" + service + "---\n" + deployment, err
		},
		"node-agent.yaml":     func() (string, error) { return c.template("DaemonSet", "", agents, c.daemonSet) },
		"node-agentrbac.yaml": func() (string, error) { return c.agentRBAC("and " + agents + " " + agentHasRights) },
		"_helpers.tpl":        c.helpers,
	}
}

// agentHasRights is the condition that node agents have a service account of their own.
const agentHasRights = "(include \"cleat.nodeAgentRights\" .)"

// agentRBAC returns the template of the service account of the node agents, with its rights.
func (c *Chart) agentRBAC(condition string) (string, error) {
	var all strings.Builder
	for _, one := range []struct {
		object string
		mark   func(*marked)
	}{
		{"ServiceAccount/node-agent",
			func(m *marked) { m.optional(".Values.serviceAccount.server.annotations", "metadata", "annotations") }},
		{"ClusterRole/cleat-node-agent", func(m *marked) { agentScoped(m); someForSnapshots(m) }},
		{"ClusterRoleBinding/cleat-node-agent", func(m *marked) {
			agentScoped(m)
			agentSubject(m)
			m.value(`include "cleat.nodeAgentClusterName" .`, "roleRef", "name")
		}},
		{"Role/node-agent", someForSnapshots},
		{"RoleBinding/node-agent", agentSubject},
	} {
		text, err := c.template(one.object, "", condition, one.mark)
		if err != nil {
			return "", err
		}
		all.WriteString("---\n" + text)
	}
	for _, one := range []struct {
		object string
		mark   func(*marked)
	}{
		{"Role/cleat-node-agent", someForSnapshots},
		{"RoleBinding/cleat-node-agent", func(m *marked) {
			agentSubject(m)
			m.value(`include "cleat.nodeAgentClusterName" .`, "roleRef", "name")
		}},
	} {
		text, err := c.template(one.object, other, condition, func(m *marked) { inOther(m); agentScoped(m); one.mark(m) })
		if err != nil {
			return "", err
		}
		all.WriteString(inNamespace + "---\n" + text + "{{- end }}\n{{- end }}\n")
	}
	return all.String(), nil
}

// object returns an object of an installation with all options. what is KIND/NAME, or KIND if there is only one object
// of the kind; namespace is other for an object outside of the installation's namespace, and "" for all else.
func (c *Chart) object(what, namespace string) (*unstructured.Unstructured, error) {
	kind, name, named := strings.Cut(what, "/")
	options := *c.Options
	options.Namespace, options.Image = "velero", c.Image
	options.Secret = []byte("mark")
	options.BackupLocation = &install.BackupLocation{Provider: "mark", Bucket: "mark"}
	options.SnapshotLocation = &install.SnapshotLocation{Provider: "mark"}
	options.Namespaces, options.CSISnapshots, options.AllVolumes = []string{other}, true, true
	options.Console = &install.Console{}
	objects, err := install.Objects(&options)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetKind() == kind && (!named || object.GetName() == name) &&
			(object.GetNamespace() == other) == (namespace == other) {
			return object, nil
		}
	}
	return nil, fmt.Errorf("an installation has no %s", what)
}

// template returns the template of an object, which is made if a condition holds.
func (c *Chart) template(what, namespace, condition string, mark func(*marked)) (string, error) {
	object, err := c.object(what, namespace)
	if err != nil {
		return "", err
	}
	m := &marked{object: object}
	if object.GetNamespace() == "velero" {
		m.value(".Release.Namespace", "metadata", "namespace")
	}
	if mark != nil {
		mark(m)
	}
	text, err := m.template()
	if condition != "" {
		text = "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
	}
	return text, err
}

// clusterScoped marks objects that are named after the namespace of the installation.
func clusterScoped(m *marked) {
	m.value(`include "cleat.clusterName" .`, "metadata", "name")
	m.value(".Release.Namespace", "metadata", "labels", "cleat.dev/installation")
}

// ifSnapshots begins a block for CSI snapshots.
const ifSnapshots = "{{- if has \"EnableCSI\" (splitList \",\" (.Values.configuration.features | default \"\" | " +
	"toString)) }}\n"

// clusterRole marks the ClusterRole of the server, whose last rules are for CSI snapshots, and the very last one for all
// restored volumes.
func clusterRole(m *marked) {
	clusterScoped(m)
	rules, first := rulesForSnapshots(m)
	last := len(rules) - 1
	m.set(append(rules[:first:first], m.item("{{- if .Values.rbac.allVolumes }}\n"+ifSnapshots+
		strings.TrimSpace(yamlOf(rules[first:last]))+"\n{{- end }}\n"+strings.TrimSpace(yamlOf(rules[last:]))+
		"\n{{- else }}\n"+ifSnapshots+
		"{{- fail \"configuration.features EnableCSI with rbac.clusterAdministrator false needs "+
		"rights to create, change and delete the contents of CSI snapshots, and to change persistent volumes, of all "+
		"namespaces: grant them with rbac.allVolumes, or leave out EnableCSI\" }}\n{{- end }}\n{{- end }}")), "rules")
}

// someForSnapshots marks the rules of a role whose last rules are for CSI snapshots.
func someForSnapshots(m *marked) {
	rules, first := rulesForSnapshots(m)
	m.set(append(rules[:first:first], m.item(ifSnapshots+strings.TrimSpace(yamlOf(rules[first:]))+"\n{{- end }}")),
		"rules")
}

// rulesForSnapshots returns the rules of a role, and the position of the first one that is for CSI snapshots.
func rulesForSnapshots(m *marked) (rules []any, first int) {
	rules, _, _ = unstructured.NestedSlice(m.object.Object, "rules")
	return rules, slices.IndexFunc(rules,
		func(rule any) bool { return strings.Contains(yamlOf(rule), "snapshot.storage.k8s.io") })
}

// agentScoped is clusterScoped for the objects of the node agents.
func agentScoped(m *marked) {
	clusterScoped(m)
	m.value(`include "cleat.nodeAgentClusterName" .`, "metadata", "name")
}

// inOther marks an object that is made in several namespaces.
func inOther(m *marked) {
	clusterScoped(m)
	m.value("$namespace", "metadata", "namespace")
}

// subject marks the service account of a binding: the account of the server.
func subject(m *marked) { bind(m, "cleat.serviceAccount") }

// agentSubject marks the service account of a binding: the account of the node agents.
func agentSubject(m *marked) { bind(m, "cleat.nodeAgentAccount") }

func bind(m *marked, helper string) {
	account := map[string]any{
		"kind":      "ServiceAccount",
		"name":      m.mark(code{inline: `{{ include "` + helper + `" . }}`}),
		"namespace": m.mark(code{inline: "{{ .Release.Namespace }}"}),
	}
	m.set([]any{account}, "subjects")
}

// locations returns the template of locations. The values have a list of them.
func (c *Chart) locations(kind, list, condition string) (string, error) {
	location, err := c.template(kind, "", "", func(m *marked) {
		m.value("$.Release.Namespace", "metadata", "namespace")
		m.value(`.name | default "default"`, "metadata", "name")
		m.optional(".annotations", "metadata", "annotations")
		m.value(`required "a location needs a provider" .provider`, "spec", "provider")
		m.optional(".config", "spec", "config")
		m.optional(".credential", "spec", "credential")
		if kind != "BackupStorageLocation" {
			return
		}
		m.block("default: {{ .default | default false }}", "spec", "default")
		m.block("{{- with .accessMode }}\nKEY {{ . }}\n{{- end }}", "spec", "accessMode")
		m.block("{{- with .validationFrequency }}\nKEY {{ . }}\n{{- end }}", "spec", "validationFrequency")
		m.block("{{- with .backupSyncPeriod }}\nKEY {{ . }}\n{{- end }}", "spec", "backupSyncPeriod")
		m.value(`required "a backup storage location needs a bucket" .bucket`, "spec", "objectStorage", "bucket")
		m.block("{{- with .prefix }}\nKEY {{ . }}\n{{- end }}", "spec", "objectStorage", "prefix")
		m.block("{{- with .caCert }}\nKEY {{ . }}\n{{- end }}", "spec", "objectStorage", "caCert")
	})
	return "{{- if " + condition + " }}\n{{- range .Values.configuration." + list + " }}\n---\n" + location +
		"{{- end }}\n{{- end }}\n", err
}

// deployment marks the Deployment of the server.
func (c *Chart) deployment(m *marked) {
	m.optional(".Values.annotations", "metadata", "annotations")
	m.block("{{- with .Values.revisionHistoryLimit }}\nKEY {{ . }}\n{{- end }}", "spec", "revisionHistoryLimit")
	m.value(`include "cleat.serviceAccount" .`, podPath("serviceAccountName")...)
	m.optional(".Values.hostAliases", podPath("hostAliases")...)
	m.block("{{- with .Values.terminationGracePeriodSeconds }}\nKEY {{ . }}\n{{- end }}",
		podPath("terminationGracePeriodSeconds")...)
	m.pod(".Values", `{{- include "cleat.flags" . | nindent INDENT0 }}`, ".Values.configuration.extraArgs", "server")
	m.optional("concat (.Values.initContainers | default list) (ternary list (.Values.nodeAgent.initContainers | "+
		"default list) (empty .Values.deployNodeAgent)) | uniq", podPath("initContainers")...)
}

// daemonSet marks the DaemonSet of the node agents.
func (c *Chart) daemonSet(m *marked) {
	m.optional(".Values.nodeAgent.annotations", "metadata", "annotations")
	m.set(m.item("{{- with .Values.nodeAgent.labels }}\n{{- toYaml . | nindent INDENT0 }}\n{{- end }}"), "metadata",
		"labels", "zz")
	m.always(".Values.nodeAgent.updateStrategy", "spec", "updateStrategy")
	m.value(`include "cleat.nodeAgentAccount" .`, podPath("serviceAccountName")...)
	volumes, _, _ := unstructured.NestedSlice(m.object.Object, podPath("volumes")...)
	for _, volume := range volumes {
		fields, _ := volume.(map[string]any)
		value := map[any]string{"host-pods": ".Values.nodeAgent.podVolumePath",
			"host-plugins": ".Values.nodeAgent.pluginVolumePath"}[fields["name"]]
		if value != "" {
			fields["hostPath"] = map[string]any{"path": m.mark(code{inline: "{{ " + value + " }}"})}
		}
	}
	m.set(volumes, podPath("volumes")...)
	m.pod(".Values.nodeAgent", `{{- include "cleat.nodeAgentFlags" . | nindent INDENT0 }}`, ".Values.nodeAgent.extraArgs",
		"node-agent", "server")
}

// consoleService marks the Service of the console.
func consoleService(m *marked) {
	m.optional(".Values.console.service.annotations", "metadata", "annotations")
	m.value(".Values.console.service.type", "spec", "type")
}

// console marks the Deployment of the console.
func (c *Chart) console(m *marked) {
	m.block("{{- with .Values.image.imagePullSecrets }}\nKEY\n{{- range . }}\n- name: {{ . }}\n{{- end }}\n{{- end }}",
		podPath("imagePullSecrets")...)
	for _, name := range []string{"nodeSelector", "tolerations"} {
		m.optional(".Values."+name, podPath(name)...)
	}
	const secret = "{{- with .Values.console.tlsSecret }}\n"
	more := func(path []string, text string) {
		old, _, _ := unstructured.NestedSlice(m.object.Object, path...)
		m.set(append(old, m.item(secret+text+"\n{{- end }}")), path...)
	}
	more(podPath("volumes"), "- name: tls\n  secret:\n    secretName: {{ . }}")
	m.set(m.item("{{- with .Values.podLabels }}\n{{- toYaml . | nindent INDENT0 }}\n{{- end }}"), "spec", "template",
		"metadata", "labels", "zz")
	m.container(func(container map[string]any) {
		container["image"] = m.mark(code{inline: `{{ include "cleat.image" . }}`})
		container["imagePullPolicy"] = m.mark(code{inline: "{{ .Values.image.pullPolicy }}"})
		container["resources"] = m.yaml(".Values.console.resources")
		container["args"] = append(list(container["args"]),
			m.item("{{- range .Values.console.hosts }}\n- --host={{ . }}\n{{- end }}\n"+secret+
				"- --tls-cert-file=/tls/tls.crt\n- --tls-private-key-file=/tls/tls.key\n{{- end }}"))
		container["volumeMounts"] = append(list(container["volumeMounts"]), m.item(secret+
			"- mountPath: /tls\n  name: tls\n  readOnly: true\n{{- end }}"))
		container["readinessProbe"] = map[string]any{"httpGet": map[string]any{"path": "/healthz", "port": "console",
			"scheme": m.mark(code{inline: `{{ ternary "HTTPS" "HTTP" (not (empty .Values.console.tlsSecret)) }}`})}}
	})
}

func podPath(path ...string) []string { return append([]string{"spec", "template", "spec"}, path...) }

// pod marks a template of pods. values is the path of their values. The arguments are the command, flags, which is
// template code, and extraArgs, which come from the user.
func (m *marked) pod(values, flags, extraArgs string, command ...any) {
	for field, name := range map[string]string{"labels": "podLabels", "annotations": "podAnnotations"} {
		text := "{{- with .Values." + name + " }}\n{{- toYaml . | nindent INDENT0 }}\n{{- end }}"
		if name == "podLabels" && values != ".Values" {
			text = strings.ReplaceAll(text, ".Values", values)
		}
		m.set(m.item(text), "spec", "template", "metadata", field, "zz")
	}
	for _, name := range []string{"initContainers", "tolerations", "affinity", "nodeSelector", "dnsConfig"} {
		m.optional(values+"."+name, podPath(name)...)
	}
	m.block("{{- with .Values.image.imagePullSecrets }}\nKEY\n{{- range . }}\n- name: {{ . }}\n{{- end }}\n{{- end }}",
		podPath("imagePullSecrets")...)
	m.optional(values+".podSecurityContext", podPath("securityContext")...)
	for _, name := range []string{"priorityClassName", "runtimeClassName", "dnsPolicy"} {
		m.block("{{- with "+values+"."+name+" }}\nKEY {{ . }}\n{{- end }}", podPath(name)...)
	}
	m.container(func(container map[string]any) {
		container["image"] = m.mark(code{inline: `{{ include "cleat.image" . }}`})
		container["imagePullPolicy"] = m.mark(code{inline: "{{ .Values.image.pullPolicy }}"})
		more := func(of string) any {
			return m.item("{{- with " + of + " }}\n{{- toYaml . | nindent INDENT0 }}\n{{- end }}")
		}
		container["resources"] = m.yaml(values + ".resources")
		container["args"] = append(command, m.item(flags), more(extraArgs))
		for name, value := range map[string]string{
			"securityContext": "containerSecurityContext", "livenessProbe": "livenessProbe", "readinessProbe": "readinessProbe",
			"lifecycle": "lifecycle",
		} {
			container[name] = m.mark(code{block: "{{- with " + values + "." + value +
				" }}\nKEY\n  {{- toYaml . | nindent INDENT }}\n{{- end }}"})
		}
		const credentials = `{{- if include "cleat.secretName" . }}` + "\n"
		withCredentials := func(items []any) any {
			text := strings.ReplaceAll(strings.TrimSpace(yamlOf(items)), "secretName: cloud-credentials",
				`secretName: {{ include "cleat.secretName" . }}`)
			return m.item(credentials + text + "\n{{- end }}")
		}
		env, mounts := list(container["env"]), list(container["volumeMounts"])
		first := slices.IndexFunc(env, func(variable any) bool { return strings.Contains(yamlOf(variable), "/credentials/") })
		container["env"] = append(env[:first:first], withCredentials(env[first:]), more(".Values.configuration.extraEnvVars"))
		last := len(mounts) - 1
		container["volumeMounts"] = append(mounts[:last:last], withCredentials(mounts[last:]),
			more(values+".extraVolumeMounts"))
		volumes, _, _ := unstructured.NestedSlice(m.object.Object, podPath("volumes")...)
		last = len(volumes) - 1
		m.set(append(volumes[:last:last], withCredentials(volumes[last:]), more(values+".extraVolumes")),
			podPath("volumes")...)
	})
}

// helpers returns the definitions that templates share.
func (c *Chart) helpers() (string, error) {
	content, err := files.ReadFile("files/helpers.tpl")
	if err != nil {
		return "", err
	}
	text := string(content)
	for mark, flags := range map[string][]*pflag.Flag{"AGENT_FLAGS": c.AgentFlags, "SERVER_FLAGS": c.Flags} {
		var settings strings.Builder
		for _, flag := range flags {
			fmt.Fprintf(&settings, "(list %q %q) ", flag.Name, settingName(flag.Name))
		}
		text = strings.Replace(text, mark, strings.TrimSpace(settings.String()), 1)
	}
	return text, nil
}
