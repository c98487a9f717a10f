package manifests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/test/site"
)

// manifestOf returns the items of a manifest in the bucket, as JSON.
func manifestOf(s *site.Site, backup string) (items []string, header manifest.Header) {
	s.T.Helper()
	file, err := os.Open(filepath.Join(s.BucketDir, "backups", backup, backup+"-"+manifest.FileName))
	require.NoError(s.T, err)
	defer file.Close()
	r, err := manifest.NewReader(file)
	require.NoError(s.T, err)
	for one, err := range r.Items() {
		require.NoError(s.T, err)
		encoded, err := json.Marshal(one)
		require.NoError(s.T, err)
		items = append(items, string(encoded))
	}
	return items, r.Header()
}

// TestAcceptManifest_DryRunBackup makes a dry run of a backup, and the backup that accepts it, without and with changes
// in between.
func TestAcceptManifest_DryRunBackup(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.WatchItems("0s")
	s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(10)
	hidden := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "hidden",
		Labels: map[string]string{"velero.io/exclude-from-backup": "true"}}}
	require.NoError(t, s.Client.Create(t.Context(), hidden))

	out := s.Must("backup", "create", "b", "--include-namespaces", shop, "--dry-run")
	require.Contains(t, out, "would be backed up; nothing was stored.\n")
	require.Contains(t, out, "it has the label velero.io/exclude-from-backup=true")
	require.Contains(t, out, "its namespace is not included")
	require.Contains(t, out, "  example.io/witness, for 11 items\n")
	require.Empty(t, w.Runs(), "the plugin may have side effects")
	dry := s.Backup("b-dry-run")
	require.Equal(t, velerov1.BackupPhaseFailedValidation, dry.Status.Phase)
	require.Equal(t, velerov1.DryRunDone, dry.Annotations[velerov1.DryRunAnnotation])
	require.Equal(t, []string{"b-dry-run-dry-run.json.gz", "b-dry-run-logs.gz", "b-dry-run-manifest.json.gz",
		"b-dry-run-results.gz"}, s.Files("backups/b-dry-run"))
	_, _, err := s.Run("restore", "create", "--from-backup", "b-dry-run", "--wait")
	require.ErrorContains(t, err, "exit status 1", "it cannot be restored")

	var said struct {
		UID string
		dryrun.Collection
	}
	require.NoError(t, json.Unmarshal([]byte(s.Must("backup", "create", "b", "--include-namespaces", shop, "--dry-run",
		"-o", "json")), &said))
	require.Equal(t, map[string]int{"example.io/witness": 11}, said.NotCalled)
	require.NotEqual(t, string(dry.UID), said.UID, "it takes the place of the former one")

	s.Must("backup", "create", "b", "--accept", "--wait")
	wanted, header := manifestOf(s, "b-dry-run")
	got, _ := manifestOf(s, "b")
	require.Equal(t, wanted, got, "said is done")
	require.Len(t, wanted, said.Items)
	require.True(t, header.Backup.DryRun)
	require.Zero(t, s.Backup("b").Status.Warnings, s.ResultsOf("b"))
	require.Equal(t, said.Items, s.Backup("b").Status.Progress.ItemsBackedUp)
	require.Len(t, w.Runs(), 1, "the backup calls the plugin")

	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"new":"label"}}}`))
	changed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "item-b"}}
	require.NoError(t, s.Client.Patch(t.Context(), changed, label))
	hide := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"velero.io/exclude-from-backup":"true"}}}`))
	require.NoError(t, s.Client.Patch(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "item-c"}}, hide))
	require.NoError(t, s.Client.Delete(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "item-a"}}))
	for i := range 12 {
		fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: fmt.Sprintf("new-%02d", i)}}
		require.NoError(t, s.Client.Create(t.Context(), fresh))
	}
	s.Must("backup", "create", "c", "--accept=b-dry-run", "--wait")
	got, _ = manifestOf(s, "c")
	require.Len(t, got, said.Items-1)
	require.False(t, slices.ContainsFunc(got, func(one string) bool { return strings.Contains(one, `"new-`) }))
	require.True(t, slices.ContainsFunc(got, func(one string) bool { return strings.Contains(one, `"item-c"`) }),
		"the filters do not select it any more")
	texts := s.ResultsOf("c")
	require.Contains(t, texts, "items new since the accepted dry run, and not in the backup: 12: ")
	require.Contains(t, texts, "and 2 more")
	require.Contains(t, texts, "items gone since the accepted dry run, and not in the backup: 1: configmaps "+shop+
		"/item-a")
	require.Contains(t, texts, "and in the backup as they are now: 2: configmaps "+shop+"/item-b, configmaps "+shop+
		"/item-c")
	require.Equal(t, 3, s.Backup("c").Status.Warnings)

	_, errs, err := s.Run("backup", "create", "d", "--accept=b-dry-run", "--include-namespaces", shop)
	require.Error(t, err)
	require.Contains(t, errs, "--accept takes the spec of the dry run, so leave out --include-namespaces")
	require.NoError(t, s.Client.Delete(t.Context(), s.Backup("b-dry-run")))
	s.AwaitGone(&velerov1.Backup{}, "b-dry-run")
	require.Empty(t, s.Files("backups/b-dry-run"))
	late := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "late",
		Annotations: map[string]string{
			velerov1.AcceptAnnotation: "b-dry-run/" + said.UID,
		}}}
	require.NoError(t, s.Client.Create(t.Context(), late))
	require.Equal(t, []string{"the dry run b-dry-run does not exist any more, make another one"},
		s.AwaitBackup("late", velerov1.BackupPhaseFailedValidation).Status.ValidationErrors)

	s.Must("backup", "create", "short", "--include-namespaces", shop, "--dry-run", "--keep", "1m")
	s.AwaitGone(&velerov1.Backup{}, "short-dry-run")
	require.Empty(t, s.Files("backups/short-dry-run"))
	_, errs, err = s.Run("backup", "create", "wrong", "--storage-location", "none", "--dry-run")
	require.Error(t, err)
	require.Contains(t, errs, "dry run wrong-dry-run was not carried out: ")
	require.Equal(t, velerov1.DryRunFailed, s.Backup("wrong-dry-run").Annotations[velerov1.DryRunAnnotation])
}

