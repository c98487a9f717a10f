package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

var onceField = regexp.MustCompile(`name="once" value="([^"]+)"`)

// fill returns the fields of a form with what somebody enters and the button that they press.
func (v *visitor) fill(path, do string, pairs ...string) url.Values {
	v.t.Helper()
	page := v.get(path)
	require.Equal(v.t, http.StatusOK, page.code, page.text)
	require.LessOrEqual(v.t, page.size, 20<<10)
	token, once := tokenField.FindStringSubmatch(page.text), onceField.FindStringSubmatch(page.text)
	require.NotNil(v.t, token, page.text)
	require.NotNil(v.t, once, page.text)
	form := url.Values{"token": {token[1]}, "once": {once[1]}, "do": {do}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

// leads sends a form and returns the address that it leads to.
func (v *visitor) leads(path string, form url.Values) string {
	v.t.Helper()
	got := v.post(path, form)
	require.Equal(v.t, http.StatusSeeOther, got.code, got.text)
	return got.header.Get("Location")
}

// formDocument is the document of a form.
type formDocument struct {
	Fields            []struct{ Name, Value, Error string }
	Problems, Notes   []string
	Refused, Command  string
	Kind, Backup, API string
}

func (d *formDocument) field(name string) (value, problem string) {
	for _, f := range d.Fields {
		if f.Name == name {
			return f.Value, f.Error
		}
	}
	return "", "there is no field " + name
}

// TestAcceptConsole_Forms restores and backs up by forms, without scripts: wrong input is kept with an error beside it,
// who may not create is told so, a form that is sent twice creates one, and a dry run shows what would be done.
func TestAcceptConsole_Forms(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	shop := s.Workload(60)
	user := open(t, s).user()
	const restores, backups = "/backups/done/restore", "/new-backup"

	// a dry run that no server has begun can be stopped
	waits := user.fill(backups, "dry-run", "name", "waits", "include-namespaces", shop)
	address := user.leads(backups, waits)
	working := user.events(address)
	working.until("The dry run is at work")
	var begun struct{ Name, Phase string }
	user.json(address, &begun)
	require.Equal(t, "DryRun", begun.Phase)
	var dry velerov1.Backup
	require.NoError(t, s.Client.Get(t.Context(), s.Key(begun.Name), &dry))
	before := dry.DeepCopy()
	dry.Status.Progress = &velerov1.BackupProgress{TotalItems: 10, ItemsBackedUp: 4}
	require.NoError(t, s.Client.Patch(t.Context(), &dry, client.MergeFrom(before)))
	working.until("at work: 4 of 10 items")
	require.NotContains(t, user.get(address).text, "Start the backup")
	waits.Set("do", "stop")
	require.Contains(t, user.leads(backups, waits), "include-namespaces="+shop)
	require.Contains(t, user.get(address).text, "There is no dry run of this any more")

	s.Serve()
	s.Available()
	s.Must("backup", "create", "done", "--include-namespaces", shop, "--wait")
	s.Must("schedule", "create", "nightly", "--schedule", "0 3 * * *", "--include-namespaces", shop)
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "invalid"},
		Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation}}))
	count := func(list client.ObjectList) int {
		require.NoError(t, s.Client.List(t.Context(), list, client.InNamespace(s.Namespace)))
		switch list := list.(type) {
		case *velerov1.RestoreList:
			return len(list.Items)
		case *velerov1.BackupList:
			return len(list.Items)
		}
		return -1
	}

	wrongInput(t, user)
	require.Equal(t, 0, count(&velerov1.RestoreList{}))
	require.Equal(t, 2, count(&velerov1.BackupList{}))
	twice := user.leads(backups, user.fill(backups, "start", "name", "b", "from-schedule", "nightly", "ttl", "1h"))
	require.Contains(t, user.get(twice).text, "leave out --ttl")
	form := user.fill(restores, "start", "name", "r")
	for name, text := range map[string]string{"once": "x", "do": "jump", "color": "red"} {
		wrong := url.Values{}
		for key := range form {
			wrong.Set(key, form.Get(key))
		}
		wrong.Set(name, text)
		require.Equal(t, http.StatusBadRequest, user.post(restores, wrong).code, name)
	}
	require.Equal(t, http.StatusBadRequest, user.get(restores+"?color=red").code)
	require.Equal(t, http.StatusBadRequest, user.get(restores+"?selector="+strings.Repeat("x", 33<<10)).code)
	require.Equal(t, http.StatusNotFound, user.get("/backups/missing/restore").code)
	require.Contains(t, user.get("/backups/invalid/restore").text, "backup invalid is FailedValidation")
	require.NotContains(t, user.get("/backups/invalid/restore").text, "<form")
	require.Contains(t, user.get(restores+"?search=web&item=pods%2Fa%2Fb").text, "It cannot choose by search=web")

	require.Contains(t, user.get(restores+"?include-namespaces=%3Cscript%3E").text, `value="&lt;script&gt;"`)

	// what the contents of the backup show is what the form begins with
	contents := "/backups/done/contents?namespace=" + shop + "&resource=configmaps&selector=a%3Db"
	link := restores + "?include-namespaces=" + shop + "&amp;include-resources=configmaps&amp;selector=a%3Db"
	s.Eventually("the contents are there", logHas(user, contents, `href="`+link+`">Restore these</a>`))
	item := "/backups/done/item?item=" + url.QueryEscape("configmaps/"+shop+"/item-a")
	require.Contains(t, user.get(item).text, `href="`+restores+"?include-namespaces="+shop+
		"&amp;include-resources=configmaps&amp;item=configmaps%2F"+shop+`%2Fitem-a">Restore it</a>`)
	var linked formDocument
	user.json(strings.ReplaceAll(link, "&amp;", "&"), &linked)
	require.Contains(t, linked.Command, "--include-namespaces="+shop+" --include-resources=configmaps --selector=a=b")

	guest := rights(t, s, restores, form)
	refusedByPolicy(t, s, user, restores)
	doubleClicks(t, s, user, shop, count)
	dryRunOfRestore(t, s, user, guest, shop)
	backUp(t, s, user, shop)
}

