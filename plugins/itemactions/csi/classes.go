package csi

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// class is a VolumeSnapshotClass or a VolumeGroupSnapshotClass.
type class struct {
	metav1.ObjectMeta
	driver string
}

// classKind is what distinguishes the two kinds of classes.
type classKind struct {
	kind      string
	ofClaim   string // annotation of a claim that names a class
	key       string // label of a class that is chosen, and beginning of annotations of a backup that name one
	byDefault string // annotation of the class that a driver uses for snapshots without one
	otherwise string // what to do if a driver has no class
}

var (
	singly = classKind{
		kind: "VolumeSnapshotClass", ofClaim: velerov1.VolumeSnapshotClassKey, key: velerov1.VolumeSnapshotClassKey,
		byDefault: "snapshot.storage.kubernetes.io/is-default-class",
		otherwise: "leave the volume out by a volume policy or snapshotVolumes=false",
	}
	grouped = classKind{
		kind: "VolumeGroupSnapshotClass", ofClaim: velerov1.VolumeGroupSnapshotClassPVCAnnotation,
		key:       velerov1.VolumeGroupSnapshotClassKey,
		byDefault: "groupsnapshot.storage.kubernetes.io/is-default-class",
		otherwise: "take single snapshots by removing the label of the group, if the driver has no group snapshots",
	}
)

// choose returns the class for a snapshot of a driver's volumes: the one that an annotation of the claim names, or one
// of the backup, or the one with a label for Velero, or the default one, or the only one. A name that an annotation
// gives must be that of a class of the driver. Velero continues with the next rule instead, and the user would notice
// too late that the snapshot is not of the wanted class.
func (k classKind) choose(driver string, claim map[string]string, b *velerov1.Backup, classes []class) (string, error) {
	forDriver := k.key + "_" + strings.ToLower(driver)
	for _, given := range []struct{ where, annotation, name string }{
		{"the claim", k.ofClaim, claim[k.ofClaim]},
		{"the backup", forDriver, b.Annotations[forDriver]},
	} {
		if given.name == "" {
			continue
		}
		i := slices.IndexFunc(classes, func(c class) bool { return strings.EqualFold(c.Name, given.name) })
		switch {
		case i < 0:
			return "", fmt.Errorf("annotation %s of %s names %s %s, which does not exist; want one for driver %s",
				given.annotation, given.where, k.kind, given.name, driver)
		case !strings.EqualFold(classes[i].driver, driver):
			return "", fmt.Errorf("annotation %s of %s names %s %s, which is for driver %s; want one for driver %s",
				given.annotation, given.where, k.kind, classes[i].Name, classes[i].driver, driver)
		}
		return classes[i].Name, nil
	}
	own := slices.DeleteFunc(slices.Clone(classes), func(c class) bool { return c.driver != driver })
	for _, chosen := range []func(class) bool{
		func(c class) bool {
			_, ok := c.Labels[k.key]
			return ok
		},
		func(c class) bool { _, ok := c.Annotations[k.byDefault]; return ok },
		func(class) bool { return len(own) == 1 },
	} {
		if i := slices.IndexFunc(own, chosen); i >= 0 {
			return own[i].Name, nil
		}
	}
	if len(own) == 0 {
		return "", fmt.Errorf("there is no %s for driver %s; create one, or %s", k.kind, driver, k.otherwise)
	}
	return "", fmt.Errorf("none of the %d %ses for driver %s is chosen; give one of them the label %s=true or the "+
		"annotation %s=true", len(own), k.kind, driver, k.key, k.byDefault)
}
