package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptConsole_Documents backs up, restores and looks: each page is also a document, and says what the command
// says. Pages that are open show the backup on its way.
func TestAcceptConsole_Documents(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	shop := s.Workload(3)
	claim := s.BoundClaim("data-of-"+shop, shop, "data", "Delete")
	t.Cleanup(func() { s.DropVolume("data-of-" + shop) })
	require.NotNil(t, claim)
	user := open(t, s).user()
	queue := user.events("/queue")
	queue.until("No backup is running or waiting.")
	s.Serve("--concurrent-backups", "1")
	s.Available()
	queue.until("0 of 1 slot in use")

	// the slot is taken until the test frees it
	held := hold(s, "held")
	queue.until("held")

	s.Must("backup", "create", "orders", "--include-namespaces", shop)
	queue.until("the limit of 1 running backup is reached")
	run := user.events("/backups/orders")
	run.until("why it waits")
	require.Contains(t, user.get("/queue/orders").text, "orders is waiting at position 1 of 1.")
	var shown, printed map[string]any
	user.json("/queue", &shown)
	require.NoError(t, json.Unmarshal([]byte(s.Must("queue", "-o", "json")), &printed))
	require.Equal(t, "orders", shown["next"])
	delete(shown, "next")
	delete(shown, "simulation")
	delete(shown, "policy") // the server is asked about it every minute
	delete(printed, "policy")
	require.Equal(t, printed, shown)
	for query, want := range map[string][]string{
		"":                      {"orders", "when held has ended", "the limit of 1 running backup is reached"},
		"?namespaces=" + shop:   {"a-new-backup", "It would start when orders has ended"},
		"?namespaces=elsewhere": {"It would start when orders has ended"},
	} {
		s.Eventually("the forecast is there", logHas(user, "/queue"+query, "order in which they would start"))
		for _, text := range want {
			require.Contains(t, user.get("/queue"+query).text, text, query)
		}
	}
	require.Equal(t, http.StatusBadRequest, user.get("/queue?namespaces=a+b").code)

	require.NoError(t, s.Client.Get(t.Context(), s.Key("held"), held))
	before := held.DeepCopy()
	held.Status.Phase, held.Status.CompletionTimestamp = velerov1.BackupPhaseCompleted, &metav1.Time{Time: time.Now()}
	require.NoError(t, s.Client.Patch(t.Context(), held, client.MergeFrom(before)))
	run.until(`<span class="mood good">Completed</span>`)
	queue.until("No backup is running or waiting.")

	s.Must("restore", "create", "again", "--from-backup", "orders", "--namespace-mappings", shop+":"+shop+"-2", "--wait")
	s.Must("schedule", "create", "nightly", "--schedule", "0 3 * * *", "--include-namespaces", shop)
	for _, path := range append(paths("orders"), "/restores/again", "/restores/again/log", "/restores/again/cancel",
		"/restores/again/delete", "/schedules/nightly", "/schedules/nightly/pause", "/plugins/cleat.dev%2Fs3") {
		page := user.get(path)
		require.Equal(t, http.StatusOK, page.code, "%s: %s", path, page.text)
		require.Contains(t, page.text, "<h1>", path)
		require.NotContains(t, page.text, "ZgotmplZ", path)
		require.LessOrEqual(t, page.size, 200<<10, path)
		var document map[string]any
		require.Equal(t, http.StatusOK, user.json(path, &document).code, path)
		require.NotEmpty(t, document, path)
	}
	s.Eventually("the log is there", logHas(user, "/backups/orders/log", "level="))
	require.Contains(t, user.get("/backups/orders/log?search=no+such+line").text, "There is no such line.")
	require.NotContains(t, user.get("/backups/orders/log").text, "sse-connect", "it does not change any more")
	require.Equal(t, http.StatusBadRequest, user.get("/backups/orders/log?from=0").code)
	require.Contains(t, user.get("/restores/again").text, "cleat restore describe again --details")
	var overview map[string]any // the page shows some hundred namespaces
	require.Equal(t, http.StatusOK, user.json("/", &overview).code)
	require.Contains(t, fmt.Sprint(overview["namespaces"]), shop)
	// its volume has no data in the backup, as the command says too
	const without = `"namespace":"%s","claim":"data","known":true,"backup":"orders"`
	s.Eventually("the volumes are known", func(context.Context) (bool, error) {
		var page struct{ Volumes json.RawMessage }
		user.json("/", &page)
		var compact bytes.Buffer
		err := json.Compact(&compact, page.Volumes)
		return strings.Contains(compact.String(), fmt.Sprintf(without, shop)), err
	})
	require.Regexp(t, `(?m)^ +`+shop+` +data +orders .*$`, s.Must("overview", "--since", "1h"))
	s.Eventually("the server has answered", logHas(user, "/plugins/cleat.dev%2Fs3", "ObjectStore"))
	require.Equal(t, http.StatusNotFound, user.get("/backups/missing").code)
	require.Equal(t, http.StatusNotFound, user.get("/nowhere").code)
	require.Equal(t, http.StatusBadRequest, user.get("/?since=soon").code)

	// a page of what is deleted meanwhile says so
	gone := user.events("/schedules/nightly")
	gone.until("0 3 * * *")
	pause := user.form("/schedules/nightly/pause")
	pause.Set("verb", "Pause")
	require.Equal(t, http.StatusSeeOther, user.post("/schedules/nightly/pause", pause).code)
	gone.until("Enabled</span>, paused")
	s.Must("schedule", "delete", "nightly", "--confirm")
	gone.until("there is no schedule nightly")

	require.Equal(t, http.StatusSeeOther, user.post("/restores/again/delete", user.form("/restores/again/delete")).code)
	require.Contains(t, user.get("/backups/orders/delete").text, "backup orders with all its data")
	require.Equal(t, http.StatusSeeOther, user.post("/backups/orders/delete", user.form("/backups/orders/delete")).code)
	s.AwaitGone(&velerov1.Backup{}, "orders")
}

