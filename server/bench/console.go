package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
)

const (
	consoleBackups = 10_000
	consoleQueued  = 500
	consoleViewers = 100
	consoleIdle    = time.Minute // during which nothing happens
)

// consolePages reports the time of the first page of a new viewer with 10,000 backups and 500 queued ones, divided by
// that of the requests to the API server that it needs. It also reports the memory that 100 viewers with an open page
// cost, in MB, and the part of a core that they take in a minute in which nothing happens, in percent.
func consolePages(ctx context.Context, s *site, report func(string, float64)) (err error) {
	c, _, err := s.queueClient()
	if err != nil {
		return err
	}
	say("creating %d backups and %d accounts", consoleBackups+consoleQueued, consoleViewers+runs+1)
	if err := makeBackups(ctx, c); err != nil {
		return err
	}
	tokens, err := makeViewers(ctx, c, consoleViewers+runs+1)
	if err != nil {
		return err
	}
	answering, stop := context.WithCancel(ctx)
	defer stop()
	if err := answer(answering, c); err != nil {
		return err
	}
	console, err := startConsole(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, console.stop()) }()
	var ratios []float64
	for n := range runs + 1 {
		bare, err := bareLists(ctx, c)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := console.page(ctx, tokens[n], "/backups"); err != nil {
			return err
		}
		took := time.Since(began)
		again := time.Now()
		if err := console.page(ctx, tokens[n], "/backups?page=2"); err != nil {
			return err
		}
		if n == 0 {
			continue // warm-up
		}
		ratios = append(ratios, took.Seconds()/bare.Seconds())
		say("the first page %s, its requests %s, ratio %.2f; the next page %s", took.Round(time.Millisecond),
			bare.Round(time.Millisecond), ratios[n-1], time.Since(again).Round(time.Millisecond))
	}
	report("console_page_over_calls", median(ratios))
	return console.viewers(ctx, tokens[runs+1:], report)
}

func makeBackups(ctx context.Context, c client.Client) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	now := time.Now()
	for i := range consoleBackups + consoleQueued {
		g.Go(func() error {
			end := metav1.NewTime(now.Add(-time.Duration(i) * time.Minute))
			b := &velerov1.Backup{
				ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace, Name: fmt.Sprintf("backup-%05d", i),
					Labels: map[string]string{velerov1.ScheduleNameLabel: fmt.Sprintf("schedule-%d", i%40)}},
				Spec: velerov1.BackupSpec{IncludedNamespaces: []string{fmt.Sprintf("namespace-%d", i%40)},
					StorageLocation: "default"},
				Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted, StartTimestamp: &end,
					CompletionTimestamp: &end, Progress: &velerov1.BackupProgress{TotalItems: 1000, ItemsBackedUp: 1000}},
			}
			if i >= consoleBackups {
				b.Status = velerov1.BackupStatus{Phase: velerov1.BackupPhaseQueued, QueuePosition: i - consoleBackups + 1}
			}
			return c.Create(ctx, b)
		})
	}
	return g.Wait()
}

// makeViewers returns the tokens of service accounts that may read everything.
func makeViewers(ctx context.Context, c client.Client, count int) ([]string, error) {
	role := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewers"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts"}}}
	if err := c.Create(ctx, role); err != nil {
		return nil, err
	}
	tokens := make([]string, count)
	for i := range count {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: roundtrip.Namespace,
			Name: fmt.Sprintf("viewer-%d", i)}}
		if err := c.Create(ctx, account); err != nil {
			return nil, err
		}
		request := &authenticationv1.TokenRequest{}
		if err := c.SubResource("token").Create(ctx, account, request); err != nil {
			return nil, fmt.Errorf("request a token: %w", err)
		}
		tokens[i] = request.Status.Token
	}
	return tokens, nil
}

// answer answers what the console asks a server, until ctx ends. A real server would work on the backups.
func answer(ctx context.Context, c client.WithWatch) error {
	requests, err := c.Watch(ctx, &velerov1.ServerStatusRequestList{}, client.InNamespace(roundtrip.Namespace))
	if err != nil {
		return err
	}
	go func() {
		for event := range requests.ResultChan() {
			request, ok := event.Object.(*velerov1.ServerStatusRequest)
			if event.Type != watch.Added || !ok {
				continue
			}
			before := request.DeepCopy()
			request.Status.Phase, request.Status.ServerVersion = velerov1.ServerStatusRequestPhaseProcessed, "bench"
			_ = c.Patch(ctx, request, client.MergeFrom(before)) // the console asks again
		}
	}()
	return nil
}

// bareLists takes the time of listing the backups with the client that the console has.
func bareLists(ctx context.Context, c client.Client) (time.Duration, error) {
	began := time.Now()
	for next := ""; ; {
		var list velerov1.BackupList
		if err := c.List(ctx, &list, client.InNamespace(roundtrip.Namespace), client.Limit(500),
			client.Continue(next)); err != nil {
			return 0, err
		}
		if next = list.Continue; next == "" {
			return time.Since(began), nil
		}
	}
}

// consoleProcess is a console as in a cluster.
type consoleProcess struct {
	cmd  *exec.Cmd
	base string
}

func startConsole(ctx context.Context, s *site) (*consoleProcess, error) {
	cmd := exec.CommandContext(ctx, s.Cleat, "console", "--in-cluster", "--listen", "127.0.0.1:0", "--kubeconfig",
		s.Kubeconfig, "--namespace", roundtrip.Namespace)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if found := regexp.MustCompile(`listens at (\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			return &consoleProcess{cmd, "http://" + found[1]}, nil
		}
	}
	return nil, errors.Join(errors.New("the console has printed no address"), cmd.Process.Kill(), cmd.Wait())
}

func (c *consoleProcess) stop() error {
	return errors.Join(c.cmd.Process.Signal(os.Interrupt), c.cmd.Wait())
}

func (c *consoleProcess) get(ctx context.Context, token, path, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("%s: %s", path, response.Status), response.Body.Close())
	}
	return response, err
}

func (c *consoleProcess) page(ctx context.Context, token, path string) error {
	response, err := c.get(ctx, token, path, "text/html")
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// viewers opens the queue for each token, and reports what that costs.
func (c *consoleProcess) viewers(ctx context.Context, tokens []string, report func(string, float64)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	before, err := tree(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	for _, token := range tokens {
		response, err := c.get(ctx, token, "/queue", "text/event-stream")
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}()
	}
	select { // the first lists are garbage, and a page is made again while the server does not answer
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(consoleIdle / 2):
	}
	began, err := tree(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(consoleIdle):
	}
	ended, err := tree(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	say("%d viewers: %.0f MB, before them %.0f MB", len(tokens), ended.megabytes, before.megabytes)
	report("console_rss", ended.megabytes-before.megabytes)
	report("console_idle_cpu", 100*(ended.cpu-began.cpu)/consoleIdle.Seconds())
	return nil
}
