package node

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Metrics are the metrics of one node's agent: Velero's, under the same names, and cleat's. Methods of a nil *Metrics
// do nothing.
type Metrics struct {
	node string

	enqueued, dequeued *prometheus.CounterVec   // PodVolumeBackups
	latencies          *prometheus.HistogramVec // of PodVolumeBackups, one series for each
	latency            *prometheus.GaugeVec
	// DataUploads and DataDownloads by kind and end
	moved map[string]map[velerov1.LoadPhase]*prometheus.CounterVec

	ended   *prometheus.CounterVec
	lost    *prometheus.CounterVec
	waited  *prometheus.HistogramVec
	waiting *prometheus.GaugeVec
	moving  prometheus.Gauge
}

// NewMetrics registers the metrics of the agent of a node. The agent moves no more than limit loads at once.
func NewMetrics(registry prometheus.Registerer, node string, limit int) (*Metrics, error) {
	var all []prometheus.Collector
	counter := func(namespace, name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		all = append(all, c)
		return c
	}
	const velero = "podVolume"
	each := []string{"node", "operation", "backupName", "pod_volume_backup"}
	m := &Metrics{
		node:     node,
		enqueued: counter(velero, "pod_volume_backup_enqueue_count", "PodVolumeBackups that were accepted.", "node"),
		dequeued: counter(velero, "pod_volume_backup_dequeue_count", "PodVolumeBackups that were Completed.", "node"),
		latencies: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: velero, Name: "pod_volume_operation_latency_seconds",
			Help:    "How long the data of a PodVolumeBackup was moved.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 9),
		}, each),
		latency: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: velero, Name: "pod_volume_operation_latency_seconds_gauge",
			Help: "How long the data of a PodVolumeBackup was moved.",
		}, each),
		moved: map[string]map[velerov1.LoadPhase]*prometheus.CounterVec{},
		ended: counter("cleat", "load_ended_total", "Loads that have ended.", "kind", "phase"),
		lost: counter("cleat", "load_attempt_lost_total",
			"Attempts to move the data of a load whose mover has ended before it answered.", "kind", "reason"),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "cleat", Name: "load_wait_seconds", Help: "How long loads were New until they were Accepted.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 9),
		}, []string{"kind"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "cleat", Name: "load_waiting", Help: "New loads of this agent that the policy has not admitted.",
		}, []string{"kind"}),
		moving: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "cleat", Name: "load_moving",
			Help: "Loads whose data this agent moves."}),
	}
	for kind, name := range map[string]string{"DataUpload": "data_upload", "DataDownload": "data_download"} {
		m.moved[kind] = map[velerov1.LoadPhase]*prometheus.CounterVec{
			velerov1.LoadPhaseCompleted: counter(velero, name+"_success_total", kind+"s that are Completed.", "node"),
			velerov1.LoadPhaseFailed:    counter(velero, name+"_failure_total", kind+"s that have Failed.", "node"),
			velerov1.LoadPhaseCanceled:  counter(velero, name+"_cancel_total", kind+"s that were Canceled.", "node"),
		}
		for _, counters := range m.moved[kind] {
			counters.WithLabelValues(node)
		}
	}
	limits := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "cleat", Name: "load_limit",
		Help: "How many loads this agent moves at once."})
	limits.Set(float64(limit))
	for _, c := range append(all, m.latencies, m.latency, m.waited, m.waiting, m.moving, limits) {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the node agent: %w", err)
		}
	}
	return m, nil
}

// accept counts a load that became Accepted.
func (m *Metrics) accept(l *load, now time.Time) {
	if m == nil {
		return
	}
	m.waited.WithLabelValues(l.name).Observe(max(0, now.Sub(l.GetCreationTimestamp().Time).Seconds()))
	if l.is(new(velerov1.PodVolumeBackup)) {
		m.enqueued.WithLabelValues(m.node).Inc()
	}
}

// end counts a load that has ended.
func (m *Metrics) end(l *load) {
	if m == nil {
		return
	}
	m.ended.WithLabelValues(l.name, string(l.phase())).Inc()
	if counters := m.moved[l.name]; counters != nil {
		counters[l.phase()].WithLabelValues(m.node).Inc()
	}
	start, end := l.status.StartTimestamp, l.status.CompletionTimestamp
	if l.phase() != velerov1.LoadPhaseCompleted || !l.is(new(velerov1.PodVolumeBackup)) || start == nil || end == nil {
		return
	}
	m.dequeued.WithLabelValues(m.node).Inc()
	operation := fmt.Sprintf("%s-%s-%s-%s-backup", l.GetName(), l.spec.location, l.spec.pod.Namespace, l.spec.engine)
	labels := []string{m.node, operation, l.GetNamespace() + "/" + l.owner(), l.GetName()}
	seconds := end.Sub(start.Time).Seconds()
	m.latencies.WithLabelValues(labels...).Observe(seconds)
	m.latency.WithLabelValues(labels...).Set(seconds)
}

// lose counts an attempt that was lost.
func (m *Metrics) lose(l *load, memory bool) {
	if m == nil {
		return
	}
	reason := "ended"
	if memory {
		reason = "memory"
	}
	m.lost.WithLabelValues(l.name, reason).Inc()
}

// forget removes the series of a PodVolumeBackup that was deleted.
func (m *Metrics) forget(k *kind, name string) {
	if m == nil || !k.is(new(velerov1.PodVolumeBackup)) {
		return
	}
	m.latencies.DeletePartialMatch(prometheus.Labels{"pod_volume_backup": name})
	m.latency.DeletePartialMatch(prometheus.Labels{"pod_volume_backup": name})
}

// wait sets the number of loads that wait, by kind.
func (m *Metrics) wait(kinds []*kind, waiting map[string]int) {
	if m == nil {
		return
	}
	for _, k := range kinds {
		m.waiting.WithLabelValues(k.name).Set(float64(waiting[k.name]))
	}
}

// move sets the number of loads whose data is moved.
func (m *Metrics) move(loads int) {
	if m != nil {
		m.moving.Set(float64(loads))
	}
}
