package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptQueue_PolicyPlugins runs each policy on the same backups in the same queue: the built-in ones and the one
// in examples/admission-policy. The server is restarted with another file for each. Then backups wait while the
// program of the policy is replaced by versions that break each of the rules, under both failure policies.
func TestAcceptQueue_PolicyPlugins(t *testing.T) {
	t.Parallel()
	t.Run("each decides in its way", eachPolicyDecidesInItsWay)
	t.Run("swapped in mid-queue", policiesAreSwappedInMidQueue)
	t.Run("broken, Hold", aBrokenPolicyHoldsTheQueue)
	t.Run("broken, UseBuiltIn", theBuiltInStandsIn)
}

// runs creates a backup that runs until ends is called.
func runs(s *site.Site, name, namespace string) {
	s.T.Helper()
	createInProgress(s, &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.cleat.dev/team": "gold"}},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{namespace}, IncludedResources: []string{"secrets"}},
	})
}

func ends(s *site.Site, name string) {
	s.T.Helper()
	var b velerov1.Backup
	require.NoError(s.T, s.Client.Get(s.T.Context(), s.Key(name), &b))
	before := b.DeepCopy()
	b.Status.Phase = velerov1.BackupPhaseCompleted
	require.NoError(s.T, s.Client.Patch(s.T.Context(), &b, client.MergeFrom(before)))
}

// shows waits until backups are as wanted: "NAME PHASE", or "NAME POSITION REASON: MESSAGE (POLICY)".
func shows(s *site.Site, names map[string]string, want ...string) {
	s.T.Helper()
	var replace []string
	for from, to := range names {
		replace = append(replace, from, to)
	}
	s.Eventually("backups are\n"+strings.Join(want, "\n"), func(ctx context.Context) (bool, error) {
		var got []string
		for _, line := range want {
			var b velerov1.Backup
			if err := s.Client.Get(ctx, s.Key(strings.Fields(line)[0]), &b); err != nil {
				return false, err
			}
			wait, err := velerov1.QueueWaitOf(&b)
			if err != nil {
				return false, err
			}
			text := fmt.Sprintf("%s %s", b.Name, b.Status.Phase)
			if wait != nil {
				text = fmt.Sprintf("%s %d %s: %s (%s)", b.Name, b.Status.QueuePosition, wait.Reason, wait.Message, wait.Policy)
			}
			// If a policy died so often that it is not called for a while, the text is about its last death.
			text = outOfService.ReplaceAllString(text, "")
			// An event, for example of the replaced program, makes the queue call the policy and report again.
			text = attempts.ReplaceAllString(text, "attempt N")
			got = append(got, strings.NewReplacer(replace...).Replace(text))
		}
		if !slices.Equal(got, want) {
			return false, fmt.Errorf("they are\n%s", strings.Join(got, "\n"))
		}
		return true, nil
	})
}

var outOfService = regexp.MustCompile(
	`plugin process \S+ is out of service until \S+ after \d+ failures in a row, the last: `,
)

var attempts = regexp.MustCompile(`attempt \d+`)

