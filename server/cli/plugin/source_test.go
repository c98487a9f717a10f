package plugin

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func TestReportOfVelerosAnswer(t *testing.T) {
	t.Parallel()
	answer := &velerov1.ServerStatusRequest{Status: velerov1.ServerStatusRequestStatus{Plugins: []velerov1.PluginInfo{
		{Name: "velero.io/aws", Kind: "ObjectStore"}, {Name: "velero.io/csi", Kind: "BackupItemActionV2"},
	}}}
	report, err := ReportOf(answer)
	require.NoError(t, err)
	require.Equal(t, []serverreport.Plugin{
		{Name: "velero.io/aws", Kind: "ObjectStore", Version: 1, Status: serverreport.Unknown},
		{Name: "velero.io/csi", Kind: "BackupItemAction", Version: 2, Status: serverreport.Unknown},
	}, report.Plugins)

	metav1.SetMetaDataAnnotation(&answer.ObjectMeta, serverreport.PluginsAnnotation, "{")
	_, err = ReportOf(answer)
	require.ErrorContains(t, err, "annotation cleat.dev/plugins of the server's answer is not a report of plugins")
}
