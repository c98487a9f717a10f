package console

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/console"
)

// The kinds that pages list.
var (
	backupKind = console.Kind{Name: "backups", NewList: func() client.ObjectList { return &velerov1.BackupList{} },
		Slim: func(o client.Object) {
			withoutConfiguration(o)
			if b, ok := o.(*velerov1.Backup); ok {
				b.Spec.Hooks, b.Spec.OrderedResources, b.Status.ValidationErrors = velerov1.BackupHooks{}, nil, nil
			}
		}}
	restoreKind = console.Kind{Name: "restores", NewList: func() client.ObjectList { return &velerov1.RestoreList{} },
		Slim: func(o client.Object) {
			withoutConfiguration(o)
			if r, ok := o.(*velerov1.Restore); ok {
				r.Spec.Hooks, r.Spec.NamespaceMapping, r.Status.ValidationErrors = velerov1.RestoreHooks{}, nil, nil
			}
		}}
	scheduleKind = console.Kind{Name: "schedules", NewList: func() client.ObjectList { return &velerov1.ScheduleList{} },
		Slim: withoutConfiguration}
	locationKind = console.Kind{Name: "backupstoragelocations",
		NewList: func() client.ObjectList { return &velerov1.BackupStorageLocationList{} }, Slim: withoutConfiguration}
	snapshotLocationKind = console.Kind{Name: "volumesnapshotlocations",
		NewList: func() client.ObjectList { return &velerov1.VolumeSnapshotLocationList{} }, Slim: withoutConfiguration}
	namespaceKind = console.Kind{Name: "namespaces", Everywhere: true,
		NewList: func() client.ObjectList { return &corev1.NamespaceList{} },
		Slim: func(o client.Object) {
			o.SetAnnotations(nil)
			o.SetLabels(nil)
		}}
	claimKind = console.Kind{Name: "persistentvolumeclaims", Everywhere: true,
		NewList: func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
		Slim: func(o client.Object) {
			o.SetAnnotations(nil)
			o.SetLabels(nil)
			o.SetFinalizers(nil)
			if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
				claim.Spec, claim.Status = corev1.PersistentVolumeClaimSpec{},
					corev1.PersistentVolumeClaimStatus{Phase: claim.Status.Phase}
			}
		}}
)

// withoutConfiguration removes what kubectl notes for itself.
func withoutConfiguration(o client.Object) {
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	o.SetAnnotations(annotations)
}

// clusterOf returns the cluster as commands see it, with the rights of who looks.
func clusterOf(l *console.Look) *command.Cluster {
	return &command.Cluster{WithWatch: l.Viewer, Namespace: l.Namespace, Pods: l.Pods}
}

// values returns copies of objects, as tables take them.
func values[T any](objects []*T) []T {
	out := make([]T, len(objects))
	for i, o := range objects {
		out[i] = *o
	}
	return out
}

// problems returns the texts of errors.
func problems(errs ...error) []string {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	return texts
}
