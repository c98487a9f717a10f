package controllertest

import (
	"context"
	"errors"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// ClosedStores fails to open every object storage.
type ClosedStores struct{}

// Open implements run.Stores.
func (ClosedStores) Open(context.Context, *velerov1.BackupStorageLocation) (*store.Store, error) {
	return nil, errors.New("the bucket is on fire")
}
