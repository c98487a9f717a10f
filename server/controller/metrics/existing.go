package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// countTimeout bounds a count, which reads from the cache.
const countTimeout = 5 * time.Second

// existing counts the backups and restores that are there when the metrics are read. Dry runs are none.
type existing struct {
	reader            client.Reader
	namespace         string
	backups, restores *prometheus.Desc
}

// CountExisting registers the metrics velero_backup_total and velero_restore_total. reader should read from a cache.
func CountExisting(registry prometheus.Registerer, reader client.Reader, namespace string) error {
	return registry.Register(&existing{
		reader: reader, namespace: namespace,
		backups:  prometheus.NewDesc("velero_backup_total", "Backups that exist.", nil, nil),
		restores: prometheus.NewDesc("velero_restore_total", "Restores that exist.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (e *existing) Describe(all chan<- *prometheus.Desc) {
	all <- e.backups
	all <- e.restores
}

// Collect implements prometheus.Collector. What cannot be counted is left out.
func (e *existing) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	e.count(ctx, e.backups, &velerov1.BackupList{}, all)
	e.count(ctx, e.restores, &velerov1.RestoreList{}, all)
}

func (e *existing) count(ctx context.Context, as *prometheus.Desc, list client.ObjectList, all chan<- prometheus.Metric) {
	if e.reader.List(ctx, list, client.InNamespace(e.namespace), client.UnsafeDisableDeepCopy) != nil {
		return
	}
	count := 0
	_ = meta.EachListItem(list, func(object runtime.Object) error { // a list of objects has no errors
		if o, ok := object.(metav1.Object); ok && !velerov1.IsDryRun(o) {
			count++
		}
		return nil
	})
	all <- prometheus.MustNewConstMetric(as, prometheus.GaugeValue, float64(count))
}