// wrongInput sends forms with what cannot be right.
func wrongInput(t *testing.T, user *visitor) {
	t.Helper()
	for _, wrong := range []struct{ path, field, text, want string }{
		{"/backups/done/restore", "name", "Not A Name", "want lower case letters"},
		{"/backups/done/restore", "name", strings.Repeat("x", 240), "want at most 229"},
		{"/backups/done/restore", "include-namespaces", "Shop", "invalid namespace"},
		{"/backups/done/restore", "exclude-namespaces", "a,*", "excludes list cannot contain"},
		{"/backups/done/restore", "selector", "a=b,a=c", "no object has two values of a label"},
		{"/backups/done/restore", "or-selector", "a=b or =", "couldn't parse the selector"},
		{"/backups/done/restore", "namespace-mappings", "a", "want FROM:TO"},
		{"/backups/done/restore", "namespace-mappings", "a:Copy", "want FROM:TO"},
		{"/backups/done/restore", "existing-resource-policy", "overwrite", "want none or update"},
		{"/backups/done/restore", "restore-volumes", "perhaps", "want true or false"},
		{"/backups/done/restore", "item-operation-timeout", "soon", "want a duration"},
		{"/backups/done/restore", "item-operation-timeout", "-1h", "want a duration"},
		{"/backups/done/restore", "parallel-files-download", "-1", "want a number from 0"},
		{"/backups/done/restore", "labels", "x", "want KEY=VALUE"},
		{"/backups/done/restore", "labels", "a=b c", "a valid label must be"},
		{"/backups/done/restore", "resource-modifier-configmap", "a b", "is no name"},
		{"/backups/done/restore", "selector", "a=\x01", "characters that cannot be seen"},
		{"/backups/done/restore", "", "include-resources=nodes", "nodes are non-restorable resources"},
		{"/new-backup", "storage-location", "nowhere", "there is no location nowhere: want default"},
		{"/new-backup", "from-schedule", "nowhere", "not found"},
		{"/new-backup", "ttl", "long", "want a duration"},
		{"/new-backup", "ordered-resources", "pods", "want RESOURCE=NAMESPACE/NAME"},
		{"/new-backup", "exclude-resources", "*", "excludes list cannot contain"},
		{"/new-backup", "", "include-resources=pods&include-namespace-scoped-resources=pods", "use one family of filters"},
	} {
		t.Run(wrong.field+" "+wrong.want, func(t *testing.T) { //nolint:paralleltest // the server is that of the test
			user.in(t).keeps(wrong.path, wrong.field, wrong.text, wrong.want)
		})
	}
}