// hold creates a backup that runs until the test ends it: its location is away, and its status is written after it was
// created, because a status of the creator does not count.
func hold(s *site.Site, name string) *velerov1.Backup {
	s.T.Helper()
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "away"},
		Spec: velerov1.BackupStorageLocationSpec{Provider: "cleat.dev/file", Config: map[string]string{"path": "/none"},
			StorageType:         velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "none"}},
			ValidationFrequency: &metav1.Duration{}}, // never
		Status: velerov1.BackupStorageLocationStatus{Phase: velerov1.BackupStorageLocationPhaseUnavailable},
	}))
	held := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:   velerov1.BackupSpec{IncludedNamespaces: []string{name}, StorageLocation: "away"},
		Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation}} // so that no server begins it
	require.NoError(s.T, s.Client.Create(s.T.Context(), held))
	before := held.DeepCopy()
	held.Status = velerov1.BackupStatus{Phase: velerov1.BackupPhaseInProgress, StartTimestamp: new(metav1.Now()),
		Progress: &velerov1.BackupProgress{TotalItems: 9, ItemsBackedUp: 4}}
	require.NoError(s.T, s.Client.Patch(s.T.Context(), held, client.MergeFrom(before)))
	return held
}

func logHas(v *visitor, path, text string) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return strings.Contains(v.get(path).text, text), nil }
}

