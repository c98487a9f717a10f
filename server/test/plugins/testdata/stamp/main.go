// Command stamp is a plugin that adds its version to the ConfigMaps that it gets. The version is at the end of its
// file, so a copy with another ending is another version.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// ending is the end of the file, after a line "stamp:".
type ending struct {
	Version string
	// Dir is the directory in which the plugin records the operations. A file "go" in it releases the operations that
	// wait at the ConfigMap "item-a".
	Dir string
}

func main() {
	e, err := readEnding()
	if err != nil {
		hclog.Default().Error("cannot read the end of the file", "error", err)
		os.Exit(1)
	}
	framework.Serve(
		framework.WithVersion(e.Version),
		biav2.Register("example.io/stamp", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return backups{ending: e}, nil
		}),
		riav1.Register("example.io/stamp", func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return restores{e}, nil
		}),
	)
}

func readEnding() (e ending, err error) {
	file, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return ending{}, err
	}
	at := bytes.LastIndex(file, []byte("\nstamp:"))
	if at < 0 {
		return ending{}, errors.New("there is none")
	}
	return e, json.Unmarshal(file[at+len("\nstamp:"):], &e)
}

// stamp labels the item, after it has recorded the operation and waited if necessary.
func (e ending) stamp(ctx context.Context, item *unstructured.Unstructured, label, operation string) error {
	if item.GetName() == "item-a" {
		if err := os.WriteFile(filepath.Join(e.Dir, operation+"-"+e.Version), nil, 0o600); err != nil {
			return err
		}
		for {
			_, err := os.Stat(filepath.Join(e.Dir, "go"))
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	labels := item.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[label] = e.Version
	item.SetLabels(labels)
	return nil
}

type backups struct {
	biav2.ExecuteOnly
	ending
}

func (backups) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (b backups) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	if err := b.stamp(ctx, input.Item, "backed-up-by", input.Backup.Name); err != nil {
		return nil, err
	}
	return biav2.NewExecuteOutput(input.Item), nil
}

type restores struct{ ending }

func (restores) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

func (r restores) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	if err := r.stamp(ctx, input.Item, "restored-by", input.Restore.Name); err != nil {
		return nil, err
	}
	return riav1.NewExecuteOutput(input.Item), nil
}
