package operations_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/framework/operations"
)

// document is the input of the work.
type document struct {
	Text string `json:"text"`
}

// copyDocument copies a document. The writer reports the progress, and fails when the context has ended.
func copyDocument(_ context.Context, d document, run *operations.Run) error {
	run.Log().Debug("copying", "attempt", run.Attempt())
	_, err := io.Copy(run.Writer(io.Discard, int64(len(d.Text))), strings.NewReader(d.Text))
	return err
}

func Example() {
	dir, err := os.MkdirTemp("", "operations")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := operations.OpenDir(dir)
	if err != nil {
		panic(err)
	}
	runner := operations.NewRunner("example.io/copy", store, copyDocument, operations.WithResume())
	defer runner.Close()

	ctx := context.TODO()
	id, err := runner.Start(ctx, "the key of the start", document{Text: "hello"})
	if err != nil {
		panic(err)
	}
	again, err := runner.Start(ctx, "the key of the start", document{Text: "hello"})
	fmt.Println(id == again, err)
	for {
		progress, err := runner.Progress(ctx, id)
		if err != nil {
			panic(err)
		}
		if progress.Completed {
			fmt.Println(progress.NCompleted, "of", progress.NTotal, progress.Units)
			break
		}
		time.Sleep(time.Millisecond)
	}
	// Output:
	// true <nil>
	// 5 of 5 bytes
}
