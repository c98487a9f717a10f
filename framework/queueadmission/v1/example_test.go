package v1_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// paused admits backups in their order, except those with an annotation.
type paused struct{}

func (paused) Decide(_ context.Context, input *qav1.DecideInput) (*qav1.DecideOutput, error) {
	output, free := &qav1.DecideOutput{}, input.Free()
	for _, backup := range input.Queued {
		switch {
		case backup.Annotations["example.io/paused"] == "true":
			output.Waits = append(output.Waits, qav1.Wait{Name: backup.Name, Reason: "Paused",
				Message: "the annotation example.io/paused holds it"})
		case free == 0:
			output.Waits = append(output.Waits, qav1.Wait{Name: backup.Name, Reason: "Limit",
				Message: "as many backups run as may"})
		default:
			output.Admit, free = append(output.Admit, backup.Name), free-1
		}
	}
	return output, nil
}

func newPaused(context.Context, *framework.Setup) (qav1.QueueAdmission, error) { return paused{}, nil }

func Example() {
	registration := qav1.Register("example.io/paused", newPaused)
	fmt.Println(registration.Kind(), registration.Name())

	held := map[string]string{"example.io/paused": "true"}
	output, err := paused{}.Decide(context.TODO(), &qav1.DecideInput{
		Limit: 1, Queued: []qav1.Backup{{Name: "a", Annotations: held}, {Name: "b"}, {Name: "c"}},
	})
	fmt.Println(output.Admit, output.Waits[0].Reason, output.Waits[1].Reason, err)
	// Output:
	// QueueAdmission example.io/paused
	// [b] Paused Limit <nil>
}

// byPriority admits the backups of urgent namespaces before all others.
type byPriority struct{}

func (byPriority) Decide(_ context.Context, input *qav1.DecideInput) (*qav1.DecideOutput, error) {
	urgent := func(b *qav1.Backup) bool {
		return slices.ContainsFunc(b.Namespaces, func(name string) bool {
			return input.NamespaceLabels[name]["example.io/priority"] == "high"
		})
	}
	output, free := &qav1.DecideOutput{}, input.Free()
	for _, first := range []bool{true, false} {
		for i := range input.Queued {
			switch b := &input.Queued[i]; {
			case urgent(b) != first:
			case free > 0:
				output.Admit, free = append(output.Admit, b.Name), free-1
			default:
				output.Order = append(output.Order, b.Name)
				output.Waits = append(output.Waits, qav1.Wait{Name: b.Name, Reason: "Limit",
					Message: "as many backups run as may"})
			}
		}
	}
	return output, nil
}

// The labels of namespaces decide which backup is first.
func ExampleDecideInput_namespaceLabels() {
	output, err := byPriority{}.Decide(context.TODO(), &qav1.DecideInput{
		Limit: 1, Queued: []qav1.Backup{{Name: "a", Namespaces: []string{"blog"}}, {Name: "b", Namespaces: []string{"shop"}}},
		NamespaceLabels: map[string]map[string]string{"shop": {"example.io/priority": "high"}},
	})
	fmt.Println(output.Admit, output.Order, err)
	// Output:
	// [b] [a] <nil>
}
