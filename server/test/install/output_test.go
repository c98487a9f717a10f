package install_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// forms are the commands whose whole output is in a golden file, by the name of the file. Commands that end in help
// need no cluster.
var forms = map[string][]string{
	"backup": {
		"backup get", "get backups nightly-20200102000000 waiting", "backup get -l team=a --show-labels",
		"backup get -L team,velero.io/schedule-name",
		"backup describe nightly-20200102000000", "describe backups -l team=b",
		"describe backup nightly-20200101000000 waiting",
		"backup describe nightly-20200101000000 -o json --timeout 1ms", "backup describe waiting -o json",
		"backup get waiting -o yaml", "backup get -l team=none",
	},
	"backup-create": {
		"backup create plain -o yaml",
		"create backup full --include-namespaces a,b --exclude-namespaces c --include-resources pods --exclude-resources " +
			"secrets --include-cluster-resources=false --labels k=v " +
			"--annotations a=b --storage-location default --volume-snapshot-locations disks -l app=web --ordered-resources " +
			"pods=a/x,a/y;persistentvolumes=p " +
			"--csi-snapshot-timeout 1m --item-operation-timeout 2h --snapshot-volumes --snapshot-move-data=false --data-mover " +
			"example.io/mover " +
			"--default-volumes-to-fs-backup=true --resource-policies-configmap policies --parallel-files-upload 4 --ttl 24h " +
			"-o yaml",
		"backup create scoped --include-cluster-scoped-resources clusterroles --exclude-cluster-scoped-resources crds " +
			"--include-namespace-scoped-resources pods " +
			"--exclude-namespace-scoped-resources events --or-selector app=a|or|app=b -o yaml",
		"backup create now --from-schedule nightly --labels own=x -o yaml",
		"backup create now --from-schedule nightly --ttl 1h", "backup create --from-schedule=", "backup create",
		"backup create x -l a=b --or-selector c=d",
	},
	"restore": {
		"restore get", "restore describe back", "describe restores -l team=a",
		"restore describe back --details --timeout 1ms", "restore get -l team=a --show-labels",
		"restore create trial --from-backup nightly-20200102000000 --namespace-mappings a:b,c:d --existing-resource-policy " +
			"update --status-include-resources workflows " +
			"--status-exclude-resources pods --restore-volumes=false --preserve-nodeports --item-operation-timeout 1h " +
			"--resource-modifier-configmap m " +
			"--write-sparse-files --parallel-files-download 3 --labels a=b --annotations c=d --include-cluster-resources=true " +
			"-o yaml",
		"restore create trial --from-schedule nightly --allow-partially-failed -o json", "restore create trial",
		"restore create trial --from-backup none",
	},
	"schedule": {
		"schedule get", "get schedules -L team", "schedule describe nightly", "describe schedules -l team=none",
		"schedule get paused -o json",
		"schedule create hourly --schedule @hourly --ttl 1h --use-owner-references-in-backup --paused " +
			"--skip-immediately=true --include-namespaces shop -o yaml",
		"create schedule x", "schedule pause nightly", "schedule pause nightly",
		"schedule unpause -l team=a --skip-immediately", "delete schedules paused --confirm",
	},
	"location": {
		"repo get", "repo get -l team=a", "backup-location get", "get backup-location --default",
		"backup-location get far -o yaml", "snapshot-location get", "get snapshot-locations disks -o json",
		"backup-location create new --provider aws --bucket b -o yaml", "snapshot-location create new --provider aws -o yaml",
	},
	"other": {
		"--colorized --features=EnableCSI backup get waiting", "--logtostderr=true -v 0 backup get waiting",
		"__complete backup describe nightly-", "__complete delete backup nightly-20200101000000 ''", "__complete get ''",
		"__complete restore logs b", "client config set x=y",
		"plugin add", "version --client-only",
	},
	"help": {
		"backup --help", "restore --help", "schedule --help", "backup-location --help", "snapshot-location --help",
		"plugin --help", "get --help", "describe --help", "create --help", "delete --help",
		"client --help", "help",
	},
}

// TestAcceptInstall_OutputOfCommands compares the output of commands for fixed objects, and for mistakes, with golden
// files.
func TestAcceptInstall_OutputOfCommands(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	require.NoError(t, s.Client.Delete(t.Context(),
		&velerov1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "default"}}))
	apply(s, filepath.Join("testdata", "forms", "objects.yaml"))
	for _, name := range []string{"backup", "backup-create", "restore", "schedule", "location", "other", "help"} {
		// One changes what the next shows.
		var all strings.Builder
		for _, form := range forms[name] {
			args := strings.Fields(form)
			for i, arg := range args {
				args[i] = strings.ReplaceAll(strings.Trim(arg, "'"), "|", " ")
			}
			if args[0] == "__complete" { // as a shell calls it: the last word is incomplete
				args = slices.Concat(args[:1], []string{"--kubeconfig", s.Kubeconfig, "--namespace", s.Namespace}, args[1:])
			}
			out, errs, err := s.Run(args...)
			all.WriteString("$ cleat " + form + "\n" + out)
			if err != nil || errs != "" {
				all.WriteString("! " + strings.ReplaceAll(strings.TrimSuffix(errs, "\n"), "\n", "\n! ") + "\n")
			}
			all.WriteString("\n")
		}
		requireForms(s, name+".txt", all.String())
	}
}

// changing matches the parts that differ from one run of the test to the next.
var changing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`cleat-[a-z0-9]{5}\b`), "velero"}, // the namespace
	{regexp.MustCompile(`(uid: |"uid": ")[-0-9a-f]{36}`), "${1}<uid>"},
	{regexp.MustCompile(`(resourceVersion: "|"resourceVersion": ")\d+`), "${1}<version>"},
	{regexp.MustCompile(`nightly-20(2[1-9]|[3-9]\d)\d{10}`), "nightly-<time>"},
	// The objects are from 2020.
	{regexp.MustCompile(`20(2[1-9]|[3-9]\d)-\d\d-\d\d[ T]\d\d:\d\d:\d\d( \+0000 UTC|Z)`), "<now>"},
	{regexp.MustCompile(`\b(\d+[ydhms])+ ago +`), "<age> ago   "},
	{regexp.MustCompile(`\b9\d\dy(\d+d)? +`), "<left>   "},
	{regexp.MustCompile(`(CREATED|EXPIRES) {3,}`), "$1   "},
	{regexp.MustCompile(`/\S+/\.config/`), "~/.config/"},
}

// requireForms compares text with a golden file, except for the changing parts.
func requireForms(s *site.Site, name, text string) {
	s.T.Helper()
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.with)
	}
	path := filepath.Join("testdata", "forms", name)
	if *site.Update {
		require.NoError(s.T, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(s.T, err)
	require.Equal(s.T, string(want), text, "of %s; -update writes it", path)
}

// apply creates the objects of a file in the namespace of the site, with their statuses: the definitions have no status
// sub-resource.
func apply(s *site.Site, path string) {
	s.T.Helper()
	file, err := os.Open(path)
	require.NoError(s.T, err)
	defer func() { _ = file.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(s.T, err)
		object.SetNamespace(s.Namespace)
		require.NoError(s.T, s.Client.Create(s.T.Context(), object))
	}
}
