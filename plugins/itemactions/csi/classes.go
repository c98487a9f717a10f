package csi

import (
	"fmt"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// defaultClass is the annotation of the class that a driver uses for snapshots without one.
const defaultClass = "snapshot.storage.kubernetes.io/is-default-class"

// chooseClass returns the VolumeSnapshotClass for a snapshot of a driver's volume: the one that an annotation of the
// claim names, or one of the backup, or the one with a label for Velero, or the default one, or the only one. A name
// that an annotation gives must be that of a class of the driver. Velero continues with the next rule instead, and the
// user would notice too late that the snapshot is not of the wanted class.
func chooseClass(
	driver string, claim map[string]string, b *velerov1.Backup, classes []snapshotv1.VolumeSnapshotClass,
) (string, error) {
	forDriver := velerov1.VolumeSnapshotClassKey + "_" + strings.ToLower(driver)
	for _, given := range []struct{ where, annotation, name string }{
		{"the claim", velerov1.VolumeSnapshotClassKey, claim[velerov1.VolumeSnapshotClassKey]},
		{"the backup", forDriver, b.Annotations[forDriver]},
	} {
		if given.name == "" {
			continue
		}
		i := slices.IndexFunc(classes,
			func(c snapshotv1.VolumeSnapshotClass) bool { return strings.EqualFold(c.Name, given.name) })
		switch {
		case i < 0:
			return "", fmt.Errorf("annotation %s of %s names VolumeSnapshotClass %s, which does not exist; want one for "+
				"driver %s", given.annotation, given.where, given.name, driver)
		case !strings.EqualFold(classes[i].Driver, driver):
			return "", fmt.Errorf("annotation %s of %s names VolumeSnapshotClass %s, which is for driver %s; want one for "+
				"driver %s",
				given.annotation, given.where, classes[i].Name, classes[i].Driver, driver)
		}
		return classes[i].Name, nil
	}
	own := slices.DeleteFunc(slices.Clone(classes),
		func(c snapshotv1.VolumeSnapshotClass) bool { return c.Driver != driver })
	for _, chosen := range []func(snapshotv1.VolumeSnapshotClass) bool{
		func(c snapshotv1.VolumeSnapshotClass) bool {
			_, ok := c.Labels[velerov1.VolumeSnapshotClassKey]
			return ok
		},
		func(c snapshotv1.VolumeSnapshotClass) bool { _, ok := c.Annotations[defaultClass]; return ok },
		func(snapshotv1.VolumeSnapshotClass) bool { return len(own) == 1 },
	} {
		if i := slices.IndexFunc(own, chosen); i >= 0 {
			return own[i].Name, nil
		}
	}
	if len(own) == 0 {
		return "", fmt.Errorf("there is no VolumeSnapshotClass for driver %s; create one, or leave the volume out by a "+
			"volume policy or snapshotVolumes=false", driver)
	}
	return "", fmt.Errorf("none of the %d VolumeSnapshotClasses for driver %s is chosen; give one of them the label "+
		"%s=true or the annotation %s=true",
		len(own), driver, velerov1.VolumeSnapshotClassKey, defaultClass)
}
