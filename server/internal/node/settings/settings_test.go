package settings_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/internal/node/settings"
)

func configMap(document string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "agents"},
		Data:       map[string]string{"node-agent.json": document},
	}
}

// sample is a document with all keys.
const sample = `{
	"loadConcurrency": {
		"globalConfig": 2,
		"perNodeConfig": [
			{"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "node1"}}, "number": 3},
			{"nodeSelector": {"matchLabels": {"beta.kubernetes.io/instance-type": "Standard_B4ms"}}, "number": 5}
		],
		"prepareQueueLength": 2
	},
	"loadAffinity": [
		{"nodeSelector": {"matchLabels": {"disk": "any"}}},
		{"nodeSelector": {"matchLabels": {"disk": "ssd"}}, "storageClass": "fast"}
	],
	"backupPVC": {"fast": {"storageClass": "fast-read", "readOnly": true, "spcNoRelabeling": true, "annotations": {"a": "b"},
		"secretNames": ["token"], "configMapNames": ["vault"]}},
	"restorePVC": {"ignoreDelayBinding": true, "secretNames": ["token"], "configMapNames": ["vault"]},
	"podResources": {"cpuRequest": "500m", "memoryLimit": "1Gi"},
	"priorityClassName": "low", "privilegedFsBackup": true,
	"cachePVC": {"storageClass": "fast", "residentThresholdInMB": 1024},
	"podAnnotations": {"a": "b"}, "podLabels": {"c": "d"}
}`

func TestSampleIsUnderstood(t *testing.T) {
	t.Parallel()
	s, warnings, err := settings.Parse(configMap(sample))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, 2, s.LoadConcurrency.PrepareQueueLength)
	require.Equal(t, map[string]string{"disk": "ssd"}, s.Affinity("fast").MatchLabels)
	require.Equal(t, map[string]string{"disk": "any"}, s.Affinity("slow").MatchLabels)
	require.Nil(t, new(settings.Settings).Affinity("slow"))
	copies := settings.Copies{SecretNames: []string{"token"}, ConfigMapNames: []string{"vault"}}
	require.Equal(t, copies, s.BackupPVC["fast"].Copies)
	require.Equal(t, copies, s.RestorePVC.Copies)
	require.Equal(t, []string{"backupPVC", "cachePVC", "loadAffinity", "podAnnotations", "podLabels", "podResources",
		"priorityClassName", "privilegedFsBackup", "restorePVC"}, s.WithoutEffect(false, false))
	require.Equal(t, []string{"cachePVC", "privilegedFsBackup"}, s.WithoutEffect(true, false))
	require.Empty(t, s.WithoutEffect(true, true))
	require.Empty(t, new(settings.Settings).WithoutEffect(false, false))
	requirements, err := s.PodResources.Requirements()
	require.NoError(t, err)
	require.Equal(t, "500m", requirements.Requests.Cpu().String())
	require.Equal(t, "1Gi", requirements.Limits.Memory().String())
}

func TestLimitOfNodeIsTheLowestThatMatches(t *testing.T) {
	t.Parallel()
	s, _, err := settings.Parse(configMap(sample))
	require.NoError(t, err)
	for want, labels := range map[string]map[string]string{
		"3 loadConcurrency.perNodeConfig[0]": {"kubernetes.io/hostname": "node1",
			"beta.kubernetes.io/instance-type": "Standard_B4ms"},
		"5 loadConcurrency.perNodeConfig[1]": {"kubernetes.io/hostname": "node2",
			"beta.kubernetes.io/instance-type": "Standard_B4ms"},
		"2 loadConcurrency.globalConfig": {"kubernetes.io/hostname": "node2"},
	} {
		limit, why := s.LoadConcurrency.NodeLimit(labels)
		require.Equal(t, want, string(rune('0'+limit))+" "+why)
	}
	limit, why := new(settings.LoadConcurrency).NodeLimit(nil)
	require.Equal(t, 1, limit)
	require.Equal(t, "the default", why)
}

