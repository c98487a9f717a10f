// Command mistaken registers a name that is none.
package main

import (
	"errors"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

func main() {
	framework.Serve(biav1.Register("stamp", func(hclog.Logger) (biav1.BackupItemAction, error) {
		return nil, errors.New("never made")
	}))
}
