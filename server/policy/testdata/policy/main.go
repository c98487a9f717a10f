// Command policy is a plugin of all kinds that decide or describe. What it does in a call is chosen by its config.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	loadsoothing "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	manifestwriter "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	queueadmission "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

func main() {
	schema := `{"type": "object", "additionalProperties": false, "properties": {"do": {"type": "string"}}}`
	if other, err := os.ReadFile(os.Getenv("CLEAT_TEST_SCHEMA")); err == nil {
		schema = string(other)
	}
	withSchema := framework.WithConfigSchema(schema)
	newWriter := func(log hclog.Logger) (manifestwriter.ManifestWriter, error) { return policy{log}, nil }
	framework.Serve(
		queueadmission.Register("example.io/policy", func(log hclog.Logger) (queueadmission.QueueAdmission, error) {
			return policy{log}, nil
		}, withSchema),
		loadsoothing.Register("example.io/policy", func(log hclog.Logger) (loadsoothing.LoadSoothing, error) {
			return policy{log}, nil
		}, withSchema),
		manifestwriter.Register("example.io/policy", newWriter, withSchema),
		manifestwriter.Register("example.io/second", newWriter, withSchema),
	)
}

type config struct {
	Do string `json:"do"`
}

type policy struct{ log hclog.Logger }

// do does what the config says, and tells what is left to do.
func do(raw []byte) (string, error) {
	configured, err := framework.DecodeConfig[config](raw)
	if err != nil {
		return "", err
	}
	switch configured.Do {
	case "hang":
		time.Sleep(time.Hour)
	case "die":
		fmt.Fprintln(os.Stderr, "no way out")
		os.Exit(3)
	case "fail":
		return "", errors.New("the calendar cannot be reached")
	}
	return configured.Do, nil
}

// Decide admits the last in the queue.
func (policy) Decide(_ context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
	what, err := do(snapshot.Config)
	if err != nil {
		return nil, err
	}
	if what == "answer wrong" {
		return &queueadmission.Decision{Admit: []string{"stranger"}}, nil
	}
	last := len(snapshot.Queued) - 1
	decision := &queueadmission.Decision{Admit: []string{snapshot.Queued[last].Name}}
	for _, waiting := range snapshot.Queued[:last] {
		decision.Waits = append(decision.Waits, queueadmission.Wait{Name: waiting.Name, Reason: "NotLast", Message: "the last is the first"})
	}
	return decision, nil
}

// Admit lets no load begin.
func (policy) Admit(_ context.Context, request *loadsoothing.Request) (*loadsoothing.Decision, error) {
	what, err := do(request.Config)
	if err != nil {
		return nil, err
	}
	if what == "answer wrong" {
		return &loadsoothing.Decision{}, nil // without a reason
	}
	return &loadsoothing.Decision{Reason: "never"}, nil
}

// Write counts the items.
func (p policy) Write(_ context.Context, input *manifestwriter.Input, output manifestwriter.Output) error {
	count := 0
	for _, err := range input.Items {
		if err != nil {
			return err
		}
		count++
	}
	p.log.Info("seen all items", "count", count)
	artifact := "count.txt"
	what, err := do(input.Config)
	switch {
	case err != nil:
		return err
	case what == "answer wrong":
		artifact = "../count.txt"
	case what == "take":
		artifact = "items.jsonl"
	}
	file, err := output.Create(artifact)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%d items of %s", count, input.Backup.Name)
	return err
}
