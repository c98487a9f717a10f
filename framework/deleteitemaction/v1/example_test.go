package v1_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
)

// forget removes the copy that a backup has left in a directory.
type forget struct{ dir string }

func (f forget) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (f forget) Execute(_ context.Context, input *diav1.ExecuteInput) error {
	err := os.Remove(filepath.Join(f.dir, input.Backup.Name+"-"+input.Item.GetName()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an interrupted deletion is repeated
	}
	return err
}

func newForget(_ context.Context, setup *framework.Setup) (diav1.DeleteItemAction, error) {
	dir, err := setup.StateDir()
	return forget{dir: dir}, err
}

func Example() {
	registration := diav1.Register("example.io/forget", newForget)
	fmt.Println(registration.Kind(), registration.Name())

	item := &unstructured.Unstructured{Object: map[string]any{}}
	item.SetName("settings")
	fmt.Println(forget{dir: os.TempDir()}.Execute(context.TODO(),
		&diav1.ExecuteInput{Item: item, Backup: &velerov1.Backup{}}))
	// Output:
	// DeleteItemAction example.io/forget
	// <nil>
}
