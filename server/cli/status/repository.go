package status

import (
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// RepositoryTable returns the table of "repo get".
func RepositoryTable(repositories []velerov1.BackupRepository, _ time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAME", "STATUS", "LAST MAINTENANCE", "PROBLEM"}}
	for i := range repositories {
		r := &repositories[i]
		t.Rows = append(t.Rows, []string{r.Name, PhaseOrNew(string(r.Status.Phase)),
			layout.TimeOr(r.Status.LastMaintenanceTime, "<never>"), problemOf(&r.Status)})
	}
	return t
}

// problemOf returns why a repository cannot be used, or else why its last maintenance has failed, if it has.
func problemOf(s *velerov1.BackupRepositoryStatus) string {
	if s.Message != "" || len(s.RecentMaintenance) == 0 {
		return s.Message
	}
	if last := s.RecentMaintenance[len(s.RecentMaintenance)-1]; last.Result == velerov1.BackupRepositoryMaintenanceFailed {
		return "maintenance has failed: " + last.Message
	}
	return ""
}
