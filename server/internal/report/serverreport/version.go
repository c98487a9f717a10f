package serverreport

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// VeleroVersion is the version of Velero that the server does the work of.
const VeleroVersion = "v1.18.3"

// VersionAnnotation of an answer is the version of a cleat server.
const VersionAnnotation = "cleat.dev/version"

// StatusVersion returns the version of Velero that a cleat server reports in the field for Velero's version, with its
// own version as the build. Velero's client compares the field with its own version, and requests an update of older
// servers.
func StatusVersion(own string) string {
	words := strings.FieldsFunc(own, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	return VeleroVersion + "+" + strings.Join(append([]string{"cleat"}, words...), ".")
}

// ServerVersion returns the version of the server that has answered, cleat or Velero.
func ServerVersion(answer *velerov1.ServerStatusRequest) string {
	if own, found := answer.Annotations[VersionAnnotation]; found {
		return own
	}
	return answer.Status.ServerVersion
}

// CompareVelero compares the minor release of a version of Velero with that of VeleroVersion: below 0 is older, above 0
// newer.
func CompareVelero(version string) (int, error) {
	if !semver.IsValid(version) {
		return 0, fmt.Errorf("version %q of Velero: want one like %s", version, VeleroVersion)
	}
	return semver.Compare(semver.MajorMinor(version), semver.MajorMinor(VeleroVersion)), nil
}