// TestAcceptConsole_Markup has markup wherever others can put text, and a log and results that hold it.
func TestAcceptConsole_Markup(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	const evil = `"><script>alert('x')</script><img src=x onerror=alert(1)>{{.}}</pre>`
	text, err := json.Marshal(evil)
	require.NoError(t, err)
	s.VeleroMade("stock", map[string]string{
		"-logs.gz": "level=info msg=" + evil + "\n",
		"-results.gz": strings.ReplaceAll(
			`{"errors":{"velero":[EVIL],"namespaces":{"a":[EVIL]}},"warnings":{"cluster":[EVIL]}}`, "EVIL", string(text)),
	}, false)
	change := func(o client.Object, name string, change func()) {
		require.NoError(t, s.Client.Get(t.Context(), s.Key(name), o))
		before, _ := o.DeepCopyObject().(client.Object)
		change()
		require.NoError(t, s.Client.Patch(t.Context(), o, client.MergeFrom(before)))
	}
	var b velerov1.Backup
	change(&b, "stock", func() {
		b.Annotations = map[string]string{"example.com/" + "note": evil}
		b.Labels = map[string]string{"a": "b"}
		b.Status.Phase, b.Status.Errors, b.Status.Warnings = velerov1.BackupPhasePartiallyFailed, 2, 1
		b.Status.FailureReason, b.Status.ValidationErrors = evil, []string{evil}
	})
	waits := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "waits",
		Annotations: map[string]string{velerov1.QueueWaitAnnotation: fmt.Sprintf(
			`{"reason":%s,"message":%s,"policy":%s,"blockers":[%s],"since":"2026-01-01T00:00:00Z"}`, text, text, text, text)}},
		Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseQueued, QueuePosition: 1}}
	require.NoError(t, s.Client.Create(t.Context(), waits))
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "odd"}, Spec: velerov1.ScheduleSpec{Schedule: evil},
		Status: velerov1.ScheduleStatus{Phase: velerov1.SchedulePhaseFailedValidation, ValidationErrors: []string{evil}}}))
	load := &velerov1.PodVolumeBackup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "load"},
		Spec: velerov1.PodVolumeBackupSpec{Node: "none", Volume: evil, UploaderType: "kopia"},
		Status: velerov1.PodVolumeBackupStatus{LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseInProgress,
			Message: evil, StartTimestamp: &metav1.Time{Time: time.Now().Add(-10 * time.Second)},
			Progress: velerov1.LoadProgress{BytesDone: 50 << 20, TotalBytes: 500 << 20}}}}
	load.Spec.Pod.Namespace, load.Spec.Pod.Name = "shop", "web-0"
	require.NoError(t, s.Client.Create(t.Context(), load))
	// the pod of a server says where its configuration is
	pod := serverPod(s, "configured", "--config", "/etc/cleat/cleat.yaml")
	pod.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/cleat"}}
	s.Eventually("the pod is created", func(ctx context.Context) (bool, error) {
		return s.Client.Create(ctx, pod) == nil, nil
	})
	require.NoError(t, s.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "settings"}, Data: map[string]string{
			"cleat.yaml": "apiVersion: cleat.dev/v1\nbackups: {admission: {plugin: cleat.dev/priority, config: " +
				"{password: S3CRET, note: " + string(text) + "}}}\n"}}))
	user := open(t, s).user()
	s.Serve()
	s.Available()
	var location velerov1.BackupStorageLocation
	change(&location, "default", func() { location.Status.Message = evil })
	s.Eventually("the results are there", logHas(user, "/backups/stock", "Errors by cause"))
	s.Eventually("the log is there", logHas(user, "/backups/stock/log", "level=info"))

	scripts := regexp.MustCompile(`<script[^>]*>`)
	events := regexp.MustCompile(`<[^>]*\s(on[a-z]+|style)=`)
	values := regexp.MustCompile(`"[^"]*"`)
	check := func(path, page string) {
		for _, tag := range scripts.FindAllString(page, -1) {
			require.Regexp(t, `^<script defer src="/assets/[0-9a-f]+-[a-z.-]+\.js">$`, tag, path)
		}
		require.NotContains(t, page, "<img", path)
		require.Empty(t, events.FindString(values.ReplaceAllString(page, `""`)), path)
	}
	const configured = "/plugins/cleat.dev%2Fpriority"
	s.Eventually("the configuration is there", logHas(user, configured, "key cleat.yaml of ConfigMap settings"))
	require.Contains(t, user.get(configured).text, "(left-out)")
	require.NotContains(t, user.get(configured).text+user.get(configured, "Accept", "application/json").text, "S3CRET")
	require.Contains(t, s.Must("plugin", "info", "cleat.dev/priority"), "password\": \"(left-out)")
	for _, path := range append(paths("stock"), "/queue/waits", "/schedules/odd", configured,
		"/queue?namespaces="+url.QueryEscape(evil), "/queue?namespaces=a",
		"/backups/stock?search="+url.QueryEscape(evil),
		"/backups?search="+url.QueryEscape(evil)+"&phase="+url.QueryEscape(evil), "/?since="+url.QueryEscape(evil),
		"/backups/"+url.PathEscape(evil), "/backups/stock/log?search="+url.QueryEscape("<script>")) {
		check(path, user.get(path).text)
	}
	for path, where := range map[string]string{"/backups/stock": "Errors by cause", "/backups/stock/log": "level=info",
		"/schedules/odd": "Last good backup", "/": "In trouble", configured: "Configured with",
		"/loads": "50.0 MiB of 500.0 MiB"} {
		page := user.get(path).text
		require.Contains(t, page, where)
		require.Contains(t, page, "&lt;script&gt;alert(", path)
	}
	require.Regexp(t, `<td>[\d.]+ [KM]iB/s</td><td>\d+(s|m|m\d+s)</td>`, user.get("/loads").text)
	check("events", user.events("/backups/stock").until("&lt;script&gt;alert("))
}

