package install_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptInstall_ClientChecks gives the commands that create objects values that the server would refuse, or take for
// something else. The command fails, says what would be right, and creates nothing.
func TestAcceptInstall_ClientChecks(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	for name, phase := range map[string]velerov1.BackupPhase{"good": "Completed", "failed": "Failed"} {
		require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Spec:       velerov1.BackupSpec{StorageLocation: "default"},
			Status:     velerov1.BackupStatus{Phase: phase}}))
	}
	require.NoError(t, s.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "nonsense"},
		Data:       map[string]string{"a": "version: v9"}}))
	const restore, schedule = "restore create x --from-backup good ", "schedule create x --schedule @daily "
	for wrong, want := range map[string]string{
		"--storage-location nope":                                       `--storage-location: there is no backup storage location "nope" in namespace `,
		"--volume-snapshot-locations nope":                              `--volume-snapshot-locations: there is no volume snapshot location "nope"`,
		"--resource-policies-configmap nope":                            `--resource-policies-configmap: there is no ConfigMap "nope"`,
		"--resource-policies-configmap nonsense":                        `version: "v9" is not supported, want v1`,
		"--ttl -1h":                                                     "--ttl: -1h0m0s: want 0 or more",
		"--csi-snapshot-timeout -1h":                                    "--csi-snapshot-timeout: -1h0m0s: want 0 or more",
		"--item-operation-timeout -1h":                                  "--item-operation-timeout: -1h0m0s: want 0 or more",
		"--parallel-files-upload -1":                                    "--parallel-files-upload: -1: want 0 or more",
		"--include-namespaces Shop":                                     `invalid namespace "Shop"`,
		"--include-namespaces a --exclude-namespaces a":                 "excludes list cannot contain an item in the includes list: a",
		"--include-resources pods --exclude-resources *":                "excludes list cannot contain '*'",
		"--selector a==b==c":                                            "--selector",
		"--selector a=b --or-selector c=d":                              "cannot be used together",
		"--include-resources pods --include-cluster-scoped-resources *": "use one family of filters",
	} {
		for _, command := range []string{"backup create x ", schedule} {
			requireRefused(s, command+wrong, want)
		}
	}
	for wrong, want := range map[string]string{
		"backup create x --from-schedule nope":                                `--from-schedule: schedules.velero.io "nope" not found`,
		"schedule create x --schedule nonsense":                               "--schedule: invalid schedule: ",
		"schedule create x --schedule 61_*_*_*_*":                             "--schedule: invalid schedule: ",
		"schedule create " + strings.Repeat("x", 250) + " --schedule @daily":  "the name of the schedule has 250 characters",
		"restore create x --from-backup nope":                                 `--from-backup: backups.velero.io "nope" not found`,
		"restore create x --from-backup failed":                               "backup failed is Failed, want Completed or PartiallyFailed",
		"restore create x --from-schedule nope":                               "schedule nope has no backup that can be restored",
		restore + "--existing-resource-policy nonsense":                       "nonsense; want none or update",
		restore + "--existing-resource-policy nonsense -o yaml":               "nonsense; want none or update",
		restore + "--resource-modifier-configmap nope":                        `--resource-modifier-configmap: there is no ConfigMap "nope"`,
		restore + "--resource-modifier-configmap nonsense":                    "--resource-modifier-configmap: ",
		restore + "--resource-policies-configmap nope":                        `--resource-policies-configmap: there is no ConfigMap "nope"`,
		restore + "--resource-policies-configmap nonsense":                    `version: "v9" is not supported, want v1`,
		restore + "--namespace-mappings a:B":                                  `"B" is not the name of a namespace`,
		restore + "--parallel-files-download -1":                              "files-download: -1: want 0 or more",
		restore + "--item-operation-timeout -1s":                              "timeout: -1s: want 0 or more",
		restore + "--include-resources nodes":                                 "nodes are non-restorable resources",
		restore + "--status-include-resources a --status-exclude-resources a": "resource lists of restoreStatus",
	} {
		requireRefused(s, wrong, want)
	}
	var list velerov1.BackupList
	var restores velerov1.RestoreList
	var schedules velerov1.ScheduleList
	for _, l := range []client.ObjectList{&list, &restores, &schedules} {
		require.NoError(t, s.Client.List(t.Context(), l, client.InNamespace(s.Namespace)))
	}
	require.Len(t, list.Items, 2)
	require.Empty(t, restores.Items)
	require.Empty(t, schedules.Items)
	require.Contains(t, s.Must("restore", "create", "x", "--from-backup", "good", "--skip-default-resource-modifier", "-o",
		"yaml"), "skipDefaultResourceModifier: true")
}

// requireRefused requires that a command fails with a text. Underscores stand for spaces in arguments.
func requireRefused(s *site.Site, command, want string) {
	s.T.Helper()
	args := strings.Fields(command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "_", " ")
	}
	_, errs, err := s.Run(args...)
	require.Error(s.T, err, command)
	require.Contains(s.T, errs, want, command)
}
