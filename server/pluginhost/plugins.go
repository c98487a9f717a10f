package pluginhost

import (
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// QueueAdmission is the policy of that name as it is now: after its file was replaced, the next caller gets the new one,
// so ask again for each decision. The error is that of Find.
func (h *Host) QueueAdmission(name string) (queueadmission.Policy, error) {
	return policy(h, kinds.QueueAdmission(), name)
}

// LoadSoothing is the policy of that name as it is now; see QueueAdmission.
func (h *Host) LoadSoothing(name string) (loadsoothing.Policy, error) {
	return policy(h, kinds.LoadSoothing(), name)
}

func policy[H any](h *Host, kind versioning.Kind[H], name string) (H, error) {
	o, err := findOffer(h.history.now().catalog, kind, kind.Name, name)
	if err != nil {
		var none H
		return none, err
	}
	return o.version.Bind(h.connTo(o.source, o.name), o.name), nil
}

// connTo reaches a plugin for those who call it outside of an operation. What it logs is the server's.
func (h *Host) connTo(from *source, plugin string) grpc.ClientConnInterface {
	if from.supervisor != nil {
		return from.supervisor.Conn(plugin, nil)
	}
	return h.builtIns.bound(h.builtIns.services, plugin)
}

// Implementations are all plugins of a kind, each name once and at the newest version that both sides know, in the order
// of BackupItemActions. The kind's versions must be among Config.Kinds. A new kind needs no more of this package.
func Implementations[H any](s *Session, kind versioning.Kind[H]) []H { return bindAll(s, kind) }
