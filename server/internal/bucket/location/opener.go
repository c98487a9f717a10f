package location

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// Opener opens locations. It is safe for concurrent use.
type Opener struct {
	secrets     secrets
	host        Host
	credentials credentials
	warnings    warnings
	behind      behinds
	written     written
}

// NewOpener returns an Opener that reads Secrets through reader and stores credentials as files below dir. Only the
// server and its plugins should have access to dir. It logs what object stores do wrong without harm, once for each
// location.
func NewOpener(reader client.Reader, host Host, dir string, log hclog.Logger) *Opener {
	return &Opener{secrets: secrets{reader: reader}, host: host, credentials: credentials{dir: dir},
		warnings: warnings{log: log}, behind: behinds{dir: dir, log: log}}
}

// Open opens a location according to its spec. The caller checks the location's status and access mode. A store remains
// usable when its location or the Secrets change; Open then returns another store.
func (o *Opener) Open(ctx context.Context, location *velerov1.BackupStorageLocation) (*store.Store, error) {
	opened, err := o.open(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	return opened, nil
}

// open is Open for what people see at the location itself: errors do not name it.
func (o *Opener) open(ctx context.Context, location *velerov1.BackupStorageLocation) (*store.Store, error) {
	if err := checkSpec(&location.Spec); err != nil {
		return nil, err
	}
	config, err := o.config(ctx, location)
	if err != nil {
		return nil, err
	}
	objects, err := o.objects(ctx, location, config)
	if err != nil {
		return nil, err
	}
	opened := store.New(objects, config["bucket"], config["prefix"]).Remembering(o.written.of(location))
	if WritesOnce(location) {
		opened = opened.Once()
	}
	opened.Warn = func(message string) { o.warnings.add(location, message) }
	return opened, nil
}

// Config returns the provider of a location and the configuration with which its object store is initialised, for a
// data mover that has a client of its own. If the store stands in front of another one, they are of that one.
func (o *Opener) Config(
	ctx context.Context, location *velerov1.BackupStorageLocation,
) (provider string, config map[string]string, err error) {
	if err = checkSpec(&location.Spec); err == nil {
		if config, err = o.config(ctx, location); err == nil {
			provider, config, err = o.behindFront(location.Spec.Provider, config)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	return provider, config, nil
}

// Release releases the resources of a location that was deleted. Its plugin process ends when it is idle, and its
// credentials are removed.
func (o *Opener) Release(namespace, name string) error {
	o.host.ReleaseObjectStore(key(namespace, name))
	if o.behind.stop(key(namespace, name)) {
		o.host.ReleaseObjectStore(keyBehind(key(namespace, name)))
	}
	o.warnings.forget(key(namespace, name))
	o.written.forget(key(namespace, name))
	return o.credentials.remove(namespace, name)
}

// Close removes all credentials, and stops serving stores to those in front of them. The stores end with the plugin
// host.
func (o *Opener) Close() error {
	o.behind.stopAll()
	return o.credentials.removeAll()
}

func key(namespace, name string) string { return namespace + "/" + name }

// Check returns an error unless the spec of a location is complete and the Secrets that it names have what it selects.
// It does not access the location.
func Check(ctx context.Context, reader client.Reader, location *velerov1.BackupStorageLocation) error {
	if err := checkSpec(&location.Spec); err != nil {
		return err
	}
	s := &secrets{reader: reader}
	for field, selector := range map[string]*velerov1.SecretKeySelector{
		"spec.objectStorage.caCertRef": location.Spec.ObjectStorage.CACertRef, "spec.credential": location.Spec.Credential,
	} {
		if selector == nil {
			continue
		}
		if _, err := s.value(ctx, location, selector); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// checkSpec validates what can be validated without a call.
func checkSpec(spec *velerov1.BackupStorageLocationSpec) error {
	storage := spec.ObjectStorage
	switch {
	case storage == nil:
		return errors.New("spec.objectStorage is missing: want at least a bucket")
	case spec.Provider == "":
		return errors.New("spec.provider is empty: want the name of an object store plugin, such as velero.io/aws")
	case storage.CACert != nil && storage.CACertRef != nil:
		return errors.New("cannot specify both caCert and caCertRef in objectStorage")
	}
	bucket := trimmed(storage.Bucket)
	if bucket == "" {
		return fmt.Errorf("spec.objectStorage.bucket is %q, want the name of a bucket", storage.Bucket)
	}
	// Names of Amazon's access points have slashes; in other names a slash starts a prefix.
	if strings.Contains(bucket, "/") && !strings.HasPrefix(bucket, "arn:aws:s3:") {
		return fmt.Errorf("spec.objectStorage.bucket %q must not contain a '/' (if using a prefix, put it in the prefix "+
			"field instead)",
			storage.Bucket)
	}
	return nil
}

func trimmed(path string) string { return strings.Trim(path, "/") }

// config returns the configuration for the plugin's Init, as Velero passes it.
func (o *Opener) config(ctx context.Context, location *velerov1.BackupStorageLocation) (map[string]string, error) {
	storage := location.Spec.ObjectStorage
	config := maps.Clone(location.Spec.Config)
	if config == nil {
		config = map[string]string{}
	}
	config["bucket"] = trimmed(storage.Bucket)
	config["prefix"] = trimmed(storage.Prefix)
	switch {
	case storage.CACertRef != nil:
		pem, err := o.secrets.value(ctx, location, storage.CACertRef)
		if err != nil {
			return nil, fmt.Errorf("spec.objectStorage.caCertRef: %w", err)
		}
		config["caCert"] = string(pem)
	case storage.CACert != nil:
		config["caCert"] = string(storage.CACert)
	}
	return config, o.addCredential(ctx, config, location, location.Name, location.Spec.Credential)
}

// addCredential adds the path of a file with a Secret of a location to a configuration, unless selector is nil. as is
// the name under which the file is kept.
func (o *Opener) addCredential(
	ctx context.Context, config map[string]string, location client.Object, as string, selector *velerov1.SecretKeySelector,
) error {
	if selector == nil {
		return nil
	}
	content, err := o.secrets.value(ctx, location, selector)
	if err == nil {
		config["credentialsFile"], err = o.credentials.file(location.GetNamespace(), as, content)
	}
	if err != nil {
		return fmt.Errorf("spec.credential: %w", err)
	}
	return nil
}