// in returns the visitor for a part of a test.
func (v *visitor) in(t *testing.T) *visitor {
	t.Helper()
	c := *v.console
	c.t = t
	return &visitor{console: &c, cookie: v.cookie, token: v.token, tab: v.tab}
}

// keeps sends a form with a wrong field, or with several fields, and requires that it leads back to the form with what
// was entered and what would be right.
func (v *visitor) keeps(path, field, text, want string) {
	v.t.Helper()
	entered := url.Values{field: {text}}
	if field == "" {
		var err error
		entered, err = url.ParseQuery(text)
		require.NoError(v.t, err)
	}
	for _, do := range []string{"start", "dry-run"} {
		form := v.fill(path, do, "name", "wrong")
		for key := range entered {
			form.Set(key, entered.Get(key))
		}
		back := v.leads(path, form)
		require.True(v.t, strings.HasPrefix(back, path+"?"), back)
		var document formDocument
		v.json(back, &document)
		page := v.get(back).text
		for key := range entered {
			value, problem := document.field(key)
			require.Equal(v.t, entered.Get(key), value, "it is kept")
			if field != "" {
				require.Contains(v.t, problem, want)
				require.Contains(v.t, page, `aria-describedby="`+key+`-error `+key+`-hint" aria-invalid="true"`)
			}
		}
		if field == "" {
			require.Contains(v.t, fmt.Sprint(document.Problems), want)
		}
	}
}

// rights asks for forms with an account that may only read.
func rights(t *testing.T, s *site.Site, path string, form url.Values) (guest *visitor) {
	t.Helper()
	guest = inCluster(t, s).account(account(s, "guest", reads()))
	for _, path := range []string{path, "/new-backup", "/new-backup?from-schedule=nightly"} {
		page := guest.get(path)
		require.Equal(t, http.StatusOK, page.code)
		require.Regexp(t, "you may not create (restores|backups) in namespace "+s.Namespace, page.text)
		require.NotContains(t, page.text, "<form")
	}
	for _, do := range []string{"start", "dry-run"} {
		forgery := url.Values{"token": {forged(guest.token)}, "once": form["once"], "name": {"r"}, "do": {do}}
		got := guest.post(path, forgery)
		require.Equal(t, http.StatusForbidden, got.code, got.text)
		forgery.Set("token", form.Get("token"))
		require.Equal(t, http.StatusForbidden, guest.post(path, forgery).code, "the form of another viewer")
	}
	var list velerov1.RestoreList
	require.NoError(t, s.Client.List(t.Context(), &list, client.InNamespace(s.Namespace)))
	require.Empty(t, list.Items)
	return guest
}

// refusedByPolicy sends a form that a policy of the cluster refuses.
func refusedByPolicy(t *testing.T, s *site.Site, user *visitor, path string) {
	t.Helper()
	name := s.Namespace + "-forms"
	s.Put(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",
		"metadata":{"name":"` + name + `"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["velero.io"],
		"apiVersions":["*"],"operations":["CREATE"],"resources":["restores"]}]},"validations":[{"expression":
		"object.metadata.name != 'unwanted'","message":"the committee has not agreed"}]}}`)
	s.Put(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
		"metadata":{"name":"` + name + `"},"spec":{"policyName":"` + name + `","validationActions":["Deny"],
		"matchResources":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"` + s.Namespace + `"}}}}}`)
	s.Eventually("the policy is in force", logHas(user, path+"?name=unwanted", "the committee has not agreed"))
	for _, do := range []string{"start", "dry-run"} {
		back := user.leads(path, user.fill(path, do, "name", "unwanted", "selector", "a=b"))
		page := user.get(back).text
		require.Contains(t, page, "the committee has not agreed")
		require.Contains(t, page, `value="a=b"`)
	}
}

