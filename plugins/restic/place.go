package restic

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
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
	if r.Path == "" || path.IsAbs(r.Path) || path.Clean(r.Path) != r.Path || !filepath.IsLocal(r.Path) ||
		strings.ContainsAny(r.Path, "\x00\n") {
		return nil, framework.Invalid("repository path %q must be relative, such as restic/shop", r.Path)
	}
	if first, _, _ := strings.Cut(r.Path, "/"); first == "kopia" {
		return nil, isKopia(r)
	}
	if r.Config["bucket"] == "" {
		return nil, framework.Invalid("repository %s: the location has no bucket", r)
	}
	switch {
	case r.Provider == filestore.Name:
		return newDirectory(r)
	case r.Provider == s3store.Name, r.Provider == "velero.io/aws", r.Config["s3Url"] != "":
		return newS3(ctx, r)
	case r.Config["path"] != "":
		return newDirectory(r)
	}
	return nil, framework.Invalid("repository %s: %s can use locations of %s, velero.io/aws and %s, and those of other "+
		"providers that have config.s3Url or config.path", r, Name, s3store.Name, filestore.Name)
}

func newDirectory(r dmv1.Repository) (*place, error) {
	config := filestore.Config{Path: r.Config["path"], CredentialsFile: r.Config["credentialsFile"]}
	if err := config.Validate(); err != nil {
		return nil, framework.Invalid("repository %s: config of the location: %w", r, err)
	}
	below := filepath.Join(strings.Trim(r.Config["prefix"], "/"), r.Path)
	if !filepath.IsLocal(below) || !filepath.IsLocal(r.Config["bucket"]) {
		return nil, framework.Invalid("repository %s: bucket %q or prefix %q leaves the location", r, r.Config["bucket"],
			r.Config["prefix"])
	}
	bucket := filepath.Join(config.Path, r.Config["bucket"])
	return &place{
		url: "local:" + filepath.Join(bucket, below), backend: "local",
		objects: &directory{bucket: bucket, folder: filepath.Join(bucket, below)},
	}, nil
}

func newS3(ctx context.Context, r dmv1.Repository) (*place, error) {
	config, err := s3Config(r.Config)
	if err == nil {
		err = config.Validate()
	}
	if err != nil {
		return nil, framework.Invalid("repository %s: config of the location: %w", r, err)
	}
	store, err := s3store.New(ctx, config)
	if err != nil {
		return nil, framework.Invalid("repository %s: %w", r, err)
	}
	folder := path.Join(strings.Trim(r.Config["prefix"], "/"), r.Path)
	p := &place{
		url: fmt.Sprintf("s3:%s/%s/%s", endpoint(config), r.Config["bucket"], folder), backend: "s3",
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

// endpoint returns the URL of the server.
func endpoint(config s3store.Config) string {
	if config.S3URL != "" {
		return strings.TrimRight(config.S3URL, "/")
	}
	host := "s3." + config.Region + ".amazonaws.com"
	if strings.HasPrefix(config.Region, "cn-") {
		host += ".cn"
	}
	return "https://" + host
}

// s3Config returns what a location's config says about S3.
func s3Config(location map[string]string) (s3store.Config, error) {
	config := s3store.Defaults()
	config.Region, config.S3URL, config.Profile = location["region"], location["s3Url"], location["profile"]
	config.CACert, config.CredentialsFile = location["caCert"], location["credentialsFile"]
	if algorithm, given := location["checksumAlgorithm"]; given {
		config.ChecksumAlgorithm = algorithm
	}
	for key, field := range map[string]*bool{"s3ForcePathStyle": &config.S3ForcePathStyle,
		"insecureSkipTLSVerify": &config.InsecureSkipTLSVerify} {
		if location[key] == "" {
			continue
		}
		value, err := strconv.ParseBool(location[key])
		if err != nil {
			return config, fmt.Errorf("%s is %q, want true or false", key, location[key])
		}
		*field = value
	}
	return config, nil
}

// isKopia returns the error for a repository of Kopia.
func isKopia(r dmv1.Repository) error {
	return framework.Invalid("repository %s is one of Kopia, which %s cannot read. Restore its snapshots with Velero's "+
		"node agent and its kopia uploader, "+
		"or with a data mover for Kopia; new backups with uploader type restic go to restic/NAMESPACE of the same location",
		r, Name)
}