func eachPolicyDecidesInItsWay(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	shop, yard := s.Workload(2), s.Workload(2)
	names := map[string]string{shop: "SHOP", yard: "YARD"}
	dir := t.TempDir()
	programs.Copy(t, "examples/admission-policy", filepath.Join(dir, "office-hours"))
	for i, policy := range []struct {
		admission string
		shows     []string
	}{
		{"plugin: cleat.dev/fifo", []string{"alike Completed", "other Completed", "remote Completed"}},
		{"plugin: cleat.dev/namespace-overlap", []string{
			"alike 1 NamespaceOverlap: shares namespace SHOP with runs, which runs (cleat.dev/namespace-overlap)",
			"other 2 NamespaceOverlap: shares namespace SHOP with alike, which is ahead of it in the queue " +
				"(cleat.dev/namespace-overlap)",
			"remote Completed",
		}},
		{"plugin: cleat.dev/priority, config: {age: 1000h}", []string{
			"other 1 NamespaceOverlap: shares namespace SHOP with runs, which runs; its priority is 7 (cleat.dev/priority)",
			"alike 2 NamespaceOverlap: shares namespace SHOP with other, which is ahead of it in the queue; its priority is 0 " +
				"(cleat.dev/priority)",
			"remote Completed",
		}},
		{"plugin: cleat.dev/item-overlap, config: {sharedVolumes: false}", []string{
			"alike 1 NamespaceOverlap: shares namespace SHOP with runs, which runs (cleat.dev/item-overlap)",
			"other Completed", "remote Completed",
		}},
		{"plugin: example.cleat.dev/office-hours, config: {quota: {teams: {gold: 1}}}", []string{
			"alike 1 NamespaceOverlap: shares namespace SHOP with runs, which has started (example.cleat.dev/office-hours)",
			"other 2 NamespaceOverlap: shares namespace SHOP with runs, which has started (example.cleat.dev/office-hours)",
			"remote 3 TeamQuota: team gold has a quota of 1, and 1 of its backups have started (example.cleat.dev/office-hours)",
		}},
	} {
		server := s.Serve("--plugin-dir", dir, "--config", site.ConfigFile(t, "backups:\n  concurrent: 2\n  admission: {"+
			policy.admission+"}\n"))
		if i == 0 {
			s.Available()
		}
		server.AwaitLog("server started")
		suffix := fmt.Sprintf("-%d", i)
		named := map[string]string{suffix: ""}
		for from, to := range names {
			named[from] = to
		}
		runs(s, "runs"+suffix, shop)
		// Creation times have a resolution of a second. Names decide between equal times, so they are in the same
		// order.
		for _, b := range []*velerov1.Backup{
			{ObjectMeta: metav1.ObjectMeta{Name: "alike"}, Spec: velerov1.BackupSpec{IncludedNamespaces: []string{shop},
				IncludedResources: []string{"secrets"}}},
			{
				ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: map[string]string{"cleat.dev/priority": "7"}},
				Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{shop}, IncludedResources: []string{"configmaps"}},
			},
			{
				ObjectMeta: metav1.ObjectMeta{Name: "remote", Labels: map[string]string{"example.cleat.dev/team": "gold"}},
				Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{yard}},
			},
		} {
			b.Name, b.Namespace = b.Name+suffix, s.Namespace
			require.NoError(t, s.Client.Create(t.Context(), b))
		}
		want := make([]string, len(policy.shows))
		for j, line := range policy.shows {
			name, rest, _ := strings.Cut(line, " ")
			want[j] = name + suffix + " " + rest
		}
		showsNamed(s, named, suffix, want)
		ends(s, "runs"+suffix)
		shows(s, nil, "alike"+suffix+" Completed", "other"+suffix+" Completed", "remote"+suffix+" Completed")
		require.NoError(t, server.Stop())
	}
}

// showsNamed is shows for backups whose names end with suffix; the wanted texts omit it.
func showsNamed(s *site.Site, names map[string]string, suffix string, want []string) {
	s.T.Helper()
	delete(names, suffix)
	for i, line := range want {
		name, rest, _ := strings.Cut(line, " ")
		for _, other := range []string{"runs", "alike", "other"} {
			rest = regexp.MustCompile(`(with|too:) `+other+`\b`).ReplaceAllString(rest, "$1 "+other+suffix)
		}
		want[i] = name + " " + rest
	}
	shows(s, names, want...)
}

// brokenPolicy is a policy with many versions.
type brokenPolicy struct {
	t                    *testing.T
	program, dir, mended string
}

func newBrokenPolicy(t *testing.T) *brokenPolicy {
	t.Helper()
	return &brokenPolicy{
		t: t, program: programs.Build(t, "server/test/queue/testdata/admission"), dir: t.TempDir(),
		mended: filepath.Join(t.TempDir(), "mended"),
	}
}

// put installs a version in the plugin directory.
func (p *brokenPolicy) put(do string) {
	p.t.Helper()
	program, err := os.ReadFile(p.program)
	require.NoError(p.t, err)
	ending, err := json.Marshal(map[string]string{"Do": do, "Mended": p.mended})
	require.NoError(p.t, err)
	path := filepath.Join(p.dir, "admission")
	require.NoError(p.t, os.WriteFile(path+".tmp", append(append(program, "\nadmission:"...), ending...), 0o755)) //nolint:gosec // a program
	require.NoError(p.t, os.Rename(path+".tmp", path))
}

func (p *brokenPolicy) serve(s *site.Site, admission string) *site.Server {
	return s.Serve("--metrics-address", "127.0.0.1:0", "--plugin-dir", p.dir, "--config",
		site.ConfigFile(p.t, "backups:\n  concurrent: 3\n  admission: {"+admission+"}\n"))
}

// The deadline is long enough for the start of a program on a busy machine.
const broken = "plugin: example.io/broken, deadline: 10s, failurePolicy: "

