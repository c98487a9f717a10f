// Package location reads where repositories of data movers are: in a bucket in S3, or in a directory.
//
// The package may import framework and the object stores cleat.dev/s3 and cleat.dev/file.
package location

import (
	"errors"
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

// Check returns an error unless the path of a repository is a folder, such as example, and its location has a bucket.
func Check(r dmv1.Repository, example string) error {
	if r.Path == "" || path.IsAbs(r.Path) || path.Clean(r.Path) != r.Path || !filepath.IsLocal(r.Path) ||
		strings.ContainsAny(r.Path, "\x00\n") {
		return framework.Invalid("repository path %q must be relative, such as %s", r.Path, example)
	}
	if r.Config["bucket"] == "" {
		return framework.Invalid("repository %s: the location has no bucket", r)
	}
	return nil
}

// InS3 reports whether a repository is in S3, and not in a directory. A provider that has neither is an error.
func InS3(r dmv1.Repository, mover string) (bool, error) {
	switch {
	case r.Provider == filestore.Name:
		return false, nil
	case r.Provider == s3store.Name, r.Provider == "velero.io/aws", r.Provider == "aws", r.Config["s3Url"] != "":
		return true, nil
	case r.Config["path"] != "":
		return false, nil
	}
	return false, framework.Invalid("repository %s: %s can use locations of %s, velero.io/aws and %s, and those of other "+
		"providers that have config.s3Url or config.path", r, mover, s3store.Name, filestore.Name)
}

// Validate returns an error unless a mover can use the location of a repository. It does not access it.
func Validate(r dmv1.Repository, mover string) error {
	inS3, err := InS3(r, mover)
	switch {
	case err != nil:
	case inS3:
		_, _, err = S3(r)
	default:
		_, _, err = Directory(r)
	}
	return err
}

// Directory returns the directories of a bucket and of a repository in it.
func Directory(r dmv1.Repository) (bucket, folder string, err error) {
	config := filestore.Config{Path: r.Config["path"], CredentialsFile: r.Config["credentialsFile"]}
	if err := config.Validate(); err != nil {
		return "", "", framework.Invalid("repository %s: config of the location: %w", r, err)
	}
	below := filepath.Join(strings.Trim(r.Config["prefix"], "/"), r.Path)
	if !filepath.IsLocal(below) || !filepath.IsLocal(r.Config["bucket"]) {
		return "", "", framework.Invalid("repository %s: bucket %q or prefix %q leaves the location", r, r.Config["bucket"],
			r.Config["prefix"])
	}
	bucket = filepath.Join(config.Path, r.Config["bucket"])
	return bucket, filepath.Join(bucket, below), nil
}

// S3 returns the config of the location of a repository, and its folder in the bucket.
func S3(r dmv1.Repository) (s3store.Config, string, error) {
	config, err := s3Config(r.Config)
	if err == nil {
		err = config.Validate()
	}
	if err == nil && config.Region == "" && config.S3URL == "" {
		err = errors.New("region is missing, want that of the bucket, or s3Url")
	}
	if err != nil {
		return config, "", framework.Invalid("repository %s: config of the location: %w", r, err)
	}
	return config, path.Join(strings.Trim(r.Config["prefix"], "/"), r.Path), nil
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

// Endpoint returns the URL of the server.
func Endpoint(config s3store.Config) string {
	if config.S3URL != "" {
		return strings.TrimRight(config.S3URL, "/")
	}
	host := "s3." + config.Region + ".amazonaws.com"
	if strings.HasPrefix(config.Region, "cn-") {
		host += ".cn"
	}
	return "https://" + host
}
