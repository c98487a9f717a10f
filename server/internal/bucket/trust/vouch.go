package trust

import (
	"context"
	"errors"
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// ErrUnknownOrigin is the error of a backup that neither this cluster has made nor a trusted key has signed: whoever
// can write to the bucket may have made it.
var ErrUnknownOrigin = errors.New("nobody vouches for the backup")

// MadeHere returns the sums that a server of this cluster has noted of the files of a backup when it made it. Backups
// that are brought from a bucket have none.
func MadeHere(backup *velerov1.Backup) (noted store.Tally, ok bool) {
	noted = store.TallyOf(backup)
	return noted, noted.IsFinal()
}

// Vouch returns the sums of the files of a backup that this cluster has made, or that a key of the ring has signed. The
// error is ErrUnknownOrigin if there is no such backup; others mean that it is not known.
func (r Ring) Vouch(ctx context.Context, objects *store.Store, backup *velerov1.Backup) (store.Tally, error) {
	if noted, ok := MadeHere(backup); ok {
		return noted, nil
	}
	signed, err := r.Require(ctx, objects, backup.Name, nil)
	if errors.Is(err, ErrNotTrusted) {
		return nil, fmt.Errorf("%w %s: this cluster has not made it, and no key of trust.keys has signed it, so that it is "+
			"neither rehearsed nor verified without a request", ErrUnknownOrigin, backup.Name)
	}
	if err != nil {
		return nil, err
	}
	return signed.Sums(), nil
}
