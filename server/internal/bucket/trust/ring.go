package trust

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/versioning"
)

// Accepted is a public key whose signatures are accepted.
type Accepted struct {
	PublicKey

	// Name is what people call the key; empty for the key of the server.
	Name string
	// Own is set for the key with which the server signs.
	Own bool
	// NotAfter is the last moment at which a backup may have ended that the key has signed; zero for no limit.
	NotAfter time.Time
	// Problem is why the key cannot be used: it is lost or damaged. It has no PublicKey then.
	Problem error
}

// Ring is the keys whose signatures are accepted.
type Ring []Accepted

// Judgment is what a ring says about the checksums of a backup.
type Judgment struct {
	State velerov1.SignatureState
	Key   string // of a valid signature
	// Problem is why the signature is not valid; nil for a valid one.
	Problem error
}

// Judge verifies a signature; nil stands for none.
func (r Ring) Judge(d *Document, checksums, signature []byte) Judgment {
	if signature == nil {
		return Judgment{velerov1.SignatureMissing, "", errors.New("it has no signature")}
	}
	parsed, err := ParseSignatures(signature)
	if err != nil {
		return Judgment{velerov1.SignatureInvalid, "", fmt.Errorf("its file of signatures is damaged: %w", err)}
	}
	return r.judge(parsed, "its checksums are not those", checksums, d.ended())
}

// judge verifies signatures of what has ended at a time. changed begins the error of another content.
func (r Ring) judge(parsed *Signatures, changed string, content []byte, ended time.Time) Judgment {
	text := message(parsed.PayloadType, content)
	var invalid, expired error
	var unknown []string
	for _, s := range parsed.Signatures {
		key := r.find(s.KeyID)
		if key == nil {
			unknown = append(unknown, s.KeyID)
			continue
		}
		if key.Verify(text, s.Signature) != nil {
			invalid = fmt.Errorf("%s that key %s has signed", changed, key.label())
			continue
		}
		if !key.NotAfter.IsZero() && ended.After(key.NotAfter) {
			expired = fmt.Errorf("key %s is accepted for backups until %s, and this one ended %s", key.label(),
				key.NotAfter.UTC().Format(time.RFC3339), ended.UTC().Format(time.RFC3339))
			continue
		}
		return Judgment{velerov1.SignatureValid, key.ID, nil}
	}
	switch {
	case invalid != nil:
		return Judgment{velerov1.SignatureInvalid, "", invalid}
	case expired != nil:
		return Judgment{velerov1.SignatureUnknownKey, "", expired}
	}
	return Judgment{velerov1.SignatureUnknownKey, "", fmt.Errorf("it is signed by %s, which is not among the accepted "+
		"keys%s", strings.Join(unknown, ", "), r.problems())}
}

func (r Ring) find(id string) *Accepted {
	for i := range r {
		if r[i].Problem == nil && r[i].ID == id {
			return &r[i]
		}
	}
	return nil
}

// problems lists the keys that cannot be used.
func (r Ring) problems() string {
	var texts strings.Builder
	for _, key := range r {
		if key.Problem != nil {
			fmt.Fprintf(&texts, "; key %s cannot be used: %v", key.Name, key.Problem)
		}
	}
	return texts.String()
}

func (a *Accepted) label() string {
	if a.Name == "" {
		return a.ID
	}
	return a.Name + " (" + a.ID + ")"
}

// ended returns when the backup ended, or when the document was made if that is later.
func (d *Document) ended() time.Time {
	if d.Backup.Completed != nil && d.Backup.Completed.After(d.Signed) {
		return *d.Backup.Completed
	}
	return d.Signed
}

// Read reads the checksums of a backup as they are stored, with their signature. It returns store.ErrNotFound if there
// are none, and store.ErrDamaged if they cannot be read.
func Read(
	ctx context.Context, objects *store.Store, backup string,
) (d *Document, checksums, signature []byte, err error) {
	checksums, signature, err = objects.Checksums(ctx, backup)
	if err != nil {
		return nil, checksums, nil, err
	}
	d, err = Parse(checksums)
	if err != nil {
		return nil, checksums, signature, fmt.Errorf("%w: the checksums of backup %s: %w", store.ErrDamaged, backup, err)
	}
	return d, checksums, signature, nil
}

// ErrNotTrusted is the error of a backup whose signature is required and not valid.
var ErrNotTrusted = errors.New("a valid signature is required")

// Require returns the checksums of a backup if they are signed by a key of the ring and are those of that backup: noted
// is what the cluster knows of its files, if anything. The error is ErrNotTrusted if they are not; others mean that it
// is not known.
func (r Ring) Require(
	ctx context.Context, objects *store.Store, backup string, noted store.Tally,
) (*Document, error) {
	refuse := func(why any) error {
		return fmt.Errorf("%w (restores.requireSignature), and backup %s cannot be trusted: %v", ErrNotTrusted, backup, why)
	}
	d, checksums, signature, err := Read(ctx, objects, backup)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, refuse("it is unsigned")
	case errors.Is(err, store.ErrDamaged):
		return nil, refuse(err)
	case err != nil:
		if _, lists := objects.FilesOf(ctx, backup); lists == nil && ctx.Err() == nil &&
			!errors.Is(err, versioning.ErrUnavailable) {
			return nil, refuse(fmt.Sprintf("the object store cannot read its checksums: %v", err))
		}
		return nil, err
	}
	judgment := r.Judge(d, checksums, signature)
	switch {
	case judgment.State == velerov1.SignatureMissing:
		return nil, refuse("it is unsigned")
	case judgment.Problem != nil:
		return nil, refuse(judgment.Problem)
	case d.Backup.Name != backup:
		return nil, refuse(fmt.Sprintf("what is signed is backup %s of %s, under another name", d.Backup.Name,
			d.ended().UTC().Format(time.RFC3339)))
	}
	sums := d.Sums()
	if own, ok := noted[store.MetadataFile]; ok && own.SHA256 != sums[store.MetadataFile].SHA256 {
		return nil, refuse(fmt.Sprintf("what is signed is another backup of that name, of %s, than the one that the server "+
			"has stored", d.ended().UTC().Format(time.RFC3339)))
	}
	return d, nil
}
