package app

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/setup/install/monitoring"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// known collects the names of the metrics that are registered.
type known struct {
	prometheus.Registerer
	names map[string]bool
}

var nameOf = regexp.MustCompile(`fqName: "([^"]+)"`)

// Register implements prometheus.Registerer.
func (k *known) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 100)
	c.Describe(described)
	close(described)
	for desc := range described {
		name := nameOf.FindStringSubmatch(desc.String())[1]
		k.names[name] = true
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			k.names[name+suffix] = true
		}
	}
	return k.Registerer.Register(c)
}

// registered returns the names of the metrics of a server and of a node agent.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	registry := &known{Registerer: prometheus.NewRegistry(), names: map[string]bool{}}
	host, err := NewHost(t.Context(), Config{Options: config.Defaults(), File: &config.File{}, Log: hclog.NewNullLogger()},
		registry, nil, nil)
	require.NoError(t, err)
	t.Cleanup(host.Close)
	_, err = metrics.New(registry, client.Client(nil), "")
	require.NoError(t, err)
	_, err = backupqueue.NewMetrics(registry)
	require.NoError(t, err)
	_, err = policy.New(&config.File{}, policy.Deps{Host: host, Log: hclog.NewNullLogger(), Metrics: registry})
	require.NoError(t, err)
	_, err = node.NewMetrics(registry, "n", 1)
	require.NoError(t, err)
	_, err = operation.NewMonitor(nil, operation.Options{Metrics: registry})
	require.NoError(t, err)
	return registry.names
}

// rule is a rule of Prometheus.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// TestMonitoringNamesMetricsOfTheServer parses the alerts and the dashboard with Prometheus' parser, and looks for each
// metric in them.
func TestMonitoringNamesMetricsOfTheServer(t *testing.T) {
	t.Parallel()
	var alerts struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	require.NoError(t, yaml.UnmarshalStrict(monitoring.Alerts, &alerts))
	var expressions []string
	names := map[string]bool{}
	for _, r := range alerts.Groups[0].Rules {
		require.False(t, names[r.Alert], "%s is there twice", r.Alert)
		names[r.Alert] = true
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		expressions = append(expressions, r.Expr)
	}

	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type string }
		}
	}
	require.NoError(t, json.Unmarshal(monitoring.Dashboard, &dashboard))
	for i, p := range dashboard.Panels {
		require.Equal(t, i+1, p.ID)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, target := range p.Targets { // as Grafana fills in its variables
			expressions = append(expressions, strings.NewReplacer("$__rate_interval", "5m", "$schedule",
				".*").Replace(target.Expr))
		}
	}
	parser, err := programs.BuildModule("server/test/promql")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), parser)
	cmd.Stdin = strings.NewReader(strings.Join(expressions, "\n") + "\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), errs.String())

	served, found := registered(t), 0
	for line := range strings.Lines(out.String()) {
		for _, name := range strings.Fields(line) {
			found++
			require.True(t, served[name], "the server has no metric %s", name)
		}
	}
	require.GreaterOrEqual(t, found, len(expressions))
}
