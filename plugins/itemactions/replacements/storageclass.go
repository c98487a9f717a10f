package replacements

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/perrun"
)

// StorageClassName is the name of the action that NewStorageClass returns.
const StorageClassName = "velero.io/change-storage-class"

// ClassExists reports whether the cluster has a StorageClass.
type ClassExists func(ctx context.Context, name string) (bool, error)

// NewStorageClass returns velero.io/change-storage-class. The keys of its ConfigMap are the names of StorageClasses in
// the backup, the values the names that PersistentVolumes, their claims and the claim templates of StatefulSets get
// instead. An object whose new class does not exist is not restored.
func NewStorageClass(read ReadSettings, exists ClassExists) (riav1.RestoreItemAction, error) {
	return &storageClass{classes: settings{action: StorageClassName, read: read}, exists: exists}, nil
}

type storageClass struct {
	classes settings
	exists  ClassExists
	known   perrun.Memo[bool]
}

func (*storageClass) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims", "persistentvolumes",
		"statefulsets"}}, nil
}

func (a *storageClass) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	classes, err := a.classes.of(ctx, input.Restore)
	if err != nil || len(classes) == 0 {
		return nil, err
	}
	users := []map[string]any{input.Item.Object}
	inTemplates := input.Item.GetKind() == "StatefulSet"
	if inTemplates {
		if users, err = field.Objects(input.Item.Object, "spec", "volumeClaimTemplates"); err != nil {
			return nil, err
		}
	}
	changed := false
	for i, user := range users {
		replaced, err := a.replace(ctx, input.Restore, classes, user)
		if inTemplates {
			err = field.In("spec.volumeClaimTemplates", i, err)
		}
		if err != nil {
			return nil, err
		}
		changed = changed || replaced
	}
	if !changed {
		return nil, nil
	}
	return riav1.NewExecuteOutput(input.Item), nil
}

// replace replaces spec.storageClassName of an object and reports whether it has.
func (a *storageClass) replace(
	ctx context.Context, restore *velerov1.Restore, classes map[string]string, user map[string]any,
) (bool, error) {
	old, err := field.Text(user, "spec", "storageClassName")
	if err != nil || old == "" {
		return false, err
	}
	replacement, mapped := classes[old]
	if !mapped {
		return false, nil
	}
	exists, err := a.known.Get(ctx, keyOf(restore)+"/"+replacement, func(ctx context.Context) (bool, error) {
		return a.exists(ctx, replacement)
	})
	if err != nil {
		return false, framework.WithStack(fmt.Errorf("spec.storageClassName: whether storage class %q exists: %w",
			replacement, err))
	}
	if !exists {
		return false, framework.Errorf("spec.storageClassName: the ConfigMap of %s replaces %q by %q, which does not exist "+
			"in the cluster; create it, or name another",
			StorageClassName, old, replacement)
	}
	spec, err := field.Object(user, "spec")
	if err != nil {
		return false, err
	}
	spec["storageClassName"] = replacement
	framework.Log(ctx).Debug("replaced a storage class", "from", old, "to", replacement)
	return true, nil
}
