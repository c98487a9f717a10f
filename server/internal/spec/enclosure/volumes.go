package enclosure

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// claimFields are those of the spec of a claim.
var claimFields = fieldsOf("accessModes", "resources", "volumeName", "storageClassName", "volumeMode",
	"volumeAttributesClassName", "selector").with(fields{"dataSource": sourceFields, "dataSourceRef": sourceFields})

// sourceFields leave out the namespace.
var sourceFields = fieldsOf("apiGroup", "kind", "name")

// claimTemplateFields are those of a template of claims.
var claimTemplateFields = fields{"apiVersion": nil, "kind": nil, "metadata": templateMetadata, "spec": claimFields}

// betaClass is an annotation of a claim and of a volume that names its storage class, with precedence.
const betaClass = "volume.beta.kubernetes.io/storage-class"

// claim keeps a claim, or a template of claims, from volumes that are not made for it. Its storage class becomes one of
// the rehearsal, which no volume has that was there before.
func (c *changing) claim(claim object) {
	spec := below(claim, "spec")
	if spec == nil {
		return
	}
	annotations := below(claim, "metadata", "annotations")
	if class, ok := annotations[betaClass].(string); ok {
		spec["storageClassName"] = class
	}
	delete(annotations, betaClass)
	c.class(spec)
	if name, _ := spec["volumeName"].(string); name != "" && (!c.item.Last || !c.isOwnVolume(name)) {
		delete(spec, "volumeName")
		c.changed("with a new volume")
	}
	if !isZero(spec["selector"]) && !c.isMovedTo(spec["selector"]) {
		delete(spec, "selector")
		c.changed("without its selector of volumes")
	}
	for _, field := range []string{"dataSource", "dataSourceRef"} {
		source := below(spec, field)
		if source == nil {
			continue
		}
		if source["kind"] != "VolumeSnapshot" || source["apiGroup"] != snapshots.Group {
			delete(spec, field)
			c.changed("without its %s, which is not a restored snapshot", field)
		}
	}
}

// isMovedTo reports whether a selector waits for the volume into which data is moved for a claim of the enclosure.
func (c *changing) isMovedTo(selector any) bool {
	o, _ := selector.(object)
	labels := below(o, "matchLabels")
	value, _ := labels[velerov1.DynamicPVRestoreLabel].(string)
	return len(o) == 1 && len(labels) == 1 && strings.HasPrefix(value, c.item.Namespace+".")
}

// isOwnVolume reports whether a persistent volume has a name that only the restore of the rehearsal gives.
func (c *changing) isOwnVolume(name string) bool {
	return strings.HasPrefix(name, VolumePrefix(c.rules.Restore))
}

// class makes the storage class in a spec one of the rehearsal. Without a class, it is the default one.
func (c *changing) class(spec object) {
	class, named := spec["storageClassName"].(string)
	if strings.HasPrefix(class, ClassPrefix(c.rules.Restore)) { // by an earlier decision
		return
	}
	if named && class == "" {
		class = noClass
	}
	spec["storageClassName"] = ClassName(c.rules.Restore, class)
}

// noClass stands for the class without a name, whose volumes people make: there is no copy of it.
const noClass = "no.class"

// ClassPrefix returns how the names of the storage classes of a rehearsal begin, by the UID of its Restore.
func ClassPrefix(restore string) string { return "rehearsal-" + digest(restore+"/classes") }

// ClassName returns the name of the copy of a storage class that a rehearsal has, and "" stands for the default one.
func ClassName(restore, class string) string {
	const longest = 200
	switch {
	case class == "":
		return ClassPrefix(restore)
	case len(class) > longest:
		class = class[:longest] + digest(class)
	}
	return ClassPrefix(restore) + "." + class
}

// VolumePrefix returns how the names of the persistent volumes begin that a rehearsal makes of snapshots.
func VolumePrefix(restore string) string { return "rehearsal-" + digest(restore+"/volumes") + "-" }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}

// volumeFields are those of a persistent volume: of sources, those that are a new disk.
var volumeFields = fieldsOf("capacity", "accessModes", "persistentVolumeReclaimPolicy", "storageClassName",
	"volumeMode", "nodeAffinity", "mountOptions").with(fields{
	"claimRef":             fieldsOf("apiVersion", "kind", "namespace", "name"),
	"csi":                  fieldsOf("driver", "volumeHandle", "fsType", "readOnly", "volumeAttributes"),
	"awsElasticBlockStore": nil, "azureDisk": nil, "cinder": nil, "gcePersistentDisk": nil, "vsphereVolume": nil,
})

// volume keeps a persistent volume that is made of a snapshot, for its claim in the enclosure.
func (c *changing) volume() {
	spec, ref := below(c.object, "spec"), below(c.object, "spec", "claimRef")
	name, _ := below(c.object, "metadata")["name"].(string)
	switch {
	case !c.item.HasSnapshot:
		c.leaveOut("it is the disk of the workload that is backed up; its claim gets a new volume")
	case isZero(ref["name"]) || isZero(ref["namespace"]):
		c.leaveOut("it is bound to no claim, so that any could get it")
	case !c.item.Last:
	case !c.isInside(ref["namespace"]):
		c.leaveOut("its claim is outside of the rehearsal")
	case !c.isOwnVolume(name):
		c.leaveOut("it is not a volume that was made for the rehearsal")
	default:
		if class, ok := spec["storageClassName"].(string); !ok || class == "" {
			spec["storageClassName"] = ""
		}
		c.class(spec)
		spec["persistentVolumeReclaimPolicy"] = "Delete"
	}
}

// isOfRestore reports whether an action has made the item for the restore of the rehearsal.
func (c *changing) isOfRestore() bool {
	return c.rules.Restore != "" &&
		below(c.object, "metadata", "labels")[velerov1.RestoreUIDLabel] == c.rules.Restore
}

// snapshot keeps a snapshot that an action has bound to the content that it restores.
func (c *changing) snapshot() {
	name := below(c.object, "metadata")["name"]
	if c.item.Last && (!c.isOfRestore() || below(c.object, "spec", "source")["volumeSnapshotContentName"] != name) {
		c.try("it is not a snapshot that the rehearsal restores")
	}
}

// content keeps the content of a restored snapshot, which the storage system keeps when the content is deleted.
func (c *changing) content() {
	spec, ref := below(c.object, "spec"), below(c.object, "spec", "volumeSnapshotRef")
	name := below(c.object, "metadata")["name"]
	if c.item.Last && (!c.isOfRestore() || spec["deletionPolicy"] != "Retain" || !c.isInside(ref["namespace"]) ||
		ref["name"] != name) {
		c.try("it is cluster-scoped")
	}
}
