package csidriver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// StorageClass is the name of the class of the driver's volumes.
const StorageClass = "directories"

// Install installs the definitions of snapshots and the driver in a cluster, and starts the controllers. The driver
// listens on the CSISocket of the cluster's options. The scheme of c must have the types of apiextensions.k8s.io and
// storage.k8s.io.
func Install(ctx context.Context, cluster *controlplane.Cluster, c client.Client) error {
	objects, err := definitions(ctx)
	if err != nil {
		return err
	}
	attach := false
	objects = append(objects,
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: Name},
			Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: StorageClass}, Provisioner: Name},
	)
	for _, object := range objects {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("install the CSI driver: %w", err)
		}
	}
	for _, component := range []string{controlplane.SnapshotController, controlplane.CSISnapshotter,
		controlplane.CSIProvisioner} {
		if err := cluster.Do(ctx, "start", component); err != nil {
			return err
		}
	}
	return nil
}

// definitions reads the definitions of snapshots from the module with their types.
func definitions(ctx context.Context) ([]client.Object, error) {
	const module = "github.com/kubernetes-csi/external-snapshotter/client/v8"
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return nil, fmt.Errorf("where the module %s is: %w", module, err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "*storage.k8s.io_*.yaml"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("the module %s has no definitions", module)
	}
	var all []client.Object
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		definition := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.Unmarshal(text, definition); err != nil {
			return nil, fmt.Errorf("decode %s: %w", path, err)
		}
		all = append(all, definition)
	}
	return all, err
}
