package install_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/velero"
)

// awaitSettled waits until the server has made all its writes to a location that is validated and synchronised once.
func awaitSettled(s *site.Site, name string) {
	s.T.Helper()
	s.Eventually("the location is validated and synchronised", func(ctx context.Context) (bool, error) {
		var location velerov1.BackupStorageLocation
		err := s.Client.Get(ctx, s.Key(name), &location)
		return location.Status.LastValidationTime != nil && location.Status.LastSyncedTime != nil, err
	})
}

// TestAcceptInstall_VelerosClient runs the commands of Velero's client against a cleat server that uses Velero's
// plugin for S3. The other commands need no server, or are in TestAcceptInstall_TakeOver ("install", "uninstall").
func TestAcceptInstall_VelerosClient(t *testing.T) {
	t.Parallel()
	programs := velero.Get(t)
	s := site.New(t, "aws")
	v := &velero.Site{Programs: programs, Kubeconfig: s.Kubeconfig, Namespace: s.Namespace, WorkDir: t.TempDir()}
	s.Serve("--plugin-dir", v.PluginDir)
	s.Available()
	shop, file := s.Workload(3), filepath.Join(t.TempDir(), "b.tar.gz")
	deployment := veleroDeployment(s, "ghcr.io/cleat-dev/cleat:v1", "server")
	deployment.Spec.Replicas = new(int32)
	require.NoError(t, s.Client.Create(t.Context(), deployment))
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.BackupRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "shop-default-kopia"},
		Spec: velerov1.BackupRepositorySpec{VolumeNamespace: shop, BackupStorageLocation: "default",
			RepositoryType: "kopia"},
		Status: velerov1.BackupRepositoryStatus{Phase: "Ready"},
	}))
	s3 := "region=" + s.Cluster.S3.Region + ",s3Url=" + s.Cluster.S3.Endpoint + ",s3ForcePathStyle=true"
	bucket := filepath.Base(s.BucketDir)

	for _, tt := range []struct {
		command string
		want    string // regular expression of the output
	}{
		{"version --timeout 5m",
			`^Client:\n\tVersion: v1\.18\.3\n\tGit commit: -\nServer:\n\tVersion: v1\.18\.3\+cleat\.\S+\n$`},
		{"install --crds-only", `backups.velero.io: already exists, proceeding(?s:.*)Velero is installed!`},
		{"plugin get --timeout 5m", `(?m)^velero.io/aws +ObjectStore$`},
		{"get plugins --timeout 5m", `(?m)^velero.io/pod +BackupItemAction$`},
		{"plugin add example.io/team/mover:v1 --confirm", `^$`},
		{"plugin remove example.io/team/mover:v1", `^$`},
		{"repo get", `(?m)^shop-default-kopia +Ready +\S+`},
		{"repo get shop-default-kopia", `(?m)^shop-default-kopia +Ready +\S+`},
		{"client config set colorized=false", `^$`},
		{"client config get", `colorized: false`},

		{"backup-location get", `(?m)^default +aws +` + bucket + ` +Available +\d{4}-\S+ .* ReadWrite +true$`},
		{"backup-location create other --provider aws --bucket " + bucket + " --prefix other --config " + s3 +
			" --credential cloud-credentials=cloud --access-mode ReadOnly --validation-frequency 1h --backup-sync-period 1h " +
			"--labels a=b", `configured successfully`},
		{"get backup-locations -l a=b", `(?m)^other +aws +` + bucket + `/other `},
		{"backup-location set other --credential cloud-credentials=cloud", `configured successfully`},
		{"backup-location delete other --confirm", `Backup storage location "other" deleted successfully`},
		{"snapshot-location create disks --provider velero.io/aws --config region=x --labels a=b", `configured successfully`},
		{"snapshot-location set disks --credential cloud-credentials=cloud", `configured successfully`},
		{"snapshot-location get", `(?m)^disks +velero.io/aws$`},

		{"backup create b --wait --include-namespaces " + shop +
			" --labels a=b --annotations c=d --ttl 25h --snapshot-volumes=false --item-operation-timeout 1h" +
			" --ordered-resources configmaps=" + shop + "/item-b," + shop +
			"/item-a --exclude-resources endpoints --csi-snapshot-timeout 1h", `Backup completed with status: Completed`},
		{"backup get", `(?m)^b +Completed +0 +0 +\d{4}-.* +1d +default +<none>$`},
		{"get backups b -o yaml", `(?s)ttl: 25h0m0s.*phase: Completed`},
		{"backup get -l a=b --show-labels", `(?m)^b +Completed .*a=b`},
		{"backup describe b --details", `(?s)Name: +b\n.*Phase: +.*Completed.*Resource List:\n.*- ` + shop + `/item-a`},
		{"describe backups b", `Phase: +.*Completed`},
		{"backup logs b", `level=info msg=".*backup=` + s.Namespace + `/b`},
		{"backup download b --output " + file, `successfully downloaded`},
		{"create backup selected --wait --selector x=y --include-cluster-scoped-resources namespaces " +
			"--include-namespace-scoped-resources configmaps", `status: Completed`},

		{"schedule create often --schedule @every_1h --include-namespaces " + shop +
			" --use-owner-references-in-backup --skip-immediately=true", `created successfully`},
		{"schedule get", `(?m)^often +Enabled +.* @every 1h +`},
		{"schedule describe often", `Schedule: +@every 1h`},
		{"schedule pause often", `Schedule often paused successfully`},
		{"schedule unpause often", `Schedule often unpaused successfully`},
		{"backup create by-schedule --from-schedule often --wait", `status: Completed`},
		{"restore create latest --from-schedule often --allow-partially-failed --wait --namespace-mappings " + shop + ":" +
			shop + "-s", `status: Completed`},
		{"schedule delete often --confirm", `Schedule deleted: often`},

		{"restore create r --from-backup b --wait --namespace-mappings " + shop + ":" + shop +
			"-r --labels a=b --annotations c=d --existing-resource-policy update" +
			" --include-resources configmaps --item-operation-timeout 1h --restore-volumes=false --preserve-nodeports=false " +
			"--status-include-resources none", `status: Completed`},
		{"restore get -l a=b", `(?m)^r +b +Completed +\d{4}-.* 0 +\d+ +\d{4}-`},
		{"restore describe r --details", `(?s)Phase: +.*Completed.*` + shop + `-r/item-a\(created\)`},
		{"restore logs r", `level=info`},
		{"describe restore r", `Backup: +b`},
		{"restore delete r --confirm", `Request to delete restore "r" submitted successfully`},
		{"backup delete b --confirm", `Request to delete backup "b" submitted successfully`},
	} {
		args := strings.Fields(tt.command)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "@every_1h", "@every 1h")
		}
		if strings.HasPrefix(tt.command, "backup-location set") {
			// Velero's client does not repeat an update after a conflict.
			awaitSettled(s, "other")
		}
		out, err := v.Run(t.Context(), args...)
		if err != nil || !regexp.MustCompile(tt.want).MatchString(out) {
			t.Errorf("velero %s: want %s, got:\n%s%v", tt.command, tt.want, out, err)
		}
	}
	require.FileExists(t, file)
	requireConfigMaps(s, shop+"-r", 3)
	requireConfigMaps(s, shop+"-s", 3)
	s.AwaitGone(&velerov1.Restore{}, "r")
	s.AwaitGone(&velerov1.Backup{}, "b")
	require.Empty(t, s.Files("backups/b"))

	// The output that scripts read.
	out, err := v.Run(t.Context(), "backup", "describe", "selected", "-o", "json", "--details")
	require.NoError(t, err)
	var described struct{ Phase string }
	require.NoError(t, json.Unmarshal([]byte(out), &described), out)
	require.Equal(t, "Completed", described.Phase)
	_, err = os.Stat(filepath.Join(s.BucketDir, "backups", "selected"))
	require.NoError(t, err)
}
