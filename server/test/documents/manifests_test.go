package documents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// writeManifest writes a manifest under the name of its backup. Commands then read it as a file.
func writeManifest(t *testing.T, path string, items ...*manifest.Item) {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	header := manifest.Header{Backup: manifest.Backup{Name: filepath.Base(path)}}
	w, err := manifest.NewWriter(file, header, manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	for _, item := range items {
		require.NoError(t, w.Add(item))
	}
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
}

func TestDocumentsManifestCommandsWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "server", "docs", "manifests.md"))
	require.NoError(t, err)

	dir := t.TempDir()
	web := map[string]string{"app": "web"}
	deployment := &manifest.Item{
		APIGroup: "apps", APIVersion: "v1", Resource: "deployments", ItemKind: "Deployment",
		Namespace: "shop", Name: "web", Labels: web,
	}
	writeManifest(t, filepath.Join(dir, "monday"), deployment)
	writeManifest(t, filepath.Join(dir, "nightly"), deployment,
		&manifest.Item{
			APIVersion: "v1", Resource: "secrets", ItemKind: "Secret", Namespace: "shop", Name: "tls", Labels: web,
		},
		&manifest.Item{
			APIVersion: "v1", Resource: "persistentvolumeclaims", ItemKind: "PersistentVolumeClaim",
			Namespace: "shop", Name: "data",
		},
		&manifest.Item{APIVersion: "v1", Resource: "persistentvolumes", ItemKind: "PersistentVolume", Name: "pv-1"})
	program := filepath.Dir(programs.Build(t, "server/cmd/cleat"))
	run := 0
	for line := range strings.Lines(string(page)) {
		line, isCommand := strings.CutPrefix(line, "    ")
		if !isCommand {
			continue
		}
		run++
		command := exec.CommandContext(t.Context(), "sh", "-c", line)
		command.Dir = dir
		command.Env = append(os.Environ(), "PATH="+program+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s%s", line, out)
		if strings.Contains(line, " > ") {
			out, err = os.ReadFile(filepath.Join(dir, "shop.svg"))
			require.NoError(t, err)
		}
		require.Regexp(t, "web|deployments|data|pv-1", string(out), line)
	}
	require.Greater(t, run, 8)
}