// policiesAreSwappedInMidQueue replaces the policy with another file and a restart of the server, and with another
// program.
func policiesAreSwappedInMidQueue(t *testing.T) {
	t.Parallel()
	p := newBrokenPolicy(t)
	p.put("let nobody start")
	s := site.New(t, "cleat.dev/file")
	shop, yard := s.Workload(1), s.Workload(1)
	server := p.serve(s, broken+"Hold")
	s.Available()
	s.BeginBackupOf("a", shop)
	shows(s, nil, "a 1 Closed: nobody starts (example.io/broken)")
	s.BeginBackupOf("b", yard)
	shows(s, nil, "b 2 Closed: nobody starts (example.io/broken)")
	s.BeginBackupOf("c", shop)
	shows(s, nil, "a 1 Closed: nobody starts (example.io/broken)", "b 2 Closed: nobody starts (example.io/broken)",
		"c 3 Closed: nobody starts (example.io/broken)")
	require.NoError(t, server.Stop())

	// With another policy that admits none, the positions stay the same.
	programs.Copy(t, "examples/admission-policy", filepath.Join(p.dir, "office-hours"))
	server = p.serve(s, `plugin: example.cleat.dev/office-hours, config: {freeze: [{from: "00:00", to: "24:00", namespaces: ["shop-*"]}]}`)
	for i, name := range []string{"a", "b", "c"} {
		s.Eventually(name+" waits for the window", func(ctx context.Context) (bool, error) {
			var b velerov1.Backup
			if err := s.Client.Get(ctx, s.Key(name), &b); err != nil {
				return false, err
			}
			wait, err := velerov1.QueueWaitOf(&b)
			return wait != nil && wait.Policy == "example.cleat.dev/office-hours" && wait.Reason == "Freeze" &&
				b.Status.QueuePosition == i+1, err
		})
	}
	require.NoError(t, server.Stop())

	// Back to the first policy: replacing its program while backups wait is enough for them to start.
	server = p.serve(s, broken+"Hold")
	shows(s, nil, "a 1 Closed: nobody starts (example.io/broken)", "b 2 Closed: nobody starts (example.io/broken)",
		"c 3 Closed: nobody starts (example.io/broken)")
	p.put("keep the rules")
	shows(s, nil, "a Completed", "b Completed", "c Completed")
	require.NoError(t, server.Stop())
}

// failures returns the behavior of the versions of the broken policy, and the expected messages.
func failures() [][2]string {
	return [][2]string{
		{"admit twice", `invalid reply: admits "a", which is not queued or was admitted already`},
		{"admit too many", `invalid reply: admits 3 backups, and 2 of 3 slots are free`},
		{"admit a stranger", `invalid reply: admits "stranger", which is not queued or was admitted already`},
		{"leave a hole", `invalid reply: leaves 1 backups out of the order, "a" among them`},
		{"place twice", `invalid reply: orders "a", which does not wait in the queue or has its position already`},
		{"give no reason", `invalid reply: does not say why "a" waits`},
		{"die", `plugin example.io/broken (DIR/admission) died during Decide: exit status 3; it wrote nothing to stderr`},
		{"hang", `plugin example.io/broken (DIR/admission) did not answer Decide within 10s`},
	}
}

func aBrokenPolicyHoldsTheQueue(t *testing.T) {
	t.Parallel()
	p := newBrokenPolicy(t)
	p.put("let nobody start")
	s := site.New(t, "cleat.dev/file")
	shop := s.Workload(1)
	server := p.serve(s, broken+"Hold")
	s.Available()
	runs(s, "runs", shop)
	for i, name := range []string{"a", "b", "c"} {
		s.BeginBackupOf(name, shop)
		shows(s, nil, fmt.Sprintf("%s %d Closed: nobody starts (example.io/broken)", name, i+1))
	}
	for _, failure := range failures() {
		p.put(failure[0])
		text := "PolicyFailed: nothing is decided: held (failurePolicy: Hold): QueueAdmission(example.io/broken): " +
			failure[1] + " ()"
		shows(s, map[string]string{p.dir: "DIR"}, "a 1 "+text, "b 2 "+text, "c 3 "+text)
	}
	require.Contains(t, server.Log.String(), "policy fails")
	require.Equal(t, 1, warnings(s, "a"), "the event is not repeated while the failure lasts")
	tellsOfTheQueue(s, cli{Running: 1, Waiting: 3, Limit: 3, decides: "", reason: policy.ReasonOverdue})
	server.Measures(`cleat_policy_failing{kind="QueueAdmission",plugin="example.io/broken"} 1`, `cleat_queue_depth 3`,
		`cleat_queue_running 1`,
		`cleat_queue_waiting{reason="PolicyFailed"} 3`,
		`cleat_policy_failures_total{kind="QueueAdmission",plugin="example.io/broken",reason="Died"} \d+`,
		`cleat_policy_failures_total{kind="QueueAdmission",plugin="example.io/broken",reason="InvalidReply"} \d+`)

	// The policy recovers without a change that the server could notice.
	p.put("fail")
	text := "PolicyFailed: nothing is decided: held (failurePolicy: Hold): QueueAdmission(example.io/broken): the " +
		"calendar cannot be reached, attempt N ()"
	shows(s, nil, "a 1 "+text, "b 2 "+text, "c 3 "+text)
	require.NoError(t, os.WriteFile(p.mended, nil, 0o600))
	shows(s, nil, "a Completed", "b Completed", "c Completed")
	server.AwaitLog("policy works again")
	tellsOfTheQueue(s, cli{Running: 1, Limit: 3, decides: "example.io/broken"})
	server.Measures(`cleat_policy_failing{kind="QueueAdmission",plugin="example.io/broken"} 0`, `cleat_queue_depth 0`,
		`cleat_queue_running 1`,
		`cleat_queue_wait_seconds_count 3`, `cleat_queue_decision_seconds_count \d+`)
	require.NotContains(t, server.Metrics(), "cleat_queue_waiting{", "no backup waits")

	// The server notices a missing program without a decision.
	require.NoError(t, os.Remove(filepath.Join(p.dir, "admission")))
	tellsOfTheQueue(s, cli{Running: 1, Limit: 3, decides: "", reason: policy.ReasonUnavailable})
}

