package restic

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/internal/location"
	"github.com/cleat-dev/cleat/plugins/s3store"
)

// place is where a repository is, for restic and for a look at its files without restic.
type place struct {
	url     string   // as restic has it
	flags   []string // of restic, without caCert
	env     []string // of restic
	backend string   // of restic: "s3", "local"
	caCert  string   // PEM
	objects objects
}

// newPlace returns the place of a repository. It does not access it.
func newPlace(ctx context.Context, r dmv1.Repository) (*place, error) {
	if err := location.Check(r, "restic/shop"); err != nil {
		return nil, err
	}
	if first, _, _ := strings.Cut(r.Path, "/"); first == "kopia" {
		return nil, isKopia(r)
	}
	inS3, err := location.InS3(r, Name)
	if err != nil {
		return nil, err
	}
	if inS3 {
		return newS3(ctx, r)
	}
	at, folder, err := location.Directory(r)
	if err != nil {
		return nil, err
	}
	return &place{url: "local:" + folder, backend: "local", objects: &directory{bucket: at, folder: folder}}, nil
}

func newS3(ctx context.Context, r dmv1.Repository) (*place, error) {
	config, folder, err := location.S3(r)
	if err != nil {
		return nil, err
	}
	store, err := s3store.New(ctx, config)
	if err != nil {
		return nil, framework.Invalid("repository %s: %w", r, err)
	}
	p := &place{
		url: fmt.Sprintf("s3:%s/%s/%s", location.Endpoint(config), r.Config["bucket"], folder), backend: "s3",
		caCert: config.CACert, objects: &bucket{store: store, name: r.Config["bucket"], folder: folder},
	}
	if config.Region != "" {
		p.flags = append(p.flags, "-o", "s3.region="+config.Region)
	}
	if config.S3ForcePathStyle {
		p.flags = append(p.flags, "-o", "s3.bucket-lookup=path")
	}
	if config.InsecureSkipTLSVerify {
		p.flags = append(p.flags, "--insecure-tls")
	}
	if config.CredentialsFile != "" { // an empty variable is one that is not set
		p.env = append(p.env, "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SESSION_TOKEN=",
			"AWS_SHARED_CREDENTIALS_FILE="+config.CredentialsFile)
		p.env = append(p.env, "AWS_PROFILE="+profile(config))
	} else if config.Profile != "" {
		p.env = append(p.env, "AWS_PROFILE="+config.Profile)
	}
	return p, nil
}

func profile(config s3store.Config) string {
	if config.Profile == "" {
		return "default"
	}
	return config.Profile
}

// isKopia returns the error for a repository of Kopia.
func isKopia(r dmv1.Repository) error {
	return framework.Invalid("repository %s is one of Kopia, which %s cannot read. Restore its snapshots with a data mover "+
		"for Kopia, such as cleat.dev/kopia, or with Velero's node agent and its kopia uploader; new backups with uploader "+
		"type restic go to restic/NAMESPACE of the same location", r, Name)
}
