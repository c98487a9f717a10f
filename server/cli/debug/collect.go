package debug

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/key"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/redact"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

const (
	// maxLog is how many bytes of a log are collected.
	maxLog = 20 << 20
	// maxLines is how many lines of the log of a container are collected, the last ones.
	maxLines = 50_000
)

// collector adds files to a bundle. If it cannot get one, it adds a problem to the bundle, and returns no error.
type collector struct {
	*bundle
	cluster *command.Cluster
	failed  error // of writing
}

func collect(ctx context.Context, a *command.App, b *bundle, more func(context.Context, *collector)) error {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	config, err := a.Cluster.RestConfig()
	if err != nil {
		return err
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	c := &collector{bundle: b, cluster: cluster}
	c.version(ctx, a)
	for name, list := range map[string]client.ObjectList{
		"backups": &velerov1.BackupList{}, "restores": &velerov1.RestoreList{}, "schedules": &velerov1.ScheduleList{},
		"backupstoragelocations":  &velerov1.BackupStorageLocationList{},
		"volumesnapshotlocations": &velerov1.VolumeSnapshotLocationList{},
		"deletebackuprequests":    &velerov1.DeleteBackupRequestList{}, "downloadrequests": &velerov1.DownloadRequestList{},
		"podvolumebackups": &velerov1.PodVolumeBackupList{}, "podvolumerestores": &velerov1.PodVolumeRestoreList{},
		"backuprepositories": &velerov1.BackupRepositoryList{},
		"datauploads":        &velerov2alpha1.DataUploadList{}, "datadownloads": &velerov2alpha1.DataDownloadList{},
	} {
		c.objects(ctx, "resources/"+name+".yaml", list)
	}
	for name, list := range map[string]client.ObjectList{
		"deployments": &appsv1.DeploymentList{}, "daemonsets": &appsv1.DaemonSetList{}, "pods": &corev1.PodList{},
		"events": &corev1.EventList{},
	} {
		c.objects(ctx, "workloads/"+name+".yaml", list)
		if of, ok := list.(*corev1.PodList); ok {
			c.logs(ctx, pods, of.Items)
		}
	}
	more(ctx, c)
	return c.failed
}

// put adds a file.
func (c *collector) put(name string, content []byte) {
	if c.failed == nil {
		c.failed = c.add(name, content)
	}
}

func (c *collector) version(ctx context.Context, a *command.App) {
	text := "client: " + a.Version + "\n"
	status, err := c.cluster.ServerStatus(ctx, serverTimeout, nil)
	if err != nil {
		c.lacks("version of the server", err)
	} else {
		text += "server: " + serverreport.ServerVersion(status) + "\n"
		for _, p := range status.Status.Plugins {
			text += fmt.Sprintf("plugin: %s %s\n", p.Kind, p.Name)
		}
		c.keys(status)
	}
	c.put("version.txt", []byte(text))
}

// keys adds the public keys whose signatures of backups the server accepts.
func (c *collector) keys(status *velerov1.ServerStatusRequest) {
	report, err := queue.PoliciesOf(status)
	if err != nil {
		c.lacks("public keys", err)
	}
	if report == nil || len(report.Keys) == 0 {
		return
	}
	var text strings.Builder
	for _, k := range report.Keys {
		fmt.Fprintf(&text, "%s\n%s\n", redact.Text(key.Describe(k)), k.PEM)
	}
	c.put("public-keys.txt", []byte(text.String()))
}

// objects adds the objects of one kind in the server's namespace.
func (c *collector) objects(ctx context.Context, name string, list client.ObjectList) {
	if err := c.cluster.List(ctx, list, client.InNamespace(c.cluster.Namespace)); err != nil {
		c.lacks(name, err)
		return
	}
	_ = meta.EachListItem(list, func(object runtime.Object) error { // a list of objects has no errors
		switch o := object.(type) {
		case *appsv1.Deployment:
			delete(o.Spec.Template.Annotations, corev1.LastAppliedConfigAnnotation)
		case *appsv1.DaemonSet:
			delete(o.Spec.Template.Annotations, corev1.LastAppliedConfigAnnotation)
		}
		if o, ok := object.(metav1.Object); ok {
			o.SetManagedFields(nil)
			delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation) // a copy of the whole object
		}
		return nil
	})
	text, err := redactedYAML(list)
	if err != nil {
		c.lacks(name, err)
		return
	}
	c.put(name, text)
}

// redactedYAML returns an object without what looks like a secret.
func redactedYAML(object any) ([]byte, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return nil, err
	}
	return yaml.Marshal(redact.Tree(tree))
}

// logs adds the logs of the containers of pods, and of their previous instances.
func (c *collector) logs(ctx context.Context, pods kubernetes.Interface, all []corev1.Pod) {
	limit, lines := int64(maxLog), int64(maxLines)
	for _, pod := range all {
		for _, state := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			for _, previous := range []bool{false, true}[:min(2, 1+int(state.RestartCount))] {
				name := fmt.Sprintf("logs/%s-%s.log", pod.Name, state.Name)
				if previous {
					name = fmt.Sprintf("logs/%s-%s.previous.log", pod.Name, state.Name)
				}
				text, err := pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
					Container: state.Name, Previous: previous, LimitBytes: &limit, TailLines: &lines,
				}).DoRaw(ctx)
				if err != nil {
					c.lacks(name, err)
					continue
				}
				c.put(name, []byte(redact.Text(string(text))))
			}
		}
	}
}

// backup adds the log of a backup.
func (c *collector) backup(ctx context.Context, d *runs.Downloads, name string) {
	c.runLog(ctx, d, "backups/"+name+".log", runs.Target{Kind: velerov1.DownloadTargetKindBackupLog, Name: name,
		Location: c.locationOf(ctx, name)})
}

// restore adds the log of a restore.
func (c *collector) restore(ctx context.Context, d *runs.Downloads, name string) {
	var r velerov1.Restore
	if err := c.cluster.Get(ctx, c.cluster.Key(name), &r); err != nil {
		c.lacks("restore "+name, err)
		return
	}
	c.runLog(ctx, d, "restores/"+name+".log",
		runs.Target{Kind: velerov1.DownloadTargetKindRestoreLog, Name: name, Location: c.locationOf(ctx, r.Spec.BackupName)})
}

// locationOf returns the name of the location of a backup, "" if the backup cannot be read.
func (c *collector) locationOf(ctx context.Context, backup string) string {
	location, err := c.cluster.LocationOf(ctx, backup)
	if err != nil {
		c.lacks("backup "+backup, err)
	}
	return location
}

func (c *collector) runLog(ctx context.Context, d *runs.Downloads, name string, target runs.Target) {
	content, err := d.OpenTarget(ctx, c.cluster, target)
	if err != nil {
		c.lacks(name, err)
		return
	}
	defer func() { _ = content.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(content, maxLog))
	if err != nil {
		c.lacks(name, err)
	}
	c.put(name, []byte(redact.Text(string(text))))
}