// cli is a part of the document of "cleat queue -o json".
type cli struct {
	Running, Waiting, Limit int
	decides, reason         string
}

func tellsOfTheQueue(s *site.Site, want cli) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("cleat queue says %+v", want), func(context.Context) (bool, error) {
		out, errs, err := s.Run("queue", "--timeout", "2m", "-o", "json")
		if err != nil {
			return false, fmt.Errorf("%w: %s", err, errs)
		}
		var got struct {
			cli
			Policy serverreport.Policy
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return false, err
		}
		got.decides, got.reason = got.Policy.Decides, got.Policy.Reason
		if want.reason == policy.ReasonOverdue && got.reason == policy.ReasonOutOfService {
			// It was overdue several times in a row.
			got.reason = want.reason
		}
		if got.cli != want || (want.reason != "") != (got.Policy.Message != "") {
			return false, fmt.Errorf("it says %s", out)
		}
		return true, nil
	})
}

func theBuiltInStandsIn(t *testing.T) {
	t.Parallel()
	p := newBrokenPolicy(t)
	p.put("let nobody start")
	s := site.New(t, "cleat.dev/file")
	shop, yard := s.Workload(1), s.Workload(1)
	server := p.serve(s, broken+"UseBuiltIn")
	s.Available()
	runs(s, "runs", shop)
	for i, name := range []string{"a", "b", "c"} {
		s.BeginBackupOf(name, shop)
		shows(s, nil, fmt.Sprintf("%s %d Closed: nobody starts (example.io/broken)", name, i+1))
	}
	for i, failure := range failures() {
		p.put(failure[0])
		if i == 0 {
			s.BeginBackupOf("free", yard)
		}
		shows(s, map[string]string{shop: "SHOP", p.dir: "DIR"},
			"a 1 NamespaceOverlap: shares namespace SHOP with runs, which runs; "+
				"cleat.dev/namespace-overlap decided, because of QueueAdmission(example.io/broken): "+failure[1]+
				" (cleat.dev/namespace-overlap)")
	}
	shows(s, nil, "free Completed")
	require.Equal(t, 1, warnings(s, "a"), "the event about the replacement is not repeated while it lasts")
	tellsOfTheQueue(s, cli{Running: 1, Waiting: 3, Limit: 3, decides: config.DefaultAdmission,
		reason: policy.ReasonOverdue})
	server.Measures(`cleat_policy_failing{kind="QueueAdmission",plugin="example.io/broken"} 1`,
		`cleat_queue_waiting{reason="NamespaceOverlap"} 3`,
		`cleat_queue_wait_seconds_count 1`)
	p.put("keep the rules")
	shows(s, nil, "a Completed", "b Completed", "c Completed")
	server.AwaitLog("policy works again")
}

// warnings waits for events about the failing policy of a backup, and counts them.
func warnings(s *site.Site, name string) (count int) {
	s.T.Helper()
	s.Eventually("an event about "+name, func(ctx context.Context) (bool, error) {
		count = countWarnings(ctx, s, name)
		return count > 0, nil
	})
	return count
}

func countWarnings(ctx context.Context, s *site.Site, name string) int {
	s.T.Helper()
	var list eventsv1.EventList
	require.NoError(s.T, s.Client.List(ctx, &list, client.InNamespace(s.Namespace)))
	count := 0
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Name == name && e.Type == "Warning" && e.Reason == "PolicyFailed" {
			count++
		}
	}
	return count
}
