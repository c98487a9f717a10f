// Command misbehave is a plugin that misbehaves in many ways. The name of its file selects what it does at its start,
// and the item of a call what it does in the call: see startup.go, action.go and store.go.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

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
		framework.Serve(backupitemaction.Register("example.io/"+name,
			func(_ context.Context, setup *framework.Setup) (backupitemaction.BackupItemAction, error) {
				return &action{log: setup.Logger()}, nil
			}))
		return
	}
	if name == "zoned" {
		framework.Serve(backupitemaction.Register("example.io/zoned",
			func(_ context.Context, setup *framework.Setup) (backupitemaction.BackupItemAction, error) {
				return &action{log: setup.Logger(), zone: framework.Config[zoneConfig](setup).Zone}, nil
			}, framework.WithConfig(zoneConfig{Zone: "none"})))
		return
	}
	framework.Serve(
		backupitemaction.Register("example.io/behave",
			func(_ context.Context, setup *framework.Setup) (backupitemaction.BackupItemAction, error) {
				return &action{log: setup.Logger()}, nil
			}),
		restoreitemaction.Register("example.io/behave",
			func(context.Context, *framework.Setup) (restoreitemaction.RestoreItemAction, error) {
				return restoreAction{busy: new(atomic.Bool)}, nil
			}),
		asyncbackupitemaction.Register("example.io/async",
			func(context.Context, *framework.Setup) (asyncbackupitemaction.AsyncBackupItemAction, error) {
				return asyncAction{}, nil
			}),
		objectstore.Register("example.io/store", newStore, framework.WithConfig(map[string]string{})),
	)
}

// zoneConfig is the configuration of the action in "zoned".
type zoneConfig struct {
	Zone string `json:"zone"`
}

// Validate refuses zones of other planets.
func (c zoneConfig) Validate() error {
	if strings.HasPrefix(c.Zone, "Mars/") {
		return framework.InvalidKey("zone", fmt.Errorf("%q is not on Earth", c.Zone))
	}
	return nil
}

// journal appends a line to the file that the test has named, so that the test can check the order of events.
func journal(line string) {
	file, err := os.OpenFile(os.Getenv("CLEAT_TEST_JOURNAL"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = file.WriteString(line + "\n")
	_ = file.Close()
}
