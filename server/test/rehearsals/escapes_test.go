package rehearsals_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/rehearsals"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
	"github.com/cleat-dev/cleat/server/test/site"
)

// twice is a pod that Pod Security admits. In each of its copies, an object has its first member twice.
const twice = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME","namespace":"NS","labels":{"a":"b"}},"spec":{` +
	`"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"c","image":"i",` +
	`"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}],"volumes":[{"name":"v","emptyDir":{"medium":""}}]}}`

// withMemberTwice returns a text in which the nth object has its first member twice; ok is false if there is none.
func withMemberTwice(text string, n int) (changed string, ok bool) {
	var begin int
	for at := range text {
		if text[at] != '{' {
			continue
		}
		if n--; n < 0 {
			begin = at + 1
			break
		}
	}
	if n >= 0 {
		return "", false
	}
	d := json.NewDecoder(strings.NewReader(text[begin-1:]))
	var member struct {
		key   string
		value json.RawMessage
	}
	_, _ = d.Token()
	key, _ := d.Token()
	member.key, _ = key.(string)
	_ = d.Decode(&member.value)
	return fmt.Sprintf("%s%q:%s,%s", text[:begin], member.key, member.value, text[begin:]), true
}

// escapes are the objects of an archive that point outside. NS is the namespace of the backup, OUT is another one.
var escapes = map[string]string{
	"resources/pods/namespaces/NS/fields.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"fields","namespace":"NS",
		"finalizers":["escape.example/stays"],"annotations":{"velero.io/restore-status":"true"}},"spec":{"hostNetwork":true,"hostPID":true,
		"hostIPC":true,"nodeName":"escape-node","schedulerName":"escape-scheduler","priorityClassName":"system-cluster-critical",
		"dnsPolicy":"Default","dnsConfig":{"nameservers":["192.0.2.77"]},"affinity":{"podAntiAffinity":{
		"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","labelSelector":{},
		"namespaces":["OUT"],"namespaceSelector":{"matchLabels":{"escape":"yes"}}}]}},
		"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"c","image":"i",
		"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}},"ports":[{"containerPort":80,"hostPort":80}],
		"livenessProbe":{"httpGet":{"host":"192.0.2.77","port":80}},"lifecycle":{"preStop":{"httpGet":{"host":"192.0.2.77","port":80}}}}],
		"volumes":[{"name":"t","projected":{"sources":[{"serviceAccountToken":{"audience":"escape-audience","path":"t"}}]}}]},
		"status":{"phase":"Running","podIP":"192.0.2.77"}}`,
	"resources/pods/namespaces/NS/merged.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"merged","namespace":"NS"},
		"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","nfs":{"server":"192.0.2.77","path":"/"}}]},
		"spec":{"restartPolicy":"Always"}}`,
	"resources/persistentvolumeclaims/namespaces/NS/named.json": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{
		"name":"named","namespace":"NS","annotations":{"volume.beta.kubernetes.io/storage-class":"NS-people"}},"spec":{
		"accessModes":["ReadWriteOnce"],"volumeName":"NS-spare","resources":{"requests":{"storage":"1Gi"}}}}`,
	"resources/persistentvolumeclaims/namespaces/NS/chosen.json": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{
		"name":"chosen","namespace":"NS"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"NS-people",
		"selector":{"matchLabels":{"escape":"yes"}},"resources":{"requests":{"storage":"1Gi"}}}}`,
	"resources/persistentvolumeclaims/namespaces/NS/copied.json": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{
		"name":"copied","namespace":"NS"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"NS-made","dataSourceRef":{
		"kind":"PersistentVolumeClaim","name":"escape-claim"},"resources":{"requests":{"storage":"1Gi"}}}}`,
	"resources/services/namespaces/NS/front.json": `{"apiVersion":"v1","kind":"Service","metadata":{"name":"front","namespace":"NS",
		"annotations":{"external-dns.alpha.kubernetes.io/hostname":"escape.example"}},"spec":{"type":"LoadBalancer","externalIPs":["192.0.2.77"],
		"loadBalancerIP":"192.0.2.77","loadBalancerClass":"escape.example/class","ports":[{"port":80,"nodePort":30777}]}}`,
	"resources/services/namespaces/NS/alias.json": `{"apiVersion":"v1","kind":"Service","metadata":{"name":"alias","namespace":"NS"},
		"spec":{"type":"ExternalName","externalName":"escape.example"}}`,
	"resources/endpoints/namespaces/NS/front.json": `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"front","namespace":"NS"},
		"subsets":[{"addresses":[{"ip":"192.0.2.77"}],"ports":[{"port":80}]}]}`,
	"resources/serviceaccounts/namespaces/NS/cloud.json": `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"cloud",
		"namespace":"NS","annotations":{"eks.amazonaws.com/role-arn":"escape-role"}}}`,
	"resources/configmaps/namespaces/NS/copied.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"copied","namespace":"NS",
		"annotations":{"reflector.example/to":"escape-everywhere"}},"data":{"a":"b","A":"c"}}`,
	"resources/roles.rbac.authorization.k8s.io/namespaces/NS/opens.json": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",
		"metadata":{"name":"opens","namespace":"NS"},"rules":[{"apiGroups":["networking.k8s.io"],"resources":["networkpolicies"],
		"verbs":["get","escape-verb"]}]}`,
	"resources/rolebindings.rbac.authorization.k8s.io/namespaces/NS/admin.json": `{"apiVersion":"rbac.authorization.k8s.io/v1",
		"kind":"RoleBinding","metadata":{"name":"admin","namespace":"NS"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
		"kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"NS"}]}`,
	"resources/jobs.batch/namespaces/NS/managed.json": `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"managed","namespace":"NS"},
		"spec":{"suspend":true,"managedBy":"escape.example/controller","template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c",
		"image":"i"}]}}}}`,
	"resources/persistentvolumes/cluster/NS-escape.json": `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"NS-escape"},
		"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"storageClassName":"NS-people","nfs":{"server":"192.0.2.77",
		"path":"/"}}}`,
	"resources/storageclasses.storage.k8s.io/cluster/NS-escape.json": `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass",
		"metadata":{"name":"NS-escape"},"provisioner":"escape.example"}`,
	"resources/clusterrolebindings.rbac.authorization.k8s.io/cluster/NS-escape.json": `{"apiVersion":"rbac.authorization.k8s.io/v1",
		"kind":"ClusterRoleBinding","metadata":{"name":"NS-escape","labels":{"velero.io/restore-uid":"x"}},"roleRef":{"apiGroup":
		"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"default",
		"namespace":"NS"}]}`,
}

// plant adds entries to the archive of a backup, as somebody can who may write to the bucket. It returns its sum.
func plant(s *site.Site, backup string, entries map[string]string) store.Sum {
	s.T.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	to := tar.NewWriter(zip)
	file := filepath.Join(s.BucketDir, "backups", backup, backup+".tar.gz")
	all := site.Unpacked(s.T, file)
	maps.Copy(all, entries)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		require.NoError(s.T, to.WriteHeader(&tar.Header{Name: name, Size: int64(len(all[name])), Mode: 0o644,
			Typeflag: tar.TypeReg}))
		_, err := io.WriteString(to, all[name])
		require.NoError(s.T, err)
	}
	require.NoError(s.T, errors.Join(to.Close(), zip.Close(), os.WriteFile(file, out.Bytes(), 0o644)))
	sum := store.MetadataTally(out.Bytes())[store.MetadataFile]
	return sum
}

