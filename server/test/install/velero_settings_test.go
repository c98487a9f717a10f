package install_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/cli"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// veleroSettings are the settings of Velero, as programs/settings prints them.
type veleroSettings struct {
	Flags map[string]map[string]string `json:"flags"` // types, by program and flag
	Keys  map[string]map[string]string `json:"keys"`  // types, by ConfigMap and path
}

const settingsFile = "testdata/velero-settings.json"

// TestAcceptInstall_VelerosSettings has every flag and every key of a ConfigMap that Velero has: each has an effect, or is
// refused, or is said to have none.
func TestAcceptInstall_VelerosSettings(t *testing.T) {
	t.Parallel()
	t.Run("the list is that of Velero", func(t *testing.T) {
		t.Parallel()
		now, err := exec.CommandContext(t.Context(), velero.Get(t).Settings).Output()
		require.NoError(t, err)
		if *site.Update {
			require.NoError(t, os.WriteFile(settingsFile, now, 0o600))
		}
		known, err := os.ReadFile(settingsFile)
		require.NoError(t, err)
		require.JSONEq(t, string(known), string(now), "write it with -update")
	})
	text, err := os.ReadFile(settingsFile)
	require.NoError(t, err)
	var of veleroSettings
	require.NoError(t, json.Unmarshal(text, &of))
	t.Run("install", func(t *testing.T) { t.Parallel(); installFlags(t, of.Flags["install"]) })
	t.Run("server and node agent", func(t *testing.T) { t.Parallel(); runningPrograms(t, &of) })
}

// valueOf returns a value of a flag or key that is not its default. most has those for which the type is not enough.
func valueOf(name, kind string, most map[string]any) any {
	if value, found := most[name]; found {
		return value
	}
	switch {
	case kind == "bool":
		return true
	case kind == "int", kind == "int64", kind == "float32":
		return 7
	case kind == "duration":
		return "7h"
	case kind == "mapStringString":
		return "a=b"
	case strings.Contains(strings.ToLower(name), "cpu"):
		return "700m"
	case strings.Contains(name, "mem"), strings.Contains(name, "ephemeral"):
		return "200Mi"
	}
	return "x7"
}

// installFlags renders an installation with each flag of "velero install". The flag changes what is rendered, or is
// named by an error or a warning.
func installFlags(t *testing.T, flags map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
	render := func(args ...string) (out, errs string, err error) {
		var stdout, stderr bytes.Buffer
		args = append([]string{"install", "--namespace", "velero", "--dry-run", "--provider", "aws", "--bucket", "b",
			"--plugins",
			"example.io/p:v1", "--no-secret", "--use-node-agent"}, args...)
		err = cli.New(command.Streams{Out: &stdout, Err: &stderr}, "v1.2.3", args).ExecuteContext(t.Context())
		return stdout.String(), stderr.String(), err
	}
	plain, _, err := render()
	require.NoError(t, err)
	ofCommand := []string{"apply", "dry-run", "wait"} // what is done with the objects
	most := map[string]any{
		"cacert": file, "secret-file": file, "features": "EnableCSI", "kubelet-root-dir": "/k", "no-secret": "false",
		"output": "json", "plugins": "example.io/p:v2", "uploader-type": "restic", "use-node-agent": "false",
		"use-volume-snapshots": "false",
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if slices.Contains(ofCommand, name) {
			continue
		}
		value, err := json.Marshal(valueOf(name, flags[name], most))
		require.NoError(t, err)
		out, errs, err := render("--" + name + "=" + strings.Trim(string(value), `"`))
		switch {
		case err != nil:
			require.ErrorContains(t, err, "--"+name)
			require.NotContains(t, err.Error(), "unknown flag")
		case out == plain:
			require.Contains(t, errs, "--"+name, "it has no effect, which nothing says")
		}
	}
}

// documentOf returns a document with all keys of a ConfigMap.
func documentOf(t *testing.T, keys map[string]string, most map[string]any) string {
	t.Helper()
	document := map[string]any{}
	for path, kind := range keys {
		at, parts := document, strings.Split(path, ".")
		for i, part := range parts {
			name, isList := strings.CutSuffix(part, "[]")
			if name == "*" {
				name = "any"
			}
			switch last := i == len(parts)-1; {
			case last && isList:
				at[name] = []any{valueOf(name, kind, most)}
			case last:
				at[name] = valueOf(name, kind, most)
			case isList:
				if at[name] == nil {
					at[name] = []any{map[string]any{}}
				}
				at = at[name].([]any)[0].(map[string]any) //nolint:forcetypeassert // it is one
			default:
				if at[name] == nil {
					at[name] = map[string]any{}
				}
				at = at[name].(map[string]any) //nolint:forcetypeassert // it is one
			}
		}
	}
	text, err := json.Marshal(document)
	require.NoError(t, err)
	return string(text)
}

