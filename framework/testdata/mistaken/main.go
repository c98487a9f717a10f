// Command mistaken registers an invalid name.
package main

import (
	"context"
	"errors"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

func main() {
	framework.Serve(biav1.Register("stamp", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
		return nil, errors.New("never made")
	}))
}
