package backups_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// newer makes the definition of a resource keep fields that it does not know, as that of a newer Velero would keep its
// own, and creates an object with such fields.
func newer(s *site.Site, resource, kind, name, spec string) {
	s.T.Helper()
	definition := new(unstructured.Unstructured)
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	definition.SetName(resource + ".velero.io")
	object := new(unstructured.Unstructured)
	object.SetGroupVersionKind(velerov1.SchemeGroupVersion.WithKind(kind))
	at := "properties/spec"
	if kind == "Schedule" {
		at += "/properties/template"
	}
	var wanted map[string]any
	require.NoError(s.T, json.Unmarshal([]byte(spec), &wanted))
	s.Eventually("unknown fields of "+resource+" are kept", func(ctx context.Context) (bool, error) {
		if err := s.Client.Patch(ctx, definition, client.RawPatch(types.JSONPatchType, []byte(
			`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/`+at+
				`/x-kubernetes-preserve-unknown-fields","value":true}]`))); err != nil {
			return false, err
		}
		trial := object.DeepCopy()
		trial.SetNamespace(s.Namespace)
		trial.SetName(name)
		trial.Object["spec"] = wanted
		if err := s.Client.Create(ctx, trial, client.DryRunAll); err != nil {
			return false, err
		}
		kept, err := json.Marshal(trial.Object["spec"])
		return strings.Contains(string(kept), "future"), err
	})
	object.SetNamespace(s.Namespace)
	object.SetName(name)
	object.Object["spec"] = wanted
	require.NoError(s.T, s.Client.Create(s.T.Context(), object))
}

// TestAcceptBackup_UnknownFields creates objects with fields that a newer Velero may have. The server names them in a
// warning of the object, and does the rest.
func TestAcceptBackup_UnknownFields(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(3)
	s.Serve()
	s.Available()
	const unknown = ": this server does not know the field, so it has no effect"

	newer(s, "backups", "Backup", "newer", `{"includedNamespaces": ["`+s.Shop+`"], "futureMode": "Fast", "backupType": "Full",
		"hooks": {"resources": [{"name": "h", "includedNamespaces": ["`+s.Shop+`"]}]}}`)
	b := s.AwaitBackup("newer", velerov1.BackupPhaseCompleted)
	require.Equal(t, 3, b.Status.Warnings, s.ResultsOf("newer"))
	require.Contains(t, s.ResultsOf("newer"), "spec.hooks: hook h applies to no pod")
	require.Contains(t, s.ResultsOf("newer"), "spec.futureMode"+unknown)
	require.Contains(t, s.ResultsOf("newer"), "spec.backupType: volumes are backed up incrementally")
	awaitEvent(s, "Backup", "newer", "spec.futureMode"+unknown)

	newer(s, "restores", "Restore", "back", `{"backupName": "newer", "namespaceMapping": {"`+s.Shop+`": "`+s.Shop+
		`-b"}, "futurePolicy": "x"}`)
	r := s.AwaitRestore("back", velerov1.RestorePhaseCompleted)
	require.Positive(t, r.Status.Warnings)
	awaitEvent(s, "Restore", "back", "spec.futurePolicy"+unknown)

	newer(s, "schedules", "Schedule", "often", `{"schedule": "@every 1s", "template": {"includedNamespaces": ["`+s.Shop+
		`"], "metadata": {"annotations": {"team": "a"}}, "futureMode": "Fast"}}`)
	awaitEvent(s, "Schedule", "often", "spec.template.futureMode"+unknown)
	var made *velerov1.Backup
	s.Eventually("the schedule has created a backup", func(ctx context.Context) (bool, error) {
		var list velerov1.BackupList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace),
			client.MatchingLabels{velerov1.ScheduleNameLabel: "often"})
		if len(list.Items) > 0 {
			made = &list.Items[0]
		}
		return made != nil, err
	})
	s.Must("schedule", "pause", "often")
	require.Equal(t, "a", made.Annotations["team"])
	s.AwaitBackup(made.Name, velerov1.BackupPhaseCompleted)
	require.Contains(t, s.ResultsOf(made.Name), "spec.futureMode"+unknown, "the schedule hands the field on")

	newer(s, "backupstoragelocations", "BackupStorageLocation", "other", `{"provider": "cleat.dev/file", "futureCopy": 3,
		"objectStorage": {"bucket": "`+t.TempDir()+`"}}`)
	awaitEvent(s, "BackupStorageLocation", "other", "spec.futureCopy"+unknown)
}

// awaitEvent waits for the event that names the fields of an object without effect.
func awaitEvent(s *site.Site, kind, name, text string) {
	s.T.Helper()
	s.Eventually("there is an event of "+kind+" "+name, func(ctx context.Context) (bool, error) {
		var list corev1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace))
		for i := range list.Items {
			e := &list.Items[i]
			if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Reason == "NotSupported" &&
				strings.Contains(e.Message, text) {
				return true, err
			}
		}
		return false, err
	})
}
