package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
)

// Registry has the flags of commands that ask registries for images.
type Registry struct {
	Keys      []string
	plainHTTP bool
	silence   time.Duration
}

// Add adds the flags. images says which images the keys are for.
func (r *Registry) Add(flags *pflag.FlagSet, images string) {
	flags.StringSliceVar(&r.Keys, "key", nil, "files of public keys of which one must have signed "+images+
		" with cosign; an image without a valid signature is refused")
	flags.BoolVar(&r.plainHTTP, "plain-http", false,
		"allow the registry to be asked without TLS; one on this machine may be anyway")
	flags.DurationVar(&r.silence, "registry-timeout", time.Minute, "how long a registry may send nothing")
}

// Resolver returns what finds images.
func (r *Registry) Resolver() pluginimage.Resolver {
	return pluginimage.Resolver{Silence: pluginimage.Silence(r.silence), PlainHTTP: r.plainHTTP}
}

// Pin verifies images that a cluster is going to pull, and names them by the digest of what was verified. Without keys, it
// changes nothing.
func (r *Registry) Pin(ctx context.Context, a *App, images ...*string) error {
	if len(r.Keys) == 0 {
		return nil
	}
	pinned := map[string]string{}
	for _, image := range images {
		ref := *image
		if pinned[ref] == "" {
			verified, err := r.Resolver().Verified(ctx, ref, r.Keys)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Err, "Image %s has a valid signature.\n", verified)
			pinned[ref] = verified
		}
		*image = pinned[ref]
	}
	return nil
}
