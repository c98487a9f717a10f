// Command policy is a plugin of all kinds that decide or describe. Its config selects the behavior in a call.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
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
	withSchema := framework.WithConfig(config{}, framework.ConfigSchema(schema))
	newWriter := func(_ context.Context, setup *framework.Setup) (manifestwriter.ManifestWriter, error) {
		return newPolicy(setup), nil
	}
	framework.Serve(
		queueadmission.Register("example.io/policy",
			func(_ context.Context, setup *framework.Setup) (queueadmission.QueueAdmission, error) {
				return newPolicy(setup), nil
			}, withSchema),
		loadsoothing.Register("example.io/policy", func(_ context.Context, setup *framework.Setup) (loadsoothing.LoadSoothing,
			error) {
			return newPolicy(setup), nil
		}, withSchema),
		manifestwriter.Register("example.io/policy", newWriter, withSchema),
		manifestwriter.Register("example.io/second", newWriter, withSchema, manifestwriter.WithObjects("pods")),
	)
}

type config struct {
	Do string `json:"do,omitempty"`
}

type policy struct {
	log    hclog.Logger
	config config
}

func newPolicy(setup *framework.Setup) policy {
	return policy{log: setup.Logger(), config: framework.Config[config](setup)}
}

// do performs the configured behavior, and returns the rest of the instruction.
func (p policy) do() (string, error) {
	switch p.config.Do {
	case "hang":
		time.Sleep(time.Hour)
	case "die":
		fmt.Fprintln(os.Stderr, "no way out")
		os.Exit(3)
	case "fail":
		return "", errors.New("the calendar cannot be reached")
	}
	return p.config.Do, nil
}

// Decide admits the last backup in the queue.
func (p policy) Decide(_ context.Context, snapshot *queueadmission.DecideInput) (*queueadmission.DecideOutput, error) {
	what, err := p.do()
	if err != nil {
		return nil, err
	}
	if what == "answer wrong" {
		return &queueadmission.DecideOutput{Admit: []string{"stranger"}}, nil
	}
	last := len(snapshot.Queued) - 1
	decision := &queueadmission.DecideOutput{Admit: []string{snapshot.Queued[last].Name}}
	for _, waiting := range snapshot.Queued[:last] {
		decision.Waits = append(decision.Waits, queueadmission.Wait{Name: waiting.Name, Reason: "NotLast",
			Message: "the last is the first"})
	}
	return decision, nil
}

// Admit admits no load.
func (p policy) Admit(_ context.Context, _ *loadsoothing.AdmitInput) (*loadsoothing.AdmitOutput, error) {
	what, err := p.do()
	if err != nil {
		return nil, err
	}
	if what == "answer wrong" {
		return &loadsoothing.AdmitOutput{}, nil // without a reason
	}
	return &loadsoothing.AdmitOutput{Reason: "never"}, nil
}

// Write counts the items.
func (p policy) Write(_ context.Context, input *manifestwriter.WriteInput) error {
	switch p.config.Do {
	case "hang first":
		time.Sleep(time.Hour)
	case "die in the middle":
		return dieInTheMiddle(input)
	case "write without end":
		return writeWithoutEnd(input)
	}
	var objects []byte
	count := 0
	for item, err := range input.Items {
		if err != nil {
			return err
		}
		objects = append(objects, item.Object...)
		count++
	}
	p.log.Info("seen all items", "count", count)
	artifact := "count.txt"
	what, err := p.do()
	switch {
	case err != nil:
		return err
	case what == "answer wrong":
		artifact = "../count.txt"
	case what == "take":
		artifact = "items.jsonl"
	case what == "show objects":
		file, err := input.Artifacts.Create("objects")
		if err == nil {
			_, err = file.Write(objects)
		}
		return err
	case what == "write nothing":
		return nil
	case strings.Contains(what, "."): // a name
		artifact = what
	}
	file, err := input.Artifacts.Create(artifact)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%d items of %s", count, input.Backup.Name)
	return err
}

// dieInTheMiddle ends the process in the middle of writing its file.
func dieInTheMiddle(input *manifestwriter.WriteInput) error {
	file, err := input.Artifacts.Create("part.txt")
	if err != nil {
		return err
	}
	if _, err := file.Write(make([]byte, 1<<20)); err != nil {
		return err
	}
	for _, err := range input.Items {
		if err != nil {
			return err
		}
	}
	os.Exit(3)
	return nil
}

func writeWithoutEnd(input *manifestwriter.WriteInput) error {
	file, err := input.Artifacts.Create("endless")
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<20)
	for err == nil {
		_, err = file.Write(piece)
	}
	return err
}