func TestValuesWithoutMeaningAreIgnoredWithWarning(t *testing.T) {
	t.Parallel()
	s, warnings, err := settings.Parse(configMap(`{"loadConcurrency": {
		"globalConfig": -3, "prepareQueueLength": -1, "perNodeConfig": [{"nodeSelector": {}, "number": 0}, {"nodeSelector": {}, "number": 4}]
	}, "backupPVC": {"fast": {"spcNoRelabeling": true, "sparse": 1}}, "podResources": {"cpuRequest": "2", "cpuLimit": "1"},
		"cachePVC": {}, "loadConcurency": {}, "prepareQueueLength": 2}`))
	require.NoError(t, err)
	require.Equal(t, []string{
		"ConfigMap velero/agents: backupPVC.fast.spcNoRelabeling is ignored, because it needs readOnly: true",
		"ConfigMap velero/agents: cachePVC is ignored, because it needs a storageClass",
		"ConfigMap velero/agents: loadConcurrency.globalConfig is -3 and is ignored, want a positive number: the limit is 1",
		"ConfigMap velero/agents: loadConcurrency.perNodeConfig[0].number is 0, want a positive number: the rule is ignored",
		"ConfigMap velero/agents: loadConcurrency.prepareQueueLength is -1 and is ignored, want a positive number: any " +
			"number of loads is prepared at once",
		"ConfigMap velero/agents: podResources are ignored: podResources: the request of cpu is 2, more than the limit 1",
		"ConfigMap velero/agents: backupPVC.fast.sparse is unknown and has no effect",
		"ConfigMap velero/agents: loadConcurency is unknown and has no effect",
		"ConfigMap velero/agents: prepareQueueLength is at the top level, where it has no effect; write it as " +
			`loadConcurrency.prepareQueueLength: {"loadConcurrency": {"prepareQueueLength": ...}}`,
	}, warnings)
	require.Nil(t, s.CachePVC)
	require.Zero(t, s.LoadConcurrency.PrepareQueueLength)
	limit, _ := s.LoadConcurrency.NodeLimit(map[string]string{"any": "node"})
	require.Equal(t, 4, limit)
}

func TestDocumentsThatCannotBeUnderstoodAreErrors(t *testing.T) {
	t.Parallel()
	for want, document := range map[string]string{
		`key "loadAffinity" already set`:                "loadAffinity: []\nloadAffinity: []",
		`cannot unmarshal object into Go struct field`:  `{"podLabels": {"a": {}}}`,
		`cannot unmarshal string into Go struct field`:  `{"loadConcurrency": {"prepareQueueLength": "2"}}`,
		`loadConcurrency.perNodeConfig[0].nodeSelector`: `{"loadConcurrency": {"perNodeConfig": [{"number": 1, "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]}}`,
		`loadAffinity[0].nodeSelector`:                  `{"loadAffinity": [{"nodeSelector": {"matchLabels": {"a": "b c"}}}]}`,
		`cannot unmarshal array`:                        `[]`,
		`yaml`:                                          `{"loadConcurrency": `,
	} {
		_, _, err := settings.Parse(configMap(document))
		require.ErrorContains(t, err, want, document)
	}
	two := configMap(`{}`)
	two.Data["other"] = `{}`
	_, _, err := settings.Parse(two)
	require.EqualError(t, err, "ConfigMap velero/agents: it has 2 keys in data (node-agent.json, other), want exactly "+
		"one with the YAML document")
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add(`{"prepareQueueLength": 2}`)
	f.Fuzz(func(t *testing.T, document string) {
		s, _, err := settings.Parse(configMap(document))
		if err != nil {
			return
		}
		limit, why := s.LoadConcurrency.NodeLimit(map[string]string{"a": "b"})
		require.Positive(t, limit)
		require.NotEmpty(t, why)
		require.GreaterOrEqual(t, s.LoadConcurrency.PrepareQueueLength, 0)
	})
}
