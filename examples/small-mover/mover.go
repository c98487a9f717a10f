package main

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	"github.com/cleat-dev/cleat/framework/operations"
)

// copyAnnotation is the annotation of a claim that names the copy of its data. It is in the backup only.
const copyAnnotation = "example.cleat.dev/small-mover-copy"

// config is the configuration of the plugin.
type config struct {
	Volumes  string `json:"volumes" jsonschema:"the directory with the data of claims, in NAMESPACE/CLAIM"`
	Copies   string `json:"copies" jsonschema:"the directory of the copies"`
	Selector string `json:"selector,omitempty" jsonschema:"the label selector of the claims whose data is copied; empty for all"`
}

// mover has the parts that both actions share. The runner stores the state of operations in a directory, where the
// next process of the plugin finds it, and repeats interrupted work.
type mover struct {
	config config
	name   string // of the runner
	runner *operations.Runner[tree]
}

func newMover(setup *framework.Setup, direction string) (mover, error) {
	dir, err := setup.StateDir()
	if err != nil {
		return mover{}, err
	}
	store, err := operations.OpenDir(dir)
	if err != nil {
		return mover{}, err
	}
	name := setup.Name() + "/" + direction
	runner := operations.NewRunner(name, store, copyTree, operations.WithResume(), operations.WithConcurrency(4))
	return mover{config: framework.Config[config](setup), name: name, runner: runner}, nil
}

// AppliesTo implements both actions.
func (m mover) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"},
		LabelSelector: m.config.Selector}, nil
}

// backup copies the data of a claim while the backup continues.
type backup struct{ mover }

func newBackup(_ context.Context, setup *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	m, err := newMover(setup, "backup")
	return backup{m}, err
}

// Start implements abiav1.AsyncBackupItemAction. The copy is named after the operation, whose ID follows from the key;
// the claim in the backup names the copy.
func (b backup) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	claim, name := input.Item, operations.ID(b.name, input.Key)
	from, err := below(b.config.Volumes, claim.GetNamespace(), claim.GetName())
	if err != nil {
		return nil, err
	}
	id, err := b.runner.Start(ctx, input.Key, tree{From: from, To: filepath.Join(b.config.Copies, name), Replace: true})
	if err != nil {
		return nil, err
	}
	return abiav1.NewStartOutput(annotated(claim, name)).WithOperation(id), nil
}

// Progress implements abiav1.AsyncBackupItemAction.
func (b backup) Progress(ctx context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return b.runner.Progress(ctx, input.OperationID)
}

// Cancel implements abiav1.AsyncBackupItemAction.
func (b backup) Cancel(ctx context.Context, input *abiav1.CancelInput) error {
	return b.runner.Cancel(ctx, input.OperationID)
}

// restore copies the data back while the restore continues.
type restore struct{ mover }

func newRestore(_ context.Context, setup *framework.Setup) (ariav1.AsyncRestoreItemAction, error) {
	m, err := newMover(setup, "restore")
	return restore{m}, err
}

// Start implements ariav1.AsyncRestoreItemAction. It is called before the claim is created. The namespace of Item is
// the target namespace; ItemFromBackup has the annotation. A claim without it has no copy, so nothing is started.
func (r restore) Start(ctx context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	claim, name := input.Item, input.ItemFromBackup.GetAnnotations()[copyAnnotation]
	if name == "" {
		return nil, nil
	}
	from, err := below(r.config.Copies, name)
	if err != nil {
		return nil, err
	}
	to, err := below(r.config.Volumes, claim.GetNamespace(), claim.GetName())
	if err != nil {
		return nil, err
	}
	id, err := r.runner.Start(ctx, input.Key, tree{From: from, To: to})
	if err != nil {
		return nil, err
	}
	return ariav1.NewStartOutput(annotated(claim, "")).WithOperation(id), nil
}

// Progress implements ariav1.AsyncRestoreItemAction.
func (r restore) Progress(ctx context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	return r.runner.Progress(ctx, input.OperationID)
}

// Cancel implements ariav1.AsyncRestoreItemAction.
func (r restore) Cancel(ctx context.Context, input *ariav1.CancelInput) error {
	return r.runner.Cancel(ctx, input.OperationID)
}

// below returns the path of names below root. The names come from items, so each must be a valid name in Kubernetes,
// which has no slash and is not "..".
func below(root string, names ...string) (string, error) {
	path := root
	for _, name := range names {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return "", framework.Invalid("%q cannot be the name of a directory in %s: %s", name, root, problems[0])
		}
		path = filepath.Join(path, name)
	}
	return path, nil
}

// annotated returns the claim with the annotation that names its copy, or without one if name is empty.
func annotated(claim *unstructured.Unstructured, name string) *unstructured.Unstructured {
	annotations := claim.GetAnnotations()
	if name == "" {
		delete(annotations, copyAnnotation)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[copyAnnotation] = name
	}
	claim.SetAnnotations(annotations)
	return claim
}

// tree is the input of the work. It is stored, so that the next process of the plugin can repeat the work.
type tree struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Replace replaces existing files that differ. Without it they are an error, and are not changed.
	Replace bool `json:"replace,omitempty"`
}

func (t tree) String() string { return fmt.Sprintf("%s to %s", t.From, t.To) }
