package nodeagent_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// copies is the domain of the names of the copied built-ins.
const copies = "copy.example.io"

// allCopies is a configuration that disables all built-ins and uses copies in their place.
const allCopies = `apiVersion: cleat.dev/v1
plugins:
  disabledBuiltIns: ["*"]
backups:
  admission: {plugin: copy.example.io/namespace-overlap}
  manifestWriters: [{plugin: copy.example.io/manifest}]
nodeAgent:
  soothing: {plugin: copy.example.io/prepare-queue}
`

// TestAcceptPlugins_EveryBuiltInReplaced disables all plugins that are part of the server. Their copies have other
// names, and are a plugin file like any other. Volumes are backed up and restored with them, from the file system and
// by snapshots whose data is moved, and no other plugin is used.
func TestAcceptPlugins_EveryBuiltInReplaced(t *testing.T) {
	t.Parallel()
	t.Run("file system", func(t *testing.T) {
		t.Parallel()
		f := newFiles(t, 1)
		f.useCopies("objects", "s3")
		var helper corev1.ConfigMap
		require.NoError(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "helper"}, &helper))
		f.change(&helper, func() { helper.Labels[copies+"/pod-volume-restore"] = "RestoreItemAction" })
		shop, db := f.shop()
		f.serve("--config", f.configFile())
		f.runAgent()
		b := f.backUp("b", velerov1.BackupSpec{IncludedNamespaces: []string{shop}})
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, f.results("backups", "b"))
		f.restoreInto(t, "b", "restored", "restored-"+f.namespace, db)
		f.usesCopiesOnly()
	})
	t.Run("snapshots", func(t *testing.T) {
		t.Parallel()
		csiOnDirectories(t, func(v *volumeSite) { v.useCopies("default", "file") }).usesCopiesOnly()
	})
}

// useCopies adds the copies to the plugins of the site, and configures a location to use one of them.
func (s *site) useCopies(location, provider string) {
	s.t.Helper()
	require.NoError(s.t, programs.CopyFile(copiedBuiltIns(s.t), filepath.Join(s.plugins, "copies")))
	s.config = allCopies
	s.environment = append(s.environment, "KUBECONFIG="+s.plane.Get(s.t).Kubeconfig, "VELERO_NAMESPACE="+s.namespace)
	var l velerov1.BackupStorageLocation
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: location}, &l))
	s.change(&l, func() { l.Spec.Provider = copies + "/" + provider })
}

// usesCopiesOnly fails unless the server uses all copies, and nothing else except the data mover.
func (s *site) usesCopiesOnly() {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), programs.Build(s.t, "server/cmd/cleat"), "plugin", "get", "-o", "json",
		"--kubeconfig", s.plane.Get(s.t).Kubeconfig, "--namespace", s.namespace).Output()
	require.NoError(s.t, err)
	var found struct {
		Items []struct{ Kind, Name, Status, File string }
	}
	require.NoError(s.t, json.Unmarshal(out, &found), string(out))
	used := sets.New[string]()
	for _, plugin := range found.Items {
		require.Contains(s.t, []string{"copies", "cleat-kopia"}, filepath.Base(plugin.File), plugin)
		used.Insert(plugin.Name)
	}
	for _, registration := range plugins.All() {
		require.True(s.t, used.Has(copied(registration.Name())), registration.Name())
	}
}

// copied returns the name of the copy of a built-in.
func copied(name string) string {
	_, own, _ := strings.Cut(name, "/")
	return copies + "/" + own
}

// copiedBuiltIns returns the path of a program with a copy of each built-in under another name: it is built from their
// sources with changed names.
func copiedBuiltIns(t *testing.T) string {
	t.Helper()
	programs.Depend(t, "plugins/...")
	path, err := buildCopies()
	require.NoError(t, err)
	return path
}

var buildCopies = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(directory, "copies")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	names := sets.New[string]()
	for _, registration := range plugins.All() {
		names.Insert(registration.Name())
	}
	root, err := filepath.Abs("../../../plugins")
	if err != nil {
		return "", err
	}
	text, overlay := regexp.MustCompile(`"[a-z.]+/[a-z0-9-]+"`), map[string]string{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := text.ReplaceAllStringFunc(string(source), func(literal string) string {
			if name := strings.Trim(literal, `"`); names.Has(name) {
				return strconv.Quote(copied(name))
			}
			return literal
		})
		if changed == string(source) {
			return nil
		}
		overlay[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay)))
		return os.WriteFile(overlay[path], []byte(changed), 0o600)
	})
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	description, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "copies")
	if err := os.WriteFile(description, encoded, 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-overlay", description, "-o", program,
		"./testdata/builtins").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})
