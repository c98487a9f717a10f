package backup_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

// TestVolumesOfPodsAreChosen backs up pods with volumes of all kinds, and requires the volumes that the action is
// called to back up. The rows are Velero's rules.
func TestVolumesOfPodsAreChosen(t *testing.T) {
	t.Parallel()
	config := fixtureWorld(t)
	const (
		sources = `{"name":"dir","emptyDir":{}},{"name":"claim","persistentVolumeClaim":{"claimName":"data"}},{"name":"host","hostPath":{"path":"/"}},
			{"name":"conf","configMap":{"name":"c"}},{"name":"key","secret":{"secretName":"s"}},{"name":"down","downwardAPI":{}},{"name":"mixed","projected":{"sources":[]}},
			{"name":"default-token-x","emptyDir":{}},{"name":"idle","emptyDir":{}},{"name":"device","persistentVolumeClaim":{"claimName":"raw"}},
			{"name":"own","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}`
		mounts = `[{"name":"dir","mountPath":"/a"},{"name":"claim","mountPath":"/b"},{"name":"host","mountPath":"/c"},{"name":"conf","mountPath":"/d"},
			{"name":"key","mountPath":"/e"},{"name":"down","mountPath":"/f"},{"name":"mixed","mountPath":"/g"},{"name":"default-token-x","mountPath":"/h"},{"name":"own","mountPath":"/i"}]`
		optIn, optOut = "backup.velero.io/backup-volumes", "backup.velero.io/backup-volumes-excludes"
	)
	rows := map[string]struct {
		in, out  string // annotations
		always   bool   // defaultVolumesToFsBackup
		rules    string
		phase    corev1.PodPhase // Running if empty
		pods     int             // 1 if 0
		uploader string          // kopia if empty
		excluded bool            // by a label of the claim data
		want     string
		warns    []string
		fails    string
	}{
		"nothing asked": {},
		"opt-in":        {in: "dir,claim", want: "dir,claim"},
		"opt-in of others": {in: "dir,host,conf,gone", want: "dir", warns: []string{"volume host is not backed up",
			"volume conf is not backed up", `names volume "gone"`}},
		"all": {always: true, want: "dir,claim,own",
			warns: []string{"volume idle is not backed up from the file system: no container mounts it",
				"volume device is not backed up from the file system: it is a block device"}},
		"opt-out":              {always: true, out: "claim,idle,device", want: "dir,own"},
		"opt-in is no opt-out": {always: true, in: "dir", out: "idle,device", want: "dir,claim,own"},
		"a rule adds": {rules: "{conditions: {volumeTypes: [emptyDir]}, action: {type: fs-backup}}", want: "dir",
			warns: []string{"volume idle"}},
		"a rule for claims": {rules: "{conditions: {pvcLabels: {tier: db}}, action: {type: fs-backup}}", want: "claim"},
		"a rule takes": {always: true, out: "idle,device",
			rules: "{conditions: {volumeTypes: [emptyDir]}, action: {type: skip}}", want: "claim,own"},
		"snapshot by rule": {in: "dir,claim", rules: "{conditions: {pvcLabels: {tier: db}}, action: {type: snapshot}}",
			want: "dir"},
		"pending": {in: "dir,claim", phase: corev1.PodPending,
			warns: []string{"volumes dir, claim not backed up from the file system: the pod is not running, it is Pending"}},
		"succeeded": {in: "dir", phase: corev1.PodSucceeded,
			warns: []string{"volume dir not backed up from the file system: the pod is not running, it is Succeeded"}},
		"an ephemeral volume": {in: "own", want: "own"},
		"excluded by label":   {always: true, out: "idle,device", excluded: true, want: "dir,own"},
		"excluded and asked": {in: "dir,claim", excluded: true, want: "dir",
			warns: []string{"although annotation backup.velero.io/backup-volumes names it: its claim data or persistent " +
				"volume has the label velero.io/exclude-from-backup=true"}},
		"a shared claim": {in: "claim", pods: 2, want: "claim"},
		"no data mover": {in: "dir", uploader: "tape",
			fails: "volume dir cannot be backed up from the file system with uploader \"tape\""},
	}
	number := 0
	for name, row := range rows {
		number++
		ns := fmt.Sprintf("volumes-of-pods-%d", number)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create(t.Context(), t, config, fixtureObject{"namespaces", "v1", "Namespace", "", ns, nil, ""})
			for _, claim := range []string{"data", "raw", "pod-0-own"} {
				labels := labelSet{"tier": map[string]string{"data": "db", "raw": "raw"}[claim]}
				if row.excluded && claim == "data" {
					labels[velerov1.ExcludeFromBackupLabel] = "true"
				}
				create(t.Context(), t, config, fixtureObject{"persistentvolumeclaims", "v1", "PersistentVolumeClaim", ns, claim,
					labels,
					`"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","volumeName":"none-of-` + ns +
						`","resources":{"requests":{"storage":"1Gi"}}}`})
			}
			annotations, err := json.Marshal(map[string]string{optIn: row.in, optOut: row.out})
			require.NoError(t, err)
			for i := range max(1, row.pods) {
				pod := fixtureObject{"pods", "v1", "Pod", ns, fmt.Sprintf("pod-%d", i), nil,
					fmt.Sprintf(`"metadata":{"annotations":%s},"spec":{"nodeName":"n","automountServiceAccountToken":false,
					"containers":[{"name":"a","image":"a","volumeMounts":%s,"volumeDevices":[{"name":"device","devicePath":"/dev/x"}]}],"volumes":[%s]}`, annotations, mounts, sources)}
				create(t.Context(), t, config, pod)
				phase := corev1.PodRunning
				if row.phase != "" {
					phase = row.phase
				}
				_, err := resourceClient(t, config, pod).Patch(t.Context(), pod.name, types.MergePatchType,
					[]byte(`{"status":{"phase":"`+string(phase)+`"}}`), metav1.PatchOptions{}, "status")
				require.NoError(t, err)
			}
			var mu sync.Mutex
			var asked []string
			action := &testAction{
				name: "example.com/volumes", starts: versioning.NoOperations, selector: framework.ResourceSelector{
					IncludedResources: []string{"pods"},
				},
				execute: func(item []byte) (*backupitemaction.Result, error) {
					var pod corev1.Pod
					if err := json.Unmarshal(item, &pod); err != nil {
						return nil, err
					}
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, pod.Annotations[optIn])
					return &backupitemaction.Result{Item: item}, nil
				},
			}
			deps := depsFor(t, config)
			if deps.Uploader = "kopia"; row.uploader != "" {
				deps.Uploader = row.uploader
			}
			request := backup.Request{
				Actions: []backupitemaction.Action{action},
				Backup:  newBackup(func(s *spec) { s.IncludedNamespaces, s.DefaultVolumesToFsBackup = []string{ns}, &row.always }),
			}
			if row.rules != "" {
				rules := "version: v1\nvolumePolicies: [" + row.rules + "]"
				request.Policy, err = resourcepolicy.Parse(&corev1.ConfigMap{Data: map[string]string{"p": rules}})
				require.NoError(t, err)
			}
			b := take(t.Context(), t, deps, request)
			if row.fails != "" {
				require.Contains(t, fmt.Sprint(b.Results.Errors), row.fails)
				return
			}
			require.Zero(t, b.Errors, b.Results.Errors)
			require.Equal(t, row.want, strings.Join(asked, "|"))
			for _, warning := range row.warns {
				require.Contains(t, fmt.Sprint(b.Results.Warnings), warning)
			}
			var recorded []string
			for _, info := range b.Volumes {
				require.Equal(t, volumes.PodVolume, info.BackupMethod)
				recorded = append(recorded, info.PodVolume.VolumeName)
			}
			require.ElementsMatch(t, strings.FieldsFunc(row.want, func(r rune) bool { return r == ',' }), recorded)
		})
	}
}
