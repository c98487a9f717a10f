package pluginreport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// called returns the kinds whose plugins this server calls. Whoever lets the server call another kind adds it here.
func called() []string {
	return []string{
		kinds.BackupItemAction().Name, kinds.AsyncBackupItemAction().Name,
		kinds.ItemBlockAction().Name, kinds.RestoreItemAction().Name, kinds.AsyncRestoreItemAction().Name,
		kinds.DeleteItemAction().Name, kinds.ObjectStore().Name, kinds.QueueAdmission().Name,
	}
}

// whyIdle returns why the server does not call a plugin that it could call, or "" if it does.
func whyIdle(e pluginhost.Entry, policies map[string][]string) string {
	kind, known := kinds.Lookup(e.Kind)
	switch {
	case !known:
		return ""
	case !slices.Contains(called(), kind.Kind):
		return fmt.Sprintf("this server does not call plugins of the kind %s yet", kind.Kind)
	case kind.Provider != "" && len(e.Locations) == 0:
		return "it is called for locations that name it as their provider, and none does"
	case kind.Policy && !slices.Contains(policies[kind.Kind], e.Name):
		return fmt.Sprintf("the configuration names another %s: %s", kind.Kind, strings.Join(policies[kind.Kind], ", "))
	}
	return ""
}