// doubleClicks sends a form several times at once, and then another one with the same name.
func doubleClicks(t *testing.T, s *site.Site, user *visitor, shop string, count func(client.ObjectList) int) {
	t.Helper()
	const path = "/backups/done/restore"
	form := user.fill(path, "start", "name", "once", "namespace-mappings", shop+":"+shop+"-once")
	var sending errgroup.Group
	for range 5 {
		sending.Go(func() error {
			if got := user.post(path, form); got.header.Get("Location") != "/restores/once" {
				return fmt.Errorf("%d %s", got.code, got.text)
			}
			return nil
		})
	}
	require.NoError(t, sending.Wait())
	require.Equal(t, 1, count(&velerov1.RestoreList{}))
	require.Equal(t, velerov1.RestorePhaseCompleted, s.AwaitEndOfRestore("once").Status.Phase)
	require.Equal(t, "/restores/once", user.leads(path, form), "also later")
	require.Equal(t, 1, count(&velerov1.RestoreList{}))
	changed := url.Values{}
	for key := range form {
		changed.Set(key, form.Get(key))
	}
	changed.Set("namespace-mappings", shop+":"+shop+"-other")
	for _, other := range []url.Values{changed, user.fill(path, "start", "name", "once")} {
		back := user.leads(path, other)
		require.Contains(t, user.get(back).text, "a restore named once exists: choose another name")
	}
	require.Equal(t, 1, count(&velerov1.RestoreList{}))
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "of-a-command"},
		Status:     velerov1.RestoreStatus{Phase: velerov1.RestorePhaseFailedValidation}}))
	back := user.leads(path, user.fill(path, "start", "name", "of-a-command"))
	require.Contains(t, user.get(back).text, "a restore named of-a-command exists")
}

// dryRunOfRestore finds out what a restore would do, and starts it.
func dryRunOfRestore(t *testing.T, s *site.Site, user, guest *visitor, shop string) {
	t.Helper()
	var changed corev1.ConfigMap
	key := client.ObjectKey{Namespace: shop, Name: "item-b"}
	require.NoError(t, s.Client.Get(t.Context(), key, &changed))
	changed.Data["n"] = "changed"
	require.NoError(t, s.Client.Update(t.Context(), &changed))
	require.NoError(t, s.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shop,
		Name: "item-c"}}))

	const path = "/backups/done/restore"
	form := user.fill(path, "dry-run", "name", "trial", "include-resources", "configmaps,\n namespaces", "selector",
		"!none, a notin (b,c)")
	page := user.leads(path, form)
	require.Equal(t, page, user.leads(path, form), "a double click makes one dry run")
	shown := user.events(page).until("would be in conflict")
	require.Contains(t, shown, "configmaps/"+shop+"/item-b")
	for _, want := range []string{"conflict: 1</a>", "created: 1</a>", "skipped: ", "wave 1 of ", "Start the restore",
		"cleat restore create trial --from-backup=done --include-resources=configmaps,namespaces --selector="} {
		require.Contains(t, shown, want)
	}
	var document struct {
		Kind, Name, Phase, Show string
		Command                 string
		Page, Pages             int
		Items                   []struct{ Name, Outcome string }
		Plan                    struct{ Waves []any }
		Summary                 struct{ Items map[string]int }
	}
	user.json(page+"&show=created", &document)
	require.Equal(t, "RestoreDryRun DryRunCompleted created", document.Kind+" "+document.Phase+" "+document.Show)
	require.Len(t, document.Items, 1)
	require.Equal(t, "item-c", document.Items[0].Name)
	require.NotEmpty(t, document.Plan.Waves)
	seen := map[string]bool{}
	for number := 1; number <= 2; number++ {
		user.json(fmt.Sprintf("%s&show=skipped&page=%d", page, number), &document)
		require.Equal(t, 2, document.Pages)
		for _, item := range document.Items {
			seen[item.Name] = true
		}
	}
	require.Len(t, seen, document.Summary.Items["skipped"])
	for _, wrong := range []string{"&show=x", "&page=0", "&show=skipped&page=3", "&once=x"} {
		address := page + wrong
		if strings.Contains(wrong, "once") {
			address = strings.Replace(page, "once=", "once=x", 1)
		}
		require.Equal(t, http.StatusBadRequest, user.get(address).code, wrong)
	}
	require.Contains(t, user.get(page+"&include-namespaces=other").text, "There is no dry run of this any more")
	require.Equal(t, 1, strings.Count(s.Must("restore", "get"), "trial-dry-run"), "one dry run was made")

	sent := guest.get(page).text
	require.Contains(t, sent, "you may not create restores")
	require.Contains(t, sent, "you may not create downloadrequests")
	require.NotContains(t, sent, "<form")

	form.Set("do", "start")
	require.Equal(t, "/restores/trial", user.leads(path, form))
	trial := s.AwaitEndOfRestore("trial")
	require.Equal(t, velerov1.RestorePhaseCompleted, trial.Status.Phase)
	split, err := exec.Command("sh", "-c", "set -- "+document.Command+`; printf '%s\n' "$@"`).Output()
	require.NoError(t, err)
	var printed velerov1.Restore
	args := strings.Split(strings.TrimSpace(string(split)), "\n")
	require.NoError(t, json.Unmarshal([]byte(s.Must(append(args[1:], "-o", "json")...)), &printed))
	printed.Spec.ExcludedResources, printed.Spec.ItemOperationTimeout = trial.Spec.ExcludedResources,
		trial.Spec.ItemOperationTimeout // the defaults of the server
	require.Equal(t, printed.Spec, trial.Spec, document.Command)
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: shop, Name: "item-c"}, &changed))
	form.Set("do", "accept")
	require.Equal(t, http.StatusBadRequest, user.post(path, form).code)

	// to stop a dry run deletes it, and leads back to what was entered
	form.Set("do", "stop")
	back := user.leads(path, form)
	require.Contains(t, back, "include-resources=configmaps%2Cnamespaces")
	s.AwaitGone(&velerov1.Restore{}, document.Name)
	require.Equal(t, back, user.leads(path, form), "also if it is gone")
	require.Contains(t, user.get(page).text, "Dry run again")
}

