package rehearsals

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
)

const (
	// isDefaultClass marks the class of claims without one.
	isDefaultClass = "storageclass.kubernetes.io/is-default-class"
	// noProvisioner is the provisioner of a class whose volumes people make.
	noProvisioner = "kubernetes.io/no-provisioner"
)

// copyClasses makes the storage classes of a rehearsal: copies of those that provision volumes. Kubernetes binds a
// claim to a volume that was there before if that has its class.
func (r *Controller) copyClasses(ctx context.Context, restore *velerov1.Restore) error {
	var list storagev1.StorageClassList
	if err := r.Live.List(ctx, &list); err != nil {
		return fmt.Errorf("list the storage classes: %w", err)
	}
	for i := range list.Items {
		class := &list.Items[i]
		if class.Provisioner == noProvisioner || class.Labels[velerov1.RehearsalLabel] != "" {
			continue
		}
		names := []string{enclosure.ClassName(string(restore.UID), class.Name)}
		if class.Annotations[isDefaultClass] == "true" {
			names = append(names, enclosure.ClassName(string(restore.UID), ""))
		}
		for _, name := range names {
			made := class.DeepCopy()
			made.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: map[string]string{
				velerov1.RehearsalLabel: string(restore.UID), installationLabel: r.Namespace}}
			made.ReclaimPolicy = new(corev1.PersistentVolumeReclaimDelete)
			if err := r.Create(ctx, made); client.IgnoreAlreadyExists(err) != nil {
				return fmt.Errorf("create storage class %s of the rehearsal: %w", name, err)
			}
		}
	}
	return nil
}

// classesOf lists the storage classes of the rehearsals of a server.
func classesOf(ctx context.Context, live client.Reader, server string) ([]storagev1.StorageClass, error) {
	var list storagev1.StorageClassList
	err := live.List(ctx, &list, client.MatchingLabels{installationLabel: server},
		client.HasLabels{velerov1.RehearsalLabel})
	if err != nil {
		return nil, fmt.Errorf("list the storage classes of rehearsals: %w", err)
	}
	return list.Items, nil
}

// dropClasses deletes the storage classes of rehearsals whose UIDs are gone. Their names tell whose they are: a label
// alone does not.
func dropClasses(
	ctx context.Context, c client.Client, classes []storagev1.StorageClass, isGone func(uid string) bool,
) error {
	for i := range classes {
		class := &classes[i]
		uid := class.Labels[velerov1.RehearsalLabel]
		if !isGone(uid) || !strings.HasPrefix(class.Name, enclosure.ClassPrefix(uid)) {
			continue
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, class, client.Preconditions{UID: new(class.UID)})); err != nil {
			return fmt.Errorf("delete storage class %s of a rehearsal: %w", class.Name, err)
		}
	}
	return nil
}
