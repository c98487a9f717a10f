// Package orders knows the labels, annotations, finalizers and owners of objects by which servers, agents and their
// plugins find what they have made, and act upon it. A restore brings none of them into a cluster.
//
// The package imports the names of the API only. Start reading at Is.
package orders

import (
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
)

// Domains of the names. All names of ours are orders, except those that isOfUser lists. Of Velero's names, plugins of
// others use some of their own, so that only those that isOfVelero lists are orders.
const (
	ours   = "cleat.dev"
	velero = "velero.io"
)

// Is reports whether a label or annotation with a name is an order.
func Is(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	switch domain {
	case ours:
		return !isOfUser(name)
	case velero:
		return isOfVelero(name)
	}
	return name == velerov1.MustIncludeAdditionalItemsRestoreAnnotation // of the reply of an action
}

// isOfUser reports whether users write a name of ours, or it says something about an object that needs no proof.
func isOfUser(name string) bool {
	switch name {
	case velerov1.RehearsalCheckAnnotation, velerov1.RehearsalCheckContainerAnnotation,
		velerov1.RehearsalCheckTimeoutAnnotation,          // of pods
		velerov1.RehearseAnnotation, "cleat.dev/priority", // of Schedules, which a restore includes by name
		velerov1.WriteOnceAnnotation, velerov1.DataMoverAnnotation, // of locations and repositories, likewise
		velerov1.StoredContentAnnotation, // an action sets it, and reads it beside the UID of the restore
		// of pods in the namespace of the server, whose selectors have them; who may create these, may do all there
		nodeagents.CleatLabel, "cleat.dev/takes-over":
		return true
	}
	return false
}

// isOfVelero reports whether a name of Velero is an order.
func isOfVelero(name string) bool {
	switch name {
	case velerov1.BackupUIDLabel, velerov1.RestoreUIDLabel, velerov1.PodUIDLabel, velerov1.PVCUIDLabel,
		velerov1.PVCNamespaceNameLabel, velerov1.AsyncOperationIDLabel, velerov1.ResourceUsageLabel,
		velerov1.DataUploadLabel, velerov1.DataUploadSnapshotInfoLabel, velerov1.DataUploadNameAnnotation,
		velerov1.DataDownloadLabel, velerov1.PVBLabel, velerov1.PVRLabel, velerov1.ExposeOnGoingLabel,
		velerov1.ExposerPodGroupLabel, velerov1.RepositoryNameLabel, velerov1.GCFailureLabel:
		return true
	}
	return false
}

// IsFinalizer reports whether servers or agents remove a finalizer. They do not remove it from objects of others.
func IsFinalizer(name string) bool { return IsGroup(strings.SplitN(name, "/", 2)[0]) }

// IsGroup reports whether a group of the API, or a domain of names, is ours or Velero's. Servers and agents have made
// what has owners of these groups.
func IsGroup(group string) bool {
	return group == ours || group == velero || strings.HasSuffix(group, "."+ours) || strings.HasSuffix(group, "."+velero)
}
