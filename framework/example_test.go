package framework_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
)

// settings is the configuration of the action.
type settings struct {
	Zone   string `json:"zone" jsonschema:"the time zone of the stamp, as in Europe/Berlin"`
	Prefix string `json:"prefix,omitempty" jsonschema:"the prefix of the annotation"`
}

// Validate checks what the schema cannot.
func (s settings) Validate() error {
	_, err := time.LoadLocation(s.Zone)
	return framework.InvalidKey("zone", err)
}

// stamp annotates items with the time of their backup.
type stamp struct {
	biav2.ExecuteOnly
	zone   *time.Location
	prefix string
}

func newStamp(_ context.Context, setup *framework.Setup) (biav2.BackupItemAction, error) {
	config := framework.Config[settings](setup)
	zone, err := time.LoadLocation(config.Zone)
	if err != nil {
		return nil, err
	}
	setup.Logger().Debug("ready", "zone", zone)
	return &stamp{zone: zone, prefix: config.Prefix}, nil
}

func (s *stamp) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"secrets"}}, nil
}

func (s *stamp) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	if input.Backup.Status.StartTimestamp == nil {
		return nil, framework.Invalid("backup %s has no start time", input.Backup.Name)
	}
	started := input.Backup.Status.StartTimestamp.In(s.zone).Format(time.RFC3339)
	framework.Log(ctx).Info("stamping", "name", input.Item.GetName(), "time", started)
	annotate(input.Item, s.prefix+"stamp", started)
	return biav2.NewExecuteOutput(input.Item), nil
}

func annotate(item *unstructured.Unstructured, key, value string) {
	annotations := item.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	item.SetAnnotations(annotations)
}

// The main function of a plugin lists its registrations.
func ExampleServe() {
	framework.Serve(
		biav2.Register("example.io/stamp", newStamp, framework.WithConfig(settings{Zone: "UTC", Prefix: "example.io/"})),
		framework.WithVersion("1.2.0"),
	)
}

func ExampleInvalidKey() {
	fmt.Println(settings{Zone: "Mars/Base"}.Validate())
	fmt.Println(settings{Zone: "UTC"}.Validate())
	// Output:
	// zone: unknown time zone Mars/Base
	// <nil>
}

func ExampleNotFound() {
	err := fmt.Errorf("progress: %w", framework.NotFound("there is no operation %q", "copy-17"))
	fmt.Println(err, errors.Is(err, framework.ErrNotFound))
	// Output: progress: there is no operation "copy-17" true
}
