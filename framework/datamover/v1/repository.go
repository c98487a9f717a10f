package v1

// Repository is where snapshots are kept.
type Repository struct {
	// Provider is the object store of the storage location: "cleat.dev/s3".
	Provider string
	// Config is that of the storage location, as the constructor of its object store gets it: the keys of the provider,
	// and "bucket", "prefix", "caCert" (PEM) and "credentialsFile" (a path) where they are set.
	Config map[string]string
	// Path is the folder of the repository below the prefix of the location, without a slash at its beginning or end:
	// "restic/shop".
	Path string
	// Password is that of the repository.
	Password []byte
	// ReadOnly is set if the location must not be written, not even for a lock. Only Restore and Check have it set.
	ReadOnly bool
}

// String returns where the repository is, without secrets, for errors and logs: "cleat.dev/s3
// backups/velero/restic/shop".
func (r Repository) String() string {
	place := r.Path
	for _, key := range []string{"prefix", "bucket"} {
		if r.Config[key] != "" {
			place = r.Config[key] + "/" + place
		}
	}
	return r.Provider + " " + place
}

// GoString returns String, so that no way of printing a repository shows its password.
func (r Repository) GoString() string { return r.String() }

// Depth is how thoroughly a repository is checked. Each depth includes those before it.
type Depth int

const (
	// Access makes sure that the repository exists, is of the mover's engine, and opens with the password.
	Access Depth = iota
	// Structure makes sure that everything that snapshots refer to exists.
	Structure
	// Data reads all data and compares it with its checksums.
	Data
)
