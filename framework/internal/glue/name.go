package glue

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ValidateName checks that name is "domain/name": exactly two parts. The first is a DNS-1123 subdomain, the second is
// not empty, as on Velero's wire.
func ValidateName(name string) error {
	domain, rest, found := strings.Cut(name, "/")
	if !found || domain == "" || rest == "" || strings.Contains(rest, "/") {
		return fmt.Errorf(`plugin name %q must be "domain/name", like "example.io/stamp"`, name)
	}
	if problems := validation.IsDNS1123Subdomain(domain); len(problems) > 0 {
		return fmt.Errorf("plugin name %q must start with a DNS subdomain, and %q is none: %s",
			name, domain, strings.Join(problems, "; "))
	}
	return nil
}