// runningPrograms checks an installation of Velero with all flags and keys for a take-over, and runs a server and an
// agent with them.
func runningPrograms(t *testing.T, of *veleroSettings) {
	t.Helper()
	s := site.New(t, "cleat.dev/file")
	values := map[string]any{
		"log-level": "debug", "log-format": "json", "uploader-type": "kopia", "metrics-address": "0", "profiler-address": "0",
		"default-volume-snapshot-locations": "aws:x7", "disable-controllers": "gc", "restore-resource-priorities": "pods",
		"plugin-dir": t.TempDir(), "storageClass": s.Namespace, "operator": "In", "fullMaintenanceInterval": "fastGC",
	}
	arguments := func(program string) (args []string) {
		for _, name := range slices.Sorted(maps.Keys(of.Flags[program])) {
			value, err := json.Marshal(valueOf(name, of.Flags[program][name], values))
			require.NoError(t, err)
			text := strings.Trim(string(value), `"`)
			if strings.HasSuffix(name, "-configmap") {
				text = name
			}
			args = append(args, "--"+name+"="+text)
		}
		return args
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.Namespace, Name: name} }
	labels := map[string]string{"role": "node-agent"}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}, Provisioner: "example.io/none"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	for _, object := range []client.Object{
		class, node, veleroDeployment(s, "velero/velero:v1.18.3", append([]string{"server"}, arguments("server")...)...),
		&appsv1.DaemonSet{ObjectMeta: meta("node-agent"), Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "node-agent", Image: "velero/velero:v1.18.3", Command: []string{"/velero"},
					Args: append([]string{"node-agent", "server"}, arguments("node-agent")...),
				}}}},
		}},
		&corev1.ConfigMap{ObjectMeta: meta("node-agent-configmap"),
			Data: map[string]string{"agents": documentOf(t, of.Keys["node-agent"], values)}},
		&corev1.ConfigMap{ObjectMeta: meta("repo-maintenance-job-configmap"),
			Data: map[string]string{"global": documentOf(t, of.Keys["repo-maintenance"], values)}},
		&corev1.ConfigMap{ObjectMeta: meta("backup-repository-configmap"),
			Data: map[string]string{"kopia": documentOf(t, of.Keys["repository"], values)}},
		&corev1.ConfigMap{ObjectMeta: meta("global-backup-volume-policies-configmap"), Data: map[string]string{
			"policies": `{"version": "v1", "volumePolicies": [{"conditions": {"capacity": "0,1Gi"}, "action": {"type": "skip"}}]}`}},
	} {
		require.NoError(t, s.Client.Create(t.Context(), object))
	}
	t.Cleanup(func() {
		_, _ = s.Client.Delete(context.Background(), class), s.Client.Delete(context.Background(), node)
	})

	out, _, err := s.Run("takeover", "check", "--timeout", "1ms")
	require.Error(t, err)
	require.Contains(t, out, `Cleat would miss:
- flag --max-concurrent-k8s-connections 7 has no effect: as many snapshots are taken at once as there are workers of item blocks
To know:
`)
	var warns []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, " warns: ") {
			warns = append(warns, strings.TrimSpace(line))
		}
	}
	require.Equal(t, []string{"- the server warns: ConfigMap " + s.Namespace + "/repo-maintenance-job-configmap: " +
		"global: " +
		"loadAffinity[0].storageClass is unknown and has no effect"}, warns)

	server := s.Serve(arguments("server")...)
	server.AwaitLog("server started")
	require.Contains(t, server.Log.String(), "flag --max-concurrent-k8s-connections 7 has no effect")
	agent := &site.Server{Site: s, Log: &site.LogBuffer{}, Done: make(chan error, 1)}
	agent.Cmd = exec.Command(site.Program(t), append([]string{"node-agent", "server", "--kubeconfig", s.Kubeconfig,
		"--namespace", s.Namespace, "--node-name", node.Name, "--profiler-address=", "--scratch-dir", t.TempDir(),
		"--plugin-dir", t.TempDir()}, arguments("node-agent")...)...)
	agent.Cmd.Stdout, agent.Cmd.Stderr = agent.Log, agent.Log
	require.NoError(t, agent.Cmd.Start())
	go func() { agent.Done <- agent.Cmd.Wait() }()
	t.Cleanup(agent.Kill)
	agent.AwaitLog("node agent started")
	require.NotContains(t, agent.Log.String(), "is unknown and")
	require.Contains(t, agent.Log.String(), "backupPVC has no effect", "this one does not run in a pod")
}
