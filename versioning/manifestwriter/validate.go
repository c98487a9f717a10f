package manifestwriter

import (
	"fmt"
	"regexp"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

var artifactName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// IsArtifactName reports whether an artifact can have a name: it is a valid file name in every storage.
func IsArtifactName(name string) bool { return artifactName.MatchString(name) }

// names are the names of the artifacts of one reply.
type names map[string]bool

// take checks the name of the next artifact: it must be a valid file name in every storage, and unique.
func (n *names) take(name string) error {
	if !IsArtifactName(name) {
		return fmt.Errorf(`artifact name %q must be lower-case letters, digits, "-", "_" and ".", begin with a letter or digit, and have at most 128 bytes`, hostapi.Clip(name))
	}
	if (*n)[name] {
		return fmt.Errorf("artifact %q is there twice", name)
	}
	if *n == nil {
		*n = names{}
	}
	(*n)[name] = true
	return nil
}
