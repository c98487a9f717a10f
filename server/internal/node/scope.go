package node

import (
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
)

// refusal returns why these agents do not open the volume of a load, or "" if they do. They refuse volumes of
// namespaces that the agents are not configured for, and loads with invalid names. Nothing is read or changed for a
// refused load, in any phase.
func (a *Agent) refusal(l *load) string {
	s := &l.spec
	for _, of := range []struct{ field, name string }{
		{"spec.backupStorageLocation", s.location}, {"the namespace of the volume", s.namespace},
		{"the namespace of the repository", s.repository},
		{"spec.pod.name", s.pod.Name}, {"spec.volume", s.volume}, {"spec.csiSnapshot.volumeSnapshot", s.snapshot},
		{"the volume claim", s.claim.Name},
		{"the node", l.node()}, {"the node that has accepted it", l.acceptedBy()},
	} {
		if of.name == "" {
			continue // checked where it is needed
		}
		if err := kubeapi.CheckName(of.field, of.name); err != nil {
			return err.Error()
		}
	}
	if len(a.Namespaces) > 0 && !slices.Contains(a.Namespaces, s.namespace) {
		return fmt.Sprintf("its volume is in namespace %q, and the node agents open those of %q only, see "+
			"--volume-namespaces", s.namespace, a.Namespaces)
	}
	return ""
}

// isTurnedAway reports whether a load that is no longer New is refused, and why. Either another client has changed its
// phase, or these agents have accepted the load before they were restricted.
func (m *machine) isTurnedAway(l *load) (reason string, is bool) {
	if l.phase().IsNew() || l.phase().Terminal() {
		return "", false
	}
	if _, err := m.Movers.Find(l.spec.mover, hostpath.Volume{}); err != nil {
		return "", false // not a load of these agents
	}
	reason = m.refusal(l)
	return reason, reason != ""
}
