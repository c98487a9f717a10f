package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// TestVolumeOverview has claims that backups have, have left out, and do not have, and backups whose files cannot be
// read.
func TestVolumeOverview(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	backup := func(name, schedule string, ago time.Duration, namespaces ...string) *velerov1.Backup {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			Labels: map[string]string{velerov1.ScheduleNameLabel: schedule}}}
		b.Spec.IncludedNamespaces = namespaces
		b.Status.Phase, b.Status.CompletionTimestamp = velerov1.BackupPhaseCompleted, &metav1.Time{Time: now.Add(-ago)}
		return b
	}
	of := status.OverviewOf{Since: 24 * time.Hour, Backups: []*velerov1.Backup{
		backup("shop-1", "nightly", 3*time.Hour, "shop"), backup("shop-2", "nightly", 2*time.Hour, "shop"),
		backup("shop-hourly", "hourly", time.Hour, "shop"), backup("old", "", 30*time.Hour, "bank"),
		backup("damaged", "", time.Hour, "gone", "lost"), backup("of-none", "", time.Hour, "empty"),
	}}
	for _, claim := range []string{"shop/moved", "shop/snapshot", "shop/skipped", "shop/failed", "shop/new", "bank/data",
		"lost/data"} {
		namespace, name, _ := strings.Cut(claim, "/")
		of.Claims = append(of.Claims, types.NamespacedName{Namespace: namespace, Name: name})
	}
	asked, more := status.BackupsToAsk(of, now)
	var names []string
	for _, b := range asked {
		names = append(names, b.Name)
	}
	require.Equal(t, []string{"damaged", "shop-hourly", "shop-2"}, names, "the last ones of namespaces with claims")
	require.False(t, more)
	info := func(claim string, change func(*volumes.VolumeInfo)) volumes.VolumeInfo {
		v := volumes.VolumeInfo{PVCNamespace: "shop", PVCName: claim, BackupMethod: volumes.CSI, Result: volumes.Succeeded}
		if change != nil {
			change(&v)
		}
		return v
	}
	doc := status.NewVolumeOverview(of, asked, more, map[types.UID]status.BackupVolumes{
		"shop-hourly": {Infos: []volumes.VolumeInfo{info("snapshot", nil), info("skipped", func(v *volumes.VolumeInfo) {
			v.Skipped, v.SkippedReason = true, "not\nwanted"
		}), info("failed", func(v *volumes.VolumeInfo) { v.Result = volumes.Unusable })}},
		"shop-2":  {Infos: []volumes.VolumeInfo{info("moved", nil)}},
		"damaged": {Problem: "read it: EOF"},
	})
	var got [][3]any
	for _, v := range doc.Items {
		got = append(got, [3]any{v.Namespace + "/" + v.Claim, v.Backup, v.Why})
	}
	require.Equal(t, [][3]any{
		{"bank/data", "", "no backup since then has its namespace"},
		{"shop/failed", "shop-hourly", "its data could not be backed up"},
		{"shop/new", "shop-hourly", "the backup does not have it"},
		{"shop/skipped", "shop-hourly", "the backup has left it out: not wanted"},
		{"lost/data", "damaged", "not known"}}, got)
	require.Equal(t, [3]int{7, 4, 1}, [3]int{doc.Claims, doc.Unprotected, doc.Unknown})
	require.Equal(t, "what backup damaged has of volumes is not known: read it: EOF", doc.Problem)

	doc = status.NewVolumeOverview(of, asked, more, nil)
	require.Equal(t, [2]int{1, 6}, [2]int{doc.Unprotected, doc.Unknown}, "before the files are read")
	for range 30 {
		namespace := fmt.Sprint("n", len(of.Backups))
		of.Backups = append(of.Backups, backup("of-"+namespace, "", time.Minute, namespace))
		of.Claims = append(of.Claims, types.NamespacedName{Namespace: namespace, Name: "data"})
	}
	asked, more = status.BackupsToAsk(of, now)
	require.True(t, more)
	require.Len(t, asked, 24)
	doc = status.NewVolumeOverview(of, asked, more, map[types.UID]status.BackupVolumes{})
	require.Zero(t, doc.Unprotected, "what was not asked is not known")
}
