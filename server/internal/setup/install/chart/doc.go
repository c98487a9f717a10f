// Package chart writes a Helm chart that is rendered from the objects of server/internal/setup/install, so that both
// install the same.
//
// It takes the objects of an installation, puts marks where values of the chart belong, prints them as YAML, and
// replaces the marks by template code. What has no counterpart among those objects (schedules, the service for metrics)
// and the values with their descriptions are in files. Start reading at chart.go.
package chart
