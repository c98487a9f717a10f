// Package monitoring has the alerts and the dashboard of an installation: rules of Prometheus, and a dashboard of
// Grafana. The Helm chart has both. It imports nothing of the server.
package monitoring

import _ "embed"

// Alerts is a file of Prometheus rules. Its groups are the spec of a PrometheusRule too.
//
//go:embed alerts.yaml
var Alerts []byte

// Dashboard is a dashboard that Grafana imports. It asks for the Prometheus to use.
//
//go:embed dashboard.json
var Dashboard []byte
