// Command worker is a plugin whose operations are in the directory that $WORK_DIR names, like those of a vendor's
// controller in custom resources: every process of the plugin finds them, and they continue by themselves. The
// behavior of an operation is in annotations of its item, "work/length", which is "held" or a duration, "work/logs"
// and "work/as". Each start, cancellation and end is recorded.
package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

func main() {
	framework.Serve(
		registerBackups("worker", "keyed"),
		registerRestores("worker", "keyed"),
		registerBackups("limited", "limited", framework.WithOperationTimeout(3*time.Second)),
		registerRestores("limited", "limited", framework.WithOperationTimeout(3*time.Second)),
		registerBackups("stalling", "stalling", framework.WithOperationTimeout(time.Hour),
			framework.WithStallTimeout(2*time.Second)),
		registerRestores("stalling", "stalling", framework.WithOperationTimeout(time.Hour),
			framework.WithStallTimeout(2*time.Second)),
		biav2.Register("example.io/keyless", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return keyless{}, nil
		}),
		riav2.Register("example.io/keyless", func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
			return keylessRestores{}, nil
		}),
	)
}

func registerBackups(name, worker string, options ...framework.Option) framework.Registration {
	return abiav1.Register("example.io/"+name, func(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction,
		error) {
		return backups{worker}, nil
	}, options...)
}

func registerRestores(name, worker string, options ...framework.Option) framework.Registration {
	return ariav1.Register("example.io/"+name, func(context.Context, *framework.Setup) (ariav1.AsyncRestoreItemAction,
		error) {
		return restores{worker}, nil
	}, options...)
}

func selector(worker string) framework.ResourceSelector {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}, LabelSelector: "worker=" + worker}
}

type backups struct{ worker string }

func (b backups) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return selector(b.worker), nil
}

func (backups) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	id, err := start(ctx, "backup", input.Key, input.Item)
	if err != nil || id == "" {
		return nil, err
	}
	return abiav1.NewStartOutput(input.Item).WithOperation(id, after(input.Item)...), nil
}

func (backups) Progress(ctx context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return progress(ctx, input.OperationID)
}

func (backups) Cancel(ctx context.Context, input *abiav1.CancelInput) error {
	return cancel(ctx, input.OperationID)
}

type restores struct{ worker string }

func (r restores) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return selector(r.worker), nil
}

func (restores) Start(ctx context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	id, err := start(ctx, "restore", input.Key, input.Item)
	if err != nil || id == "" {
		return nil, err
	}
	return ariav1.NewStartOutput(input.Item).WithOperation(id), nil
}

func (restores) Progress(ctx context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	return progress(ctx, input.OperationID)
}

func (restores) Cancel(ctx context.Context, input *ariav1.CancelInput) error {
	return cancel(ctx, input.OperationID)
}

type keyless struct{}

func (keyless) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return selector("keyless"), nil
}

func (keyless) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	id, err := start(ctx, "backup", "", input.Item)
	if err != nil || id == "" {
		return nil, err
	}
	return &biav2.ExecuteOutput{UpdatedItem: input.Item, OperationID: id, PostOperationItems: after(input.Item)}, nil
}

func (keyless) Progress(ctx context.Context, input *biav2.ProgressInput) (framework.OperationProgress, error) {
	return progress(ctx, input.OperationID)
}

func (keyless) Cancel(ctx context.Context, input *biav2.CancelInput) error {
	return cancel(ctx, input.OperationID)
}

type keylessRestores struct{}

func (keylessRestores) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return selector("keyless"), nil
}

func (keylessRestores) Execute(ctx context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	id, err := start(ctx, "restore", "", input.Item)
	if err != nil || id == "" {
		return nil, err
	}
	return &riav2.ExecuteOutput{UpdatedItem: input.Item, OperationID: id}, nil
}

func (keylessRestores) Progress(ctx context.Context, input *riav2.ProgressInput) (framework.OperationProgress, error) {
	return progress(ctx, input.OperationID)
}

func (keylessRestores) Cancel(ctx context.Context, input *riav2.CancelInput) error {
	return cancel(ctx, input.OperationID)
}

func (keylessRestores) AreAdditionalItemsReady(
	context.Context, *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	return &riav2.AreAdditionalItemsReadyOutput{Ready: true}, nil
}

// after returns the items to back up again at the end: the secret that the annotation "work/after" names.
func after(item *unstructured.Unstructured) []framework.ResourceIdentifier {
	name := item.GetAnnotations()["work/after"]
	if name == "" {
		return nil
	}
	return []framework.ResourceIdentifier{{Resource: "secrets", Namespace: item.GetNamespace(), Name: name}}
}
