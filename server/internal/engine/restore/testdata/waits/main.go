// Command waits is a plugin with actions that need other items to be restored first. The item's annotations select the
// behavior of the action of version 2:
//
//	needs     names of the additional items, separated by commas: config maps of the same namespace
//	timeout   additionalItemsReadyTimeout
//
// The name of the restore, or its beginning, selects the reply to the question whether these are ready:
//
//	at-once-  yes
//	error     an error
//	all-N     yes, once it has been asked about N different first items
//	others    yes, if the file "ready-<restore>" is in the directory $CLEAT_TEST_DIR
//
// Each question is a line in the file "asked-<restore>" of that directory: process ID, and names.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

func main() {
	framework.Serve(
		riav1.Register("example.io/needs", func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
			return needs{}, nil
		}),
		riav2.Register("example.io/waits", func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
			return &waits{asked: map[string]map[string]bool{}}, nil
		}),
	)
}

// needed returns the items that an item needs.
func needed(item *unstructured.Unstructured) []framework.ResourceIdentifier {
	var items []framework.ResourceIdentifier
	for name := range strings.SplitSeq(item.GetAnnotations()["needs"], ",") {
		if name != "" {
			items = append(items, framework.ResourceIdentifier{Resource: "configmaps", Namespace: item.GetNamespace(),
				Name: name})
		}
	}
	return items
}

// needs is an action of version 1.
type needs struct{}

func (needs) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{LabelSelector: "version=1"}, nil
}

func (needs) Execute(_ context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	return riav1.NewExecuteOutput(nil).WithItems(needed(input.ItemFromBackup)...), nil
}

// waits is an action of version 2.
type waits struct {
	riav2.ExecuteOnly
	mu    sync.Mutex
	asked map[string]map[string]bool // by restore: the first items of the questions
}

func (*waits) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{LabelSelector: "version=2"}, nil
}

func (*waits) Execute(_ context.Context, input *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	timeout, _ := time.ParseDuration(input.ItemFromBackup.GetAnnotations()["timeout"])
	return riav2.NewExecuteOutput(nil).WithItems(needed(input.ItemFromBackup)...).WithItemsWaitFor(timeout), nil
}

func (w *waits) AreAdditionalItemsReady(
	_ context.Context, input *riav2.AreAdditionalItemsReadyInput,
) (*riav2.AreAdditionalItemsReadyOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	restore := input.Restore.Name
	var names []string
	for _, item := range input.AdditionalItems {
		names = append(names, item.Name)
	}
	if err := note(restore, names); err != nil {
		return nil, err
	}
	if w.asked[restore] == nil {
		w.asked[restore] = map[string]bool{}
	}
	if len(names) > 0 {
		w.asked[restore][names[0]] = true
	}
	var all int
	switch n, _ := fmt.Sscanf(restore, "all-%d", &all); {
	case n == 1:
		return &riav2.AreAdditionalItemsReadyOutput{Ready: len(w.asked[restore]) >= all}, nil
	case restore == "error":
		return nil, errors.New("no idea")
	}
	_, err := os.Stat(filepath.Join(os.Getenv("CLEAT_TEST_DIR"), "ready-"+restore))
	return &riav2.AreAdditionalItemsReadyOutput{Ready: err == nil || strings.HasPrefix(restore, "at-once-")}, nil
}

// note records a question to the action.
func note(restore string, names []string) error {
	file, err := os.OpenFile(filepath.Join(os.Getenv("CLEAT_TEST_DIR"), "asked-"+restore),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%d %s\n", os.Getpid(), strings.Join(names, ","))
	return err
}
