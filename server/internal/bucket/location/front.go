package location

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// shared returns the keys that the server adds to the configuration of a location, for the store in front and for the
// one behind.
func shared() []string { return []string{"bucket", "prefix", "caCert", "credentialsFile"} }

// front is the configuration of a location whose store stands in front of another one; see framework.RoleInFront.
type front struct {
	own    map[string]string // of the store in front
	behind string            // the provider of the store behind
	rest   map[string]string // its configuration
}

// splitFront returns the parts of a configuration. keys are those that the store in front has.
func splitFront(config map[string]string, keys []string) (front, error) {
	f := front{own: map[string]string{}, behind: config["store"], rest: map[string]string{}}
	if f.behind == "" {
		return f, errors.New("spec.config.store is missing: want the name of the object store plugin behind, such as " +
			"velero.io/aws")
	}
	if config["behind"] != "" {
		return f, errors.New("spec.config.behind must not be set: the server sets it")
	}
	for key, value := range config {
		own := slices.Contains(keys, key)
		if own || slices.Contains(shared(), key) {
			f.own[key] = value
		}
		if !own || slices.Contains(shared(), key) {
			f.rest[key] = value
		}
	}
	return f, nil
}

// objects returns the object store of a location: that of its provider, in front of another one if it has that role.
func (o *Opener) objects(
	ctx context.Context, location *velerov1.BackupStorageLocation, config map[string]string,
) (objectstore.Store, error) {
	at, provider := key(location.Namespace, location.Name), location.Spec.Provider
	keys, inFront := o.host.InFront(provider)
	if !inFront {
		return o.host.ObjectStore(ctx, at, provider, config)
	}
	f, err := splitFront(config, keys)
	if err != nil {
		return nil, err
	}
	if err := o.addSecret(ctx, f.own, location); err != nil {
		return nil, err
	}
	if _, another := o.host.InFront(f.behind); another {
		return nil, fmt.Errorf("spec.config.store is %q, which stands in front of another store itself; want one that does "+
			"not", f.behind)
	}
	behind, err := o.host.ObjectStore(ctx, keyBehind(at), f.behind, f.rest)
	if err != nil {
		return nil, fmt.Errorf("the store behind %s: %w", provider, err)
	}
	if f.own["behind"], err = o.behind.serve(at, f, behind); err != nil {
		return nil, err
	}
	return o.host.ObjectStore(ctx, at, provider, f.own)
}

// keyBehind returns the key of the store behind that of a location.
func keyBehind(location string) string { return location + " (behind)" }

// addSecret adds the path of a file with the Secret of a store in front.
func (o *Opener) addSecret(
	ctx context.Context, config map[string]string, location *velerov1.BackupStorageLocation,
) error {
	secret := config["secret"]
	if secret == "" {
		return nil
	}
	if config["secretFile"] != "" {
		return errors.New("spec.config has secret and secretFile, want one of them")
	}
	name, item, ok := strings.Cut(secret, "/")
	if !ok {
		return fmt.Errorf("spec.config.secret is %q, want NAME/KEY of a Secret in namespace %s", secret, location.Namespace)
	}
	content, err := o.secrets.value(ctx, location, &velerov1.SecretKeySelector{Name: name, Key: item})
	if err == nil {
		config["secretFile"], err = o.credentials.file(location.Namespace, location.Name, content)
	}
	if err != nil {
		return fmt.Errorf("spec.config.secret: %w", err)
	}
	return nil
}

// behindFront returns provider and configuration of the store in which data movers store: the one behind, if the
// provider stands in front of another one.
func (o *Opener) behindFront(provider string, config map[string]string) (string, map[string]string, error) {
	keys, inFront := o.host.InFront(provider)
	if !inFront {
		return provider, config, nil
	}
	f, err := splitFront(config, keys)
	return f.behind, f.rest, err
}

// sameBehind reports whether two configurations have the same store behind.
func (f front) sameBehind(other front) bool {
	return f.behind == other.behind && maps.Equal(f.rest, other.rest)
}
