package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	backupitemaction "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	restoreitemaction "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

type action struct {
	log  hclog.Logger
	zone string // of its configuration
}

// AppliesTo exits as often as the companion file of the journal says.
func (a *action) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	journal("AppliesTo")
	if marker := os.Getenv("CLEAT_TEST_DIE_ONCE"); marker != "" && os.Remove(marker) == nil {
		os.Exit(4)
	}
	return framework.ResourceSelector{IncludedResources: []string{"configmaps"}}, nil
}

// Execute follows the instruction in the annotation "do" of the item.
func (a *action) Execute(
	ctx context.Context, input *backupitemaction.ExecuteInput,
) (*backupitemaction.ExecuteOutput, error) {
	item := input.Item
	set := func(key, value string) {
		annotations := item.GetAnnotations()
		annotations[key] = value
		item.SetAnnotations(annotations)
	}
	what := item.GetAnnotations()["do"]
	switch what {
	case "exit":
		a.log.Error("disk on fire", "item", item.GetName())
		os.Exit(3)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "panic elsewhere":
		go panic("boom")
		time.Sleep(time.Hour)
	case "panic":
		panic("handler boom")
	case "hang":
		journal("hanging")
		time.Sleep(time.Hour)
	case "freeze":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour)
	case "wait":
		journal("waiting")
		<-ctx.Done()
		journal("cancelled")
		return nil, ctx.Err()
	case "log in call":
		framework.Log(ctx).Info("called", "item", item.GetName())
		framework.Slog(ctx).With("by", "slog").Info("called again", "item", item.GetName())
	case "fail":
		return nil, errors.New("no such volume")
	case "unavailable":
		return nil, status.Error(codes.Unavailable, "storage array is rebooting")
	case "grow":
		set("padding", strings.Repeat("p", 5<<20))
	case "rename":
		item.SetName("another")
	case "pid":
		set("pid", strconv.Itoa(os.Getpid()))
	case "zone":
		set("zone", a.zone)
	case "version":
		set("version", os.Getenv("CLEAT_TEST_VERSION"))
	case "fork":
		child := exec.Command("sleep", "3600")
		child.Stdout, child.Stderr = os.Stdout, inheritedStderr // it keeps the pipes open
		if err := child.Start(); err != nil {
			return nil, err
		}
		set("child", strconv.Itoa(child.Process.Pid))
	case "trace":
		set("traceparent", traceparent(ctx))
	case "log":
		a.log.Info("looking at item", "item", item.GetName(), "size", 12)
		a.log.Debug("not at this level")
		fmt.Fprintln(inheritedStderr, "a line that is not JSON")
		fmt.Fprintln(inheritedStderr, `{"@message": 7, "@level": ["odd"]}`)
	case "flood":
		line := strings.Repeat("f", 999) + "\n"
		for range 5000 {
			_, _ = inheritedStderr.WriteString(line)
		}
	case "long line":
		_, _ = inheritedStderr.WriteString(strings.Repeat("l", 200<<10) + "\nafter the long line\n")
	case "print":
		for range 5000 {
			fmt.Println(strings.Repeat("o", 999))
		}
	default:
		if err := fault(what, set); err != nil {
			return nil, err
		}
	}
	return backupitemaction.NewExecuteOutput(item), nil
}

// inheritedStderr is the pipe to the host. go-plugin replaces os.Stderr by one that goes through the connection.
var inheritedStderr = os.Stderr

// restoreAction expects one call at a time, like actions made for Velero.
type restoreAction struct{ busy *atomic.Bool }

func (restoreAction) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (a restoreAction) Execute(
	_ context.Context, input *restoreitemaction.ExecuteInput,
) (*restoreitemaction.ExecuteOutput, error) {
	if !a.busy.CompareAndSwap(false, true) {
		return nil, errors.New("asked about two items at the same time")
	}
	defer a.busy.Store(false)
	time.Sleep(time.Millisecond) // so that a concurrent call would overlap
	return restoreitemaction.NewExecuteOutput(input.Item), nil
}
