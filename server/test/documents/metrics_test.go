package documents_test

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/internal/control/backupqueue"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// metric is a metric of a program.
type metric struct{ name, help, labels string }

// recorder collects the descriptions of the registered metrics.
type recorder struct {
	prometheus.Registerer
	metrics map[string]metric
}

func newRecorder() *recorder {
	return &recorder{Registerer: prometheus.NewRegistry(), metrics: map[string]metric{}}
}

// description matches the text of a prometheus.Desc.
var description = regexp.MustCompile(
	`^Desc\{fqName: "([^"]+)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// Register implements prometheus.Registerer.
func (r *recorder) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 100)
	c.Describe(described)
	close(described)
	for desc := range described {
		match := description.FindStringSubmatch(desc.String())
		if match == nil {
			return fmt.Errorf("%s is no description of a metric", desc)
		}
		r.metrics[match[1]] = metric{name: match[1], help: match[2], labels: match[3]}
	}
	return r.Registerer.Register(c)
}

// withMetrics are the packages whose metrics registerMetrics registers. The package server/app serves them.
var withMetrics = []string{
	"server/app", "server/internal/control/backupqueue", "server/internal/control/metrics",
	"server/internal/control/policy",
	"server/internal/engine/operation", "server/internal/host/pluginhost", "server/internal/host/pluginhost/calls",
	"server/internal/host/pluginhost/process", "server/internal/node",
}

// registerMetrics returns the metrics of the server, of the node agent, and of both.
func registerMetrics(t *testing.T) (server, agent, both map[string]metric) {
	t.Helper()
	common := newRecorder()
	settings := app.Config{Options: config.Defaults(), File: &config.File{}, Log: hclog.NewNullLogger()}
	host, err := app.NewHost(t.Context(), settings, common, nil, nil)
	require.NoError(t, err)
	t.Cleanup(host.Close)
	_, err = policy.New(&config.File{}, policy.Deps{Host: host, Log: hclog.NewNullLogger(), Metrics: common})
	require.NoError(t, err)
	ofServer := newRecorder()
	_, err = metrics.New(ofServer, client.Client(nil), "")
	require.NoError(t, err)
	_, err = backupqueue.NewMetrics(ofServer)
	require.NoError(t, err)
	_, err = operation.NewMonitor(nil, operation.Options{Metrics: ofServer})
	require.NoError(t, err)
	ofAgent := newRecorder()
	_, err = node.NewMetrics(ofAgent, "n", 1)
	require.NoError(t, err)
	return ofServer.metrics, ofAgent.metrics, common.metrics
}

// metricOfPage matches the name of a metric in a page.
var metricOfPage = regexp.MustCompile(`\b(?:cleat|velero|podVolume)_[a-z0-9_]+`)

// TestDocumentsMetrics checks that the reference lists each metric of the programs, and that the pages name no others.
func TestDocumentsMetrics(t *testing.T) {
	t.Parallel()
	server, agent, both := registerMetrics(t)
	page := &strings.Builder{}
	page.WriteString("# Metrics\n\n" +
		"Server and node agent serve `/metrics` at `--metrics-address`. Metrics of Velero have the names of Velero. The\n" +
		"metrics of the library controller-runtime (`controller_runtime_*`, `workqueue_*`, `rest_client_*`,\n" +
		"`leader_election_*`) are served too.\n")
	names := map[string]bool{}
	for _, part := range []struct {
		title   string
		metrics map[string]metric
	}{{"Server", server}, {"Node agent", agent}, {"Both", both}} {
		page.WriteString("\n## " + part.title + "\n" + tableHead("metric", "labels", "meaning"))
		for _, name := range slices.Sorted(maps.Keys(part.metrics)) {
			m := part.metrics[name]
			require.NotEmpty(t, m.help, "%s has no help", name)
			labels := strings.ReplaceAll(code(m.labels), ",", "`, `")
			page.WriteString(tableRow(code(name), labels, escape(m.help)))
			for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
				names[name+suffix] = true
			}
		}
	}
	checkReference(t, "metrics.md", page.String())

	var problems []string
	for _, source := range sources(t, "server", "plugins", "framework") {
		if !slices.Contains(withMetrics, path.Dir(source.path)) && createsMetrics(source.file) {
			problems = append(problems, source.path+" creates metrics that registerMetrics does not register")
		}
	}
	for path, text := range pages(t) {
		for _, name := range metricOfPage.FindAllString(text, -1) {
			begins := func(n string) bool { return strings.HasPrefix(n, name) }
			isFamily := strings.HasSuffix(name, "_") && slices.ContainsFunc(slices.Collect(maps.Keys(names)), begins)
			if !names[name] && !isFamily && !strings.HasSuffix(name, "_test") {
				problems = append(problems, fmt.Sprintf("%s: there is no metric %s", path, name))
			}
		}
	}
	report(t, problems)
}

// createsMetrics reports whether a file calls a constructor of the Prometheus client.
func createsMetrics(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == "prometheus" && strings.HasPrefix(selector.Sel.Name, "New") {
				found = true
			}
		}
		return true
	})
	return found
}