// TestAcceptConsole_TenThousand looks at 10,000 backups.
func TestAcceptConsole_TenThousand(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	const count = 10_000
	began := time.Now()
	var making errgroup.Group
	making.SetLimit(16)
	for i := range count {
		making.Go(func() error {
			phase, end := velerov1.BackupPhaseCompleted, metav1.NewTime(began.Add(-time.Duration(i)*time.Minute))
			if i%100 == 7 {
				phase = velerov1.BackupPhasePartiallyFailed
			}
			return s.Client.Create(t.Context(), &velerov1.Backup{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("backup-%05d", i),
					Labels: map[string]string{velerov1.ScheduleNameLabel: fmt.Sprintf("schedule-%d", i%40), "team": "shop"}},
				Spec: velerov1.BackupSpec{IncludedNamespaces: []string{fmt.Sprintf("namespace-%d", i%40)},
					StorageLocation: "default"},
				Status: velerov1.BackupStatus{Phase: phase, StartTimestamp: &end, CompletionTimestamp: &end,
					Progress: &velerov1.BackupProgress{TotalItems: 1000, ItemsBackedUp: 1000}},
			})
		})
	}
	require.NoError(t, making.Wait())
	t.Logf("%d backups were made in %s", count, time.Since(began).Round(time.Second))
	c := open(t, s)
	user := c.user()
	first := user.get("/backups")
	require.Equal(t, http.StatusOK, first.code)
	require.Contains(t, first.text, "1 to 50 of 10000, page 1 of 200.")
	require.LessOrEqual(t, first.size, 200<<10)
	t.Logf("the first page took %s, with the list of all backups, and has %d bytes", first.took.Round(time.Millisecond),
		first.size)
	for _, path := range []string{"/backups", "/backups?page=200", "/backups?search=backup-0001", "/",
		"/schedules", "/queue", "/backups?phase=PartiallyFailed"} {
		later := user.get(path)
		require.Equal(t, http.StatusOK, later.code)
		require.LessOrEqual(t, later.size, 20<<10, path)
		t.Logf("%s took %s and has %d bytes", path, later.took.Round(time.Millisecond), later.size)
	}
	require.Contains(t, user.get("/backups?page=200").text, "9951 to 10000 of 10000, page 200 of 200.")
	require.Contains(t, user.get("/backups?page=201").text, "page 201 of 200")
	require.Contains(t, user.get("/backups?phase=PartiallyFailed").text, "1 to 50 of 100, page 1 of 2.")
	require.Contains(t, user.get("/backups?search=schedule-7").text, "1 to 50 of 250,")
	require.Equal(t, http.StatusBadRequest, user.get("/backups?page=0").code)

	seen := map[string]bool{}
	for page := 1; page <= 200; page += 33 {
		var document struct {
			Items []struct{ Metadata struct{ Name string } }
			Total int
		}
		user.json(fmt.Sprintf("/backups?page=%d", page), &document)
		require.Equal(t, count, document.Total)
		require.Len(t, document.Items, 50)
		for _, item := range document.Items {
			require.False(t, seen[item.Metadata.Name], "two pages have %s", item.Metadata.Name)
			seen[item.Metadata.Name] = true
		}
	}

	// an open page shows a change within a second, in few bytes
	open := user.events("/backups")
	open.until("page 1 of 200")
	sent := open.size()
	require.LessOrEqual(t, sent, 20<<10)
	began = time.Now()
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "newest"}}))
	open.until("newest")
	t.Logf("a new backup was on the screen after %s, with %d bytes", time.Since(began).Round(time.Millisecond),
		open.size()-sent)
	require.LessOrEqual(t, open.size()-sent, 20<<10)
}
