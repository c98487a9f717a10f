package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// VersionPriorities are versions in the order in which a user prefers them, by "resource.group".
type VersionPriorities map[string][]string

// ParseVersionPriorities parses lines "resource.group=v1,v2". White space is ignored. It returns a problem for each
// line of another form.
func ParseVersionPriorities(text string) (priorities VersionPriorities, problems []string) {
	for number, line := range strings.Split(text, "\n") {
		line = strings.Join(strings.Fields(line), "")
		if line == "" {
			continue
		}
		resource, versions, ok := strings.Cut(line, "=")
		list := strings.Split(versions, ",")
		if !ok || resource == "" || slices.Contains(list, "") || strings.Contains(versions, "=") {
			problems = append(problems, fmt.Sprintf("line %d: %q, want RESOURCE.GROUP=VERSION,VERSION", number+1, line))
			continue
		}
		if priorities == nil {
			priorities = VersionPriorities{}
		}
		priorities[resource] = list
	}
	return priorities, problems
}

// ChooseVersion returns the version in which the objects of a resource are restored, and the reason. source is the
// preferred version of their cluster, others are the other versions in the archive. The order is Velero's: the first
// version of wanted that archive and cluster have, the cluster's preferred version, source, the highest common
// version.
func ChooseVersion(wanted []string, source string, others []string, cluster discovery.Resource) (version, why string) {
	archived := append([]string{source}, others...)
	served := append([]string{cluster.GroupVersion.Version}, cluster.Others...)
	for _, version := range wanted {
		if slices.Contains(archived, version) && slices.Contains(served, version) {
			return version, "the user prefers it"
		}
	}
	if slices.Contains(archived, cluster.GroupVersion.Version) {
		return cluster.GroupVersion.Version, "the cluster prefers it"
	}
	if slices.Contains(served, source) {
		return source, "the cluster of the backup preferred it"
	}
	for _, version := range cluster.Others { // the highest first
		if slices.Contains(others, version) {
			return version, "the cluster and the backup both have it"
		}
	}
	return source, "the cluster serves no version that the backup has"
}