// TestAcceptManifest_DryRunOutlivesServer kills the server in the middle of a dry run. The next server begins it
// again. A dry run that was created without a phase is a dry run, too.
func TestAcceptManifest_DryRunOutlivesServer(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.WatchItems("0s")
	w.Hold()
	config := w.Args[1]
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, []byte(strings.Replace(string(text), "plugins: {", "plugins: {dryRun: "+
		"[example.io/witness], ", 1)), 0o600))
	first := s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(3)
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b-dry-run",
			Annotations: map[string]string{velerov1.DryRunAnnotation: velerov1.DryRunRequested}},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{shop}},
	}))
	s.Eventually("the plugin is called", func(context.Context) (bool, error) { return len(w.Runs()) > 0, nil })
	first.Kill()
	w.Release()
	require.Equal(t, velerov1.DryRunRequested, s.Backup("b-dry-run").Annotations[velerov1.DryRunAnnotation])
	require.Equal(t, velerov1.BackupPhaseFailedValidation, s.Backup("b-dry-run").Status.Phase)
	s.Serve(w.Args...)
	s.Eventually("the dry run has ended", func(context.Context) (bool, error) {
		return s.Backup("b-dry-run").Annotations[velerov1.DryRunAnnotation] == velerov1.DryRunDone, nil
	})
	require.Equal(t, 2, velerov1.AttemptOf(s.Backup("b-dry-run")))
	said, _ := manifestOf(s, "b-dry-run")
	s.Must("backup", "create", "b", "--accept", "--wait")
	got, _ := manifestOf(s, "b")
	require.Equal(t, said, got)
}

