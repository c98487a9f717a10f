// Command misbehave is a plugin that does what plugins should not do. What it does at its start is chosen by the
// name of its file, what it does in a call by the item: see startup.go, action.go and store.go.
package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	asyncbackupitemaction "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	backupitemaction "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	objectstore "github.com/cleat-dev/cleat/framework/objectstore/v1"
	restoreitemaction "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

func main() {
	journal("start")
	journal("args " + strings.Join(os.Args[1:], " "))
	name := filepath.Base(os.Args[0])
	if misbehaveAtStart(name) || announce() {
		return
	}
	if strings.HasPrefix(name, "named-") { // one of many
		framework.Serve(backupitemaction.Register("example.io/"+name, func(log hclog.Logger) (backupitemaction.BackupItemAction, error) {
			return &action{log: log}, nil
		}))
		return
	}
	framework.Serve(
		backupitemaction.Register("example.io/behave", func(log hclog.Logger) (backupitemaction.BackupItemAction, error) {
			return &action{log: log}, nil
		}),
		restoreitemaction.Register("example.io/behave", func(log hclog.Logger) (restoreitemaction.RestoreItemAction, error) {
			return restoreAction{busy: new(atomic.Bool)}, nil
		}),
		asyncbackupitemaction.Register("example.io/async", func(hclog.Logger) (asyncbackupitemaction.AsyncBackupItemAction, error) {
			return asyncAction{}, nil
		}),
		objectstore.Register("example.io/store", func(log hclog.Logger) (objectstore.ObjectStore, error) {
			return &store{}, nil
		}),
	)
}

// journal appends a line to the file that the test has named, so that it can see what happened in which order.
func journal(line string) {
	file, err := os.OpenFile(os.Getenv("CLEAT_TEST_JOURNAL"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = file.WriteString(line + "\n")
	_ = file.Close()
}