// TestAcceptSecurity_RehearsalEscapes rehearses what somebody has planted who may write to the bucket: backups that no
// server of this cluster has made, an archive that was exchanged, and one whose objects point outside, as if this
// cluster had stored it. Nothing of it reaches beyond the namespaces of the rehearsal, and nothing is left.
func TestAcceptSecurity_RehearsalEscapes(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.BackupSyncPeriod = &metav1.Duration{Duration: time.Second}
	})
	s.Serve()
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	objects(s, ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: NS}, data: {a: "1"}}`)
	s.Must("schedule", "create", "daily", "--schedule", "0 0 1 1 *", "--include-namespaces", ns)
	s.Must("backup", "create", "b", "--from-schedule", "daily", "--wait")
	s.Must("backup", "create", "exchanged", "--include-namespaces", ns, "--wait")

	s.Copies("b", func(b *velerov1.Backup) {
		b.Annotations = map[string]string{velerov1.FilesAnnotation: s.Backup("b").Annotations[velerov1.FilesAnnotation]}
		b.Status.StartTimestamp.Time = b.Status.StartTimestamp.Add(time.Hour)
	}, "planted")
	s.AwaitBackup("planted", velerov1.BackupPhaseCompleted)
	require.Equal(t, "daily", s.Backup("planted").Labels[velerov1.ScheduleNameLabel])
	report, err := rehearse(s, "planted")
	require.Error(t, err)
	require.Equal(t, rehearsal.NotRun, report.Result)
	require.Contains(t, report.Text, "this cluster has not made it, and no key of trust.keys has signed it")
	due := time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339)
	require.NoError(t, s.Client.Patch(t.Context(), &velerov1.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
		Name: "daily"}}, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"* * * * *",%q:%q}}}`,
		velerov1.RehearseAnnotation, velerov1.RehearsedAnnotation, due))))
	s.Eventually("the backup that this cluster has made is rehearsed", func(context.Context) (bool, error) {
		list := rehearsal.ParseList(s.Backup("b").Annotations[velerov1.RehearsalsAnnotation])
		return len(list) > 0 && list[0].Result == rehearsal.Passed, nil
	})
	s.Must("schedule", "pause", "daily")

	plant(s, "exchanged", map[string]string{"resources/configmaps/namespaces/" + ns + "/x.json": strings.ReplaceAll(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"NS"}}`, "NS", ns)})
	report, err = rehearse(s, "exchanged")
	require.Error(t, err)
	require.Equal(t, rehearsal.Failed, report.Result, report.Text)

	entries := map[string]string{}
	fill := strings.NewReplacer("NS", ns, "OUT", s.Namespace).Replace
	for name, text := range escapes {
		entries[fill(name)] = fill(text)
	}
	copies := 0
	for ; ; copies++ {
		name := fmt.Sprintf("twice-%d", copies)
		text, ok := withMemberTwice(strings.ReplaceAll(fill(twice), "NAME", name), copies)
		if !ok {
			break
		}
		entries["resources/pods/namespaces/"+ns+"/"+name+".json"] = text
	}
	require.Greater(t, copies, 8)
	s.Must("backup", "create", "escapes", "--include-namespaces", ns, "--wait")
	b := s.Backup("escapes")
	sums := store.TallyOf(b).With(store.Tally{"escapes.tar.gz": plant(s, "escapes", entries)})
	require.NoError(t, s.Client.Patch(t.Context(), b, client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"metadata":{"annotations":{%q:%q}}}`, velerov1.FilesAnnotation, sums.String()))))
	for _, text := range []string{
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: NS-people}, provisioner: kubernetes.io/no-provisioner}`,
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: NS-made}, provisioner: made.example}`,
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: NS-spare, labels: {escape: "yes"}}, spec: {capacity: {storage: 1Gi},
			accessModes: [ReadWriteOnce], storageClassName: NS-people, hostPath: {path: /tmp/NS}}}`,
	} {
		made := s.Put(strings.ReplaceAll(text, "NS", ns))
		t.Cleanup(func() { _ = s.Client.Delete(context.Background(), made) })
	}
	name := "escapes-" + s.Namespace
	require.NoError(t, s.Client.Create(t.Context(), rehearsals.New(s.Namespace, name, "escapes", 10*time.Minute)))
	r := awaitPhase(s, name, velerov1.RehearsalWaiting)
	inside := r.Spec.NamespaceMapping[ns]
	made := madeBy(s, r)
	var pod corev1.Pod
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: inside, Name: "fields"}, &pod))
	require.False(t, pod.Spec.HostNetwork || pod.Spec.HostPID || pod.Spec.HostIPC)
	require.Zero(t, pod.Spec.Containers[0].Ports[0].HostPort)
	require.Zero(t, *pod.Spec.Priority)
	require.Equal(t, corev1.DNSClusterFirst, pod.Spec.DNSPolicy)
	for _, claim := range []string{"named", "chosen", "copied"} {
		var found corev1.PersistentVolumeClaim
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: inside, Name: claim}, &found))
		require.Empty(t, found.Spec.VolumeName)
		require.Nil(t, found.Spec.Selector)
		require.Nil(t, found.Spec.DataSource)
		require.Nil(t, found.Spec.DataSourceRef)
		require.True(t, strings.HasPrefix(*found.Spec.StorageClassName, enclosure.ClassPrefix(string(r.UID))))
	}
	require.Contains(t, made, "StorageClass /"+enclosure.ClassName(string(r.UID), ns+"-made"))
	require.Contains(t, made, "ConfigMap "+inside+"/copied")
	for one, text := range made {
		require.NotContains(t, text, "192.0.2.77", one)
		require.NotRegexp(t, "escape(-|.example)", strings.ReplaceAll(text, name, ""), one)
		require.NotRegexp(t, "/(alias|admin|merged|twice-.*|.*-escape)$", one)
		_, object, _ := strings.Cut(one, " ")
		require.Regexp(t, "^("+inside+"/.*|/"+inside+"|/"+enclosure.ClassPrefix(string(r.UID))+".*)$", object,
			"all that a rehearsal makes has names that its object has")
	}
	require.NoError(t, s.Client.Delete(t.Context(), &pod)) // no node runs it
	require.Equal(t, rehearsal.Failed, resultOf(s, name).Result)
	require.Empty(t, madeBy(s, r))
	report, err = reportOf(s, "escapes")
	require.NoError(t, err)
	for i := range copies {
		require.Contains(t, reasonOf(t, report.Missing, fmt.Sprintf("pods/%s/twice-%d", ns, i)),
			"duplicate object member name")
	}
	require.Contains(t, reasonOf(t, report.Missing, "pods/"+ns+"/merged"), `duplicate object member name "spec"`)
	var volume corev1.PersistentVolume
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Name: ns + "-spare"}, &volume))
	require.Nil(t, volume.Spec.ClaimRef, "a volume that was there before must not be bound")
	require.True(t, apierrors.IsNotFound(s.Client.Get(t.Context(), client.ObjectKey{Name: ns + "-escape"}, &volume)))
}

// madeBy returns the objects of all kinds that a rehearsal has made, as "Kind namespace/name", with their JSON. The
// server's own namespace is not looked at but for loads.
func madeBy(s *site.Site, r *velerov1.Restore) map[string]string {
	s.T.Helper()
	made := map[string]string{}
	prefixes := []string{enclosure.ClassPrefix(string(r.UID)), enclosure.VolumePrefix(string(r.UID))}
	for _, name := range r.Spec.NamespaceMapping {
		prefixes = append(prefixes, name)
	}
	eachObject(s, func(_, _ string, object *metav1.PartialObjectMetadata, raw []byte) {
		isNamed := slices.ContainsFunc(prefixes, func(prefix string) bool {
			return strings.HasPrefix(object.Name, prefix) || strings.HasPrefix(object.Namespace, prefix)
		})
		if isNamed || object.Labels[velerov1.RestoreNameLabel] == r.Name ||
			object.Labels[velerov1.RehearsalLabel] == string(r.UID) || object.Labels[velerov1.RestoreUIDLabel] == string(r.UID) {
			made[object.Kind+" "+object.Namespace+"/"+object.Name] = string(raw)
		}
	})
	return made
}

// TestAcceptSecurity_VouchedBySignature brings a backup back from the bucket, so that the cluster has no sums of it any
// more, beside one that somebody has planted with its files. The signature of the first one lets it be rehearsed, and
// verified without a request; nothing vouches for the other.
func TestAcceptSecurity_VouchedBySignature(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) {
		l.Spec.BackupSyncPeriod = &metav1.Duration{Duration: time.Second}
	})
	s.Must("key", "create", "--secret", "signing")
	s.Serve("--config", site.ConfigFile(t, "backups: {signing: {key: {secret: signing/key}}}\n"+
		"verification: {after: true, every: 2s}"))
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	objects(s, ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: NS}, data: {a: "1"}}`)
	s.Must("backup", "create", "signed", "--include-namespaces", ns, "--wait")
	s.Copies("signed", nil, "planted")
	s.AwaitBackup("planted", velerov1.BackupPhaseCompleted)
	made := s.Backup("signed")
	require.NoError(t, s.Client.Delete(t.Context(), made))
	s.Eventually("the signed backup comes back, and is verified", func(ctx context.Context) (bool, error) {
		var b velerov1.Backup
		if err := s.Client.Get(ctx, s.Key("signed"), &b); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		verified, err := velerov1.VerificationOf(&b)
		return b.UID != made.UID && verified != nil && verified.Last != nil &&
			!verified.Last.Started.Before(&b.CreationTimestamp), err
	})
	require.NotContains(t, s.Backup("signed").Annotations, velerov1.FilesAnnotation)
	require.NotContains(t, s.Backup("planted").Annotations, velerov1.VerificationAnnotation)

	report, err := rehearse(s, "signed")
	require.NoError(t, err)
	require.Equal(t, rehearsal.Passed, report.Result, report.Text)
	report, err = rehearse(s, "planted")
	require.Error(t, err)
	require.Equal(t, rehearsal.NotRun, report.Result, report.Text)
}