// TestAcceptManifest_DryRunRestore makes a dry run of a restore from the command line, and the restore after it.
func TestAcceptManifest_DryRunRestore(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	w := s.WatchItems("0s")
	s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(5)
	s.Must("backup", "create", "b", "--include-namespaces", shop, "--wait")
	before := w.Runs()
	require.NoError(t, s.Client.Delete(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "item-a"}}))
	change := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"n":"changed"}}`))
	require.NoError(t, s.Client.Patch(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "item-b"}}, change))

	out := s.Must("restore", "create", "r", "--from-backup", "b", "--dry-run")
	require.Contains(t, out, "configmaps "+shop+"/item-b: conflict: ")
	require.Regexp(t, `configmaps +1 +0 +4 +1 +0 +0\n`, out)
	require.Contains(t, out, "example.io/witness, for 6 items")
	require.Equal(t, before, w.Runs())
	require.True(t, apierrors.IsNotFound(s.Client.Get(t.Context(), client.ObjectKey{Namespace: shop, Name: "item-a"},
		&corev1.ConfigMap{})))
	var said struct {
		Items   []outcome.Item
		Summary outcome.Summary
	}
	require.NoError(t, json.Unmarshal([]byte(s.Must("restore", "create", "r", "--from-backup", "b", "--dry-run", "-o",
		"json")), &said))
	require.Equal(t, said.Summary.Total(), len(said.Items))
	require.Equal(t, 1, said.Summary.Items[outcome.Created])

	s.Must("restore", "create", "r", "--from-backup", "b", "--wait")
	var done map[string][]string
	require.NoError(t, json.NewDecoder(s.Unzipped("restores", "r", "restore-r-resource-list.json.gz")).Decode(&done))
	for _, one := range said.Items {
		action := string(one.Outcome)
		if one.Outcome == outcome.Conflict {
			action = "failed"
		}
		require.Contains(t, done[one.APIVersion+"/"+one.Kind], fmt.Sprintf("%s/%s(%s)", one.Namespace, one.Name, action))
	}
	require.Equal(t, []string{"restore-r-dry-run-dry-run.json.gz", "restore-r-dry-run-logs.gz",
		"restore-r-dry-run-results.gz"}, s.Files("restores/r-dry-run"))
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "r-dry-run"}}))
	s.AwaitGone(&velerov1.Restore{}, "r-dry-run")
	require.Empty(t, s.Files("restores/r-dry-run"))
}

func TestCommandsOfGuideForDryRuns(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	s.UseShop()
	require.Equal(t, 5, s.RunPage(t, "dry-runs", "", ""))
}

// TestAcceptManifest_DryRunsOnScreen makes dry runs of a backup and a restore. They must not look like failures.
func TestAcceptManifest_DryRunsOnScreen(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	dryRun := func(args ...string) string {
		out, errs, err := s.Run(append(args, "--dry-run")...)
		require.NoError(t, err, errs)
		return out + errs
	}
	for kind, screen := range map[string]string{
		"backup":  dryRun("backup", "create", "b", "--include-namespaces", s.Shop),
		"restore": dryRun("restore", "create", "b", "--from-backup", "whole"),
	} {
		require.Contains(t, screen, "dry run b-dry-run: DryRunCompleted\n")
		screen += s.Must(kind, "get", "b-dry-run") + s.Must(kind, "describe", "b-dry-run")
		require.NotContains(t, screen, "FailedValidation")
		require.NotContains(t, screen, "Validation errors")
	}
	_, errs, err := s.Run("backup", "create", "wrong", "--storage-location", "none", "--dry-run")
	require.Error(t, err)
	require.Contains(t, errs, "dry run wrong-dry-run: DryRunFailed\n")
}