// backUp backs up from filters with a dry run, and from a schedule.
func backUp(t *testing.T, s *site.Site, user *visitor, shop string) {
	t.Helper()
	const path = "/new-backup"
	form := user.fill(path, "dry-run", "name", "chosen", "include-namespaces", shop, "include-resources", "configmaps",
		"ttl", "2h", "snapshot-volumes", "false", "storage-location", "default")
	page := user.leads(path, form)
	shown := user.events(page).until("Start with exactly these items")
	require.Contains(t, shown, "would be backed up; nothing was stored")
	var document struct {
		Kind, Phase string
		Collection  struct{ Items int }
	}
	user.json(page, &document)
	require.Equal(t, "BackupDryRun DryRunCompleted", document.Kind+" "+document.Phase)
	require.Equal(t, 61, document.Collection.Items, "60 ConfigMaps and their namespace")
	form.Set("do", "accept")
	require.Equal(t, "/backups/chosen", user.leads(path, form))
	require.Equal(t, "/backups/chosen", user.leads(path, form))
	chosen := s.AwaitBackup("chosen", velerov1.BackupPhaseCompleted)
	require.NotEmpty(t, chosen.Annotations[velerov1.AcceptAnnotation])
	require.Equal(t, "2h0m0s", chosen.Spec.TTL.Duration.String())
	require.False(t, *chosen.Spec.SnapshotVolumes)

	require.Contains(t, user.get("/schedules/nightly").text, `href="/new-backup?from-schedule=nightly"`)
	form = user.fill("/new-backup?from-schedule=nightly", "start", "name", "now", "from-schedule", "nightly")
	require.Equal(t, "/backups/now", user.leads(path, form))
	now := s.AwaitBackup("now", velerov1.BackupPhaseCompleted)
	require.Equal(t, "nightly", now.Labels[velerov1.ScheduleNameLabel])
	require.Equal(t, []string{shop}, now.Spec.IncludedNamespaces)
	s.Eventually("the page has it", func(context.Context) (bool, error) {
		return strings.Contains(user.get("/backups/now").text, "/backups/now/restore"), nil
	})
}
