package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
)

// operation is the content of a file.
type operation struct {
	ID      string
	Key     string
	Item    string
	As      string
	Started time.Time
	Length  time.Duration
	Held    bool // it lasts until the file "finish" exists
	Logs    bool // each call about it logs a line, and prints another one
}

// log logs a call about the operation.
func (o *operation) log(ctx context.Context, what string) {
	if o.Logs {
		framework.Log(ctx).Info("worker: "+what, "item", o.Item)
		fmt.Fprintf(os.Stderr, "[INFO] printed: %s %s\n", what, o.Item)
	}
}

// lasts reports whether the operation is in progress.
func (o *operation) lasts() bool {
	if o.Held {
		return !exists("finish")
	}
	return time.Since(o.Started) < o.Length
}

func dir() string { return os.Getenv("WORK_DIR") }

// note appends a line. One write with O_APPEND is never mixed with the writes of other processes.
func note(what string, args ...any) error {
	file, err := os.OpenFile(filepath.Join(dir(), "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s\n", strings.TrimSpace(fmt.Sprintln(append([]any{what}, args...)...)))
	return err
}

// once creates a file and reports whether it is new. If several processes call it, one succeeds.
func once(name string, content []byte) (bool, error) {
	target := filepath.Join(dir(), name)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return false, err
	}
	temporary := target + "." + rand.Text()
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return false, err
	}
	defer os.Remove(temporary)
	err := os.Link(temporary, target)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(dir(), name))
	return err == nil
}

// point is a point at which a test may stop the process. The file "hold" has the name of a round and a number: the
// process that reaches a point as the one of that number in that round records that in "held/ROUND", and does not
// continue.
func point(place string) error {
	wanted, err := os.ReadFile(filepath.Join(dir(), "hold"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var round string
	var number int
	if _, err := fmt.Sscan(string(wanted), &round, &number); err != nil {
		return err
	}
	for n := 1; n <= number; n++ {
		first, err := once(fmt.Sprintf("points/%s-%d", round, n), nil)
		if err != nil {
			return err
		}
		if first && n == number {
			_, err := once("held/"+round, []byte(place))
			return errors.Join(err, hang(context.Background()))
		}
		if first {
			return nil
		}
	}
	return nil
}

// hang returns when ctx ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// await returns when a file exists, or ctx ends.
func await(ctx context.Context, file string) error {
	for !exists(file) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func start(ctx context.Context, run, key string, item *unstructured.Unstructured) (string, error) {
	annotations := item.GetAnnotations()
	as := annotations["work/as"]
	if in := annotations["work/in"]; in != "" && in != run {
		return "", nil
	}
	if err := point("before Start"); err != nil {
		return "", err
	}
	o := operation{Key: key, Item: run + "/" + item.GetNamespace() + "/" + item.GetName(), As: as, Started: time.Now()}
	sum := sha256.Sum256([]byte(cmp.Or(key, rand.Text())))
	o.ID, o.Logs = hex.EncodeToString(sum[:8]), annotations["work/logs"] != ""
	var err error
	if o.Held = annotations["work/length"] == "held"; !o.Held {
		if o.Length, err = time.ParseDuration(cmp.Or(annotations["work/length"], "1s")); err != nil {
			return "", err
		}
	}
	switch as {
	case "no id":
		return "", nil
	case "refuses":
		return "", errors.New("refused as requested")
	case "hangs in Start":
		return "", hang(ctx)
	case "waits in Start":
		if err := note("waits", o.Item); err != nil {
			return "", err
		}
		if err := await(ctx, "go"); err != nil {
			return "", err
		}
	case "same id":
		o.ID = "the-same"
	case "long id":
		return strings.Repeat("x", 2048), nil
	case "control id":
		return "a\x00b", nil
	}
	content, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	first, err := once("operations/"+o.ID, content)
	if err != nil {
		return "", err
	}
	if as == "dies in Start" && first {
		os.Exit(3)
	}
	return o.ID, errors.Join(err, point("after Start"))
}

func read(id string) (*operation, error) {
	content, err := os.ReadFile(filepath.Join(dir(), "operations", id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("operation %s: %w", id, framework.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	o := new(operation)
	return o, json.Unmarshal(content, o)
}

func progress(ctx context.Context, id string) (framework.OperationProgress, error) {
	o, err := read(id)
	if err != nil {
		return framework.OperationProgress{}, err
	}
	if _, err := once("polled/"+id, nil); err != nil {
		return framework.OperationProgress{}, err
	}
	if err := point("Progress"); err != nil {
		return framework.OperationProgress{}, err
	}
	age := time.Since(o.Started)
	p := framework.OperationProgress{
		NTotal: 1000, NCompleted: int64(min(1000, 1000*age.Seconds()/max(o.Length.Seconds(), 1e-9))), Units: "bytes",
		Description: "working",
		Started:     o.Started, Updated: time.Now(),
	}
	if o.As == "fails" || o.As == "silent" {
		p.LastLines = "reading block 7\nblock 7 cannot be read\x1b[2J\n"
	}
	cancelled := exists("cancelled/" + id)
	switch {
	case o.As == "hangs in Progress":
		return p, hang(ctx)
	case o.As == "dies in Progress":
		os.Exit(3)
	case o.As == "forgets" && age > o.Length:
		return framework.OperationProgress{}, fmt.Errorf("operation %s: %w", id, framework.ErrNotFound)
	case o.As == "silent", o.As == "ignores Cancel":
		p.NCompleted, p.Updated = 7, o.Started
		if o.As == "silent" && cancelled {
			p.Completed, p.Err = true, "cancelled"
		}
		return p, nil
	case o.As == "lies":
		p.NCompleted, p.NTotal = 5000-int64(age/time.Millisecond), 10
		if p.NCompleted < 0 {
			p.NCompleted = 0
		}
	case o.As == "lies of the negative":
		p.NCompleted, p.NTotal, p.Started, p.Updated = -1, math.MinInt64, time.Unix(1<<60, 0), time.Unix(-1<<60, 0)
	}
	switch {
	case cancelled:
		p.Completed, p.Err = true, "cancelled"
	case o.lasts():
		o.log(ctx, "half way")
		return p, nil
	case o.As == "fails":
		p.Completed, p.Err = true, "failed as requested"
	default:
		p.Completed = true
	}
	if o.As == "goes back" && exists("ended/"+id) {
		p.Completed = false
	}
	o.log(ctx, "ended")
	_, err = once("ended/"+id, nil)
	return p, err
}

func cancel(ctx context.Context, id string) error {
	o, err := read(id)
	if err != nil {
		return err
	}
	if err := note("cancel", id, o.Item); err != nil {
		return err
	}
	o.log(ctx, "stopped")
	switch o.As {
	case "cannot be cancelled":
		return framework.ErrCannotCancel
	case "hangs in Cancel":
		return hang(ctx)
	case "ignores Cancel":
		return nil
	}
	_, err = once("cancelled/"+id, nil)
	return err
}
