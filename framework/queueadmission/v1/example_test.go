package v1_test

import (
	"context"
	"fmt"

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
