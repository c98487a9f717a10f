package config

import (
	"strconv"
	"time"
)

// Signing is how the checksums of backups are signed.
type Signing struct {
	Key KeySource `yaml:"key"`
}

// KeySource is where a private key is: one of its fields is set. It is zero for no key.
type KeySource struct {
	Secret string `yaml:"secret"` // NAME/KEY in the namespace of the server
	File   string `yaml:"file"`   // path
	KMS    string `yaml:"kms"`    // URI of sigstore's library
}

// Trust is whose signatures are accepted, beside those of the own key.
type Trust struct {
	Keys []TrustedKey `yaml:"keys"`
}

// TrustedKey is a public key whose signatures are accepted. One of Secret, File and PublicKey is set.
type TrustedKey struct {
	Name      string `yaml:"name"`
	Secret    string `yaml:"secret"`    // NAME/KEY in the namespace of the server
	File      string `yaml:"file"`      // path
	PublicKey string `yaml:"publicKey"` // PEM
	// NotAfter is the last moment at which a backup may have ended; empty for no limit.
	NotAfter string `yaml:"notAfter"`
}

// Until returns NotAfter as a time, the zero time for no limit.
func (k TrustedKey) Until() time.Time {
	until, _ := time.Parse(time.RFC3339, k.NotAfter) // the schema has checked it
	return until
}

// Verification is when the server verifies backups itself.
type Verification struct {
	After      bool     `yaml:"after"` // each backup after it ended
	Every      Duration `yaml:"every"` // 0 for never
	Depth      string   `yaml:"depth"` // empty for the default
	Concurrent int      `yaml:"concurrent"`
}

// checkTrust adds the mistakes in what the file says about keys.
func (f *File) checkTrust(found *problems) {
	one := func(values ...string) (set int) {
		for _, value := range values {
			if value != "" {
				set++
			}
		}
		return set
	}
	key, path := f.Backups.Signing.Key, []string{"backups", "signing", "key"}
	if set := one(key.Secret, key.File, key.KMS); set > 1 || set == 0 && f.root.find(path) != nil {
		found.add(f.root.locate(path), "has %d of secret, file and kms; want one of them", set)
	}
	names := make([]string, 0, len(f.Trust.Keys))
	for i, trusted := range f.Trust.Keys {
		names = append(names, trusted.Name)
		at := f.root.locate([]string{"trust", "keys", strconv.Itoa(i)})
		if set := one(trusted.Secret, trusted.File, trusted.PublicKey); set != 1 {
			found.add(at, "has %d of secret, file and publicKey; want one of them", set)
		}
	}
	f.unique(found, names, "trust", "keys")
	if f.Restores.RequireSignature && key == (KeySource{}) && len(f.Trust.Keys) == 0 {
		found.add(f.root.locate([]string{"restores", "requireSignature"}),
			"needs a key whose signatures are accepted: set backups.signing.key or trust.keys")
	}
}

// Label returns where the key is, for messages.
func (k KeySource) Label() string {
	switch {
	case k.Secret != "":
		return "secret " + k.Secret
	case k.File != "":
		return "file " + k.File
	default:
		return k.KMS
	}
}
