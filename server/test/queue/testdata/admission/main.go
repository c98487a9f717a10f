// Command admission is an admission policy that follows the rules, or breaks one of them. The end of its file selects
// the behavior, so a copy with another ending is another version.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// ending is the end of the file, after a line "admission:".
type ending struct {
	Do     string
	Mended string // a file; while it exists, the rules are followed
}

func main() {
	e, err := readEnding()
	if err != nil {
		hclog.Default().Error("cannot read the end of the file", "error", err)
		os.Exit(1)
	}
	framework.Serve(qav1.Register("example.io/broken", func(context.Context, *framework.Setup) (qav1.QueueAdmission,
		error) {
		return &policy{ending: e}, nil
	}))
}

func readEnding() (e ending, err error) {
	file, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return ending{}, err
	}
	at := bytes.LastIndex(file, []byte("\nadmission:"))
	if at < 0 {
		return ending{}, errors.New("there is none")
	}
	return e, json.Unmarshal(file[at+len("\nadmission:"):], &e)
}

type policy struct {
	ending
	asked atomic.Int64
}

func (p *policy) Decide(ctx context.Context, snapshot *qav1.DecideInput) (*qav1.DecideOutput, error) {
	asked := p.asked.Add(1)
	do := p.Do
	if _, err := os.Stat(p.Mended); err == nil {
		do = "keep the rules"
	}
	var all []string
	for i := range snapshot.Queued {
		all = append(all, snapshot.Queued[i].Name)
	}
	admitted := 0
	if do == "keep the rules" {
		admitted = min(snapshot.Free(), len(all))
	}
	decision := &qav1.DecideOutput{Admit: all[:admitted], Order: slices.Clone(all[admitted:])}
	for _, name := range decision.Order {
		decision.Waits = append(decision.Waits, qav1.Wait{Name: name, Reason: "Closed", Message: "nobody starts"})
	}
	first := decision.Order[:min(1, len(decision.Order))]
	switch do {
	case "admit twice":
		decision.Admit = slices.Concat(first, first)
	case "admit too many":
		decision.Admit = all
	case "admit a stranger":
		decision.Admit = []string{"stranger"}
	case "leave a hole":
		decision.Order = decision.Order[1:]
	case "place twice":
		decision.Order = append(decision.Order, first...)
	case "give no reason":
		decision.Waits = nil
	case "fail":
		return nil, fmt.Errorf("the calendar cannot be reached, attempt %d", asked)
	case "hang":
		<-make(chan struct{})
	case "die":
		os.Exit(3)
	case "flip":
		if asked%2 == 0 {
			slices.Reverse(decision.Order)
		}
	}
	return decision, ctx.Err()
}
