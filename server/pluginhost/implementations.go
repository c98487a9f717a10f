package pluginhost

import "github.com/cleat-dev/cleat/versioning"

// Implementations are all plugins of a kind, each name once and at the newest version that both sides know, in the order
// of BackupItemActions. The kind's versions must be among Config.Kinds. A new kind needs no more of this package.
func Implementations[H any](s *Session, kind versioning.Kind[H]) []H { return bindAll(s, kind) }
