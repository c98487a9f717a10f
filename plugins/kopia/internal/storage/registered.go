package storage

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/kopia/kopia/repo/blob"
)

// kind is the type of registered storages in config files of kopia.
const kind = "cleat"

// token is the config of a registered storage.
type token struct {
	Token string `json:"token"`
}

// storages are the registered ones by token. kopia finds storages in a table of the process only.
var storages sync.Map

var registerKind = sync.OnceFunc(func() {
	blob.AddSupportedStorage(kind, token{}, func(_ context.Context, options *token, _ bool) (blob.Storage, error) {
		found, ok := storages.Load(options.Token)
		if !ok {
			return nil, fmt.Errorf("no storage is registered for the token %q", options.Token)
		}
		return found.(blob.Storage), nil //nolint:forcetypeassert // nothing else is stored
	})
})

// Registered is a storage that kopia can open by its config, in this process and until it is closed.
type Registered struct {
	blob.Storage
	token token
}

// Register makes a storage one that kopia can open.
func Register(st blob.Storage) *Registered {
	registerKind()
	r := &Registered{Storage: st, token: token{rand.Text()}}
	storages.Store(r.token.Token, r)
	return r
}

// ConnectionInfo implements blob.Storage.
func (r *Registered) ConnectionInfo() blob.ConnectionInfo {
	return blob.ConnectionInfo{Type: kind, Config: &r.token}
}

// Close implements blob.Storage.
func (r *Registered) Close(ctx context.Context) error {
	storages.Delete(r.token.Token)
	return r.Storage.Close(ctx)
}
