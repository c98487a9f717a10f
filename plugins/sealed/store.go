package sealed

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// Name is the provider of a sealed BackupStorageLocation.
const Name = "cleat.dev/sealed"

// Register returns the plugin's registration.
func Register() framework.Registration {
	return objectstorev1.Register(Name, Construct, framework.WithConfig(Config{}),
		framework.WithRoles(framework.RoleInFront))
}

// Construct returns the store of a location. It is the constructor for Register functions.
func Construct(ctx context.Context, setup *framework.Setup) (objectstorev1.ObjectStore, error) {
	config := framework.Config[Config](setup)
	behind, err := objectstorev1.OpenBehind(ctx, config.FrontConfig)
	if err != nil {
		return nil, err
	}
	s, err := New(config, behind)
	if err != nil {
		return nil, errors.Join(err, behind.Close())
	}
	return &opened{Locker: s, Closer: behind}, nil
}

// opened is a store with its connection to the one behind.
type opened struct {
	objectstorev1.Locker
	io.Closer
}

// New returns a sealed store in front of another one. It reads the identities.
func New(config Config, behind objectstorev1.ObjectStore) (objectstorev1.Locker, error) {
	recipients, err := config.recipients()
	if err != nil {
		return nil, framework.InvalidKey("recipients", err)
	}
	identities, err := readIdentities(config.SecretFile)
	if err != nil {
		return nil, err
	}
	if err := checkKeys(recipients, identities); err != nil {
		return nil, err
	}
	return &store{ObjectStore: behind, config: config, recipients: recipients, identities: identities}, nil
}

// store implements the author interface Locker. Calls about keys are those of the store behind.
type store struct {
	objectstorev1.ObjectStore
	config     Config
	recipients []recipient
	identities []identity
}

// PutObject seals an object while it is stored.
func (s *store) PutObject(ctx context.Context, input *objectstorev1.PutObjectInput) error {
	body, err := seal(input.Body, s.config.name(input.Key), s.recipients)
	if err != nil {
		return fmt.Errorf("seal %s in bucket %q: %w", input.Key, input.Bucket, err)
	}
	behind := *input
	behind.Body = body
	return s.ObjectStore.PutObject(ctx, &behind)
}

// GetObject unseals an object while it is read. A range of it is read from ranges of what is stored.
func (s *store) GetObject(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	if input.Range != nil {
		if output, err := s.getRange(ctx, input); output != nil || err != nil {
			return output, err
		}
	}
	behind, err := s.ObjectStore.GetObject(ctx, &objectstorev1.GetObjectInput{Bucket: input.Bucket, Key: input.Key})
	if err != nil {
		return nil, err
	}
	plain, err := unseal(behind.Body, s.config.name(input.Key), s.identities)
	if err != nil {
		_ = behind.Body.Close() // only read from
		return nil, refused(input, err)
	}
	return &objectstorev1.GetObjectOutput{Body: &object{Reader: plain, Closer: behind.Body, input: input}}, nil
}

// getRange returns nil if the store behind has no ranges.
func (s *store) getRange(
	ctx context.Context, input *objectstorev1.GetObjectInput,
) (*objectstorev1.GetObjectOutput, error) {
	at := &window{read: func(offset, length int64) (*objectstorev1.GetObjectOutput, error) {
		return s.ObjectStore.GetObject(ctx, &objectstorev1.GetObjectInput{Bucket: input.Bucket, Key: input.Key,
			Range: &objectstorev1.Range{Offset: offset, Length: length}})
	}}
	size, err := at.open()
	if err != nil || size < 0 {
		return nil, err
	}
	plain, part, err := unsealRange(at, size, s.config.name(input.Key), s.identities, *input.Range)
	if err != nil {
		return nil, refused(input, err)
	}
	return &objectstorev1.GetObjectOutput{Body: &object{Reader: plain, Closer: io.NopCloser(nil), input: input},
		Part: part}, nil
}

// object is an open object.
type object struct {
	io.Reader
	io.Closer
	input *objectstorev1.GetObjectInput
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = refused(o.input, err)
	}
	return n, err
}

// refused says which object could not be unsealed. Errors of the store behind say so themselves.
func refused(input *objectstorev1.GetObjectInput, err error) error {
	if !errors.Is(err, framework.ErrInvalid) {
		return err
	}
	return fmt.Errorf("unseal %s in bucket %q: %w", input.Key, input.Bucket, err)
}

// CreateSignedURL returns an error: who reads the bucket gets what is sealed.
func (s *store) CreateSignedURL(
	context.Context, *objectstorev1.CreateSignedURLInput,
) (*objectstorev1.CreateSignedURLOutput, error) {
	return nil, framework.Invalid("the object is sealed, and cannot be read from a URL of the bucket")
}

// Locks reports what the store behind locks.
func (s *store) Locks(ctx context.Context, input *objectstorev1.LocksInput) (*objectstorev1.Locks, error) {
	behind, err := s.locker()
	if err != nil {
		return nil, err
	}
	return behind.Locks(ctx, input)
}

// SetHold has the store behind hold an object.
func (s *store) SetHold(ctx context.Context, input *objectstorev1.SetHoldInput) error {
	behind, err := s.locker()
	if err != nil {
		return err
	}
	return behind.SetHold(ctx, input)
}

// Retention reports until when the store behind keeps an object.
func (s *store) Retention(
	ctx context.Context, input *objectstorev1.RetentionInput,
) (*objectstorev1.Retention, error) {
	behind, err := s.locker()
	if err != nil {
		return nil, err
	}
	return behind.Retention(ctx, input)
}

// locker returns the store behind. The error is errors.ErrUnsupported if it does not tell what it locks.
func (s *store) locker() (objectstorev1.Locker, error) {
	behind, ok := s.ObjectStore.(objectstorev1.Locker)
	if !ok {
		return nil, fmt.Errorf("the store behind does not tell what it locks: %w", errors.ErrUnsupported)
	}
	return behind, nil
}
