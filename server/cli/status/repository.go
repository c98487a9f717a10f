package status

import (
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
)

// RepositoryTable returns the table of "repo get".
func RepositoryTable(repositories []velerov1.BackupRepository, _ time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "STATUS", "LAST MAINTENANCE"}}
	for i := range repositories {
		r := &repositories[i]
		t.Rows = append(t.Rows, []string{r.Name, PhaseOrNew(string(r.Status.Phase)),
			layout.TimeOr(r.Status.LastMaintenanceTime, "<never>")})
	}
	return t
}
