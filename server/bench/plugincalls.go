package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// A run of the call benchmarks consists of rounds of small items and one large item each, in total 10,000 of 1 KiB and
// 100 of 500 KiB. The sides take turns in each round, so that other load on the machine affects all sides.
const (
	callRounds    = 100
	smallPerRound = 100
	smallItem     = 1 << 10
	largeItem     = 500 << 10
)

// benchBackup is the Backup that is sent with each item.
const benchBackup = `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",` +
	`"generation":1,"labels":{"velero.io/storage-location":"default"},"name":"nightly","namespace":"velero","resourceVersion":"1",` +
	`"uid":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"},"spec":{"csiSnapshotTimeout":"10m0s","includedNamespaces":["*"],` +
	`"itemOperationTimeout":"4h0m0s","metadata":{},"snapshotMoveData":false,"storageLocation":"default","ttl":"720h0m0s"},` +
	`"status":{"expiration":"2026-01-31T00:00:00Z","formatVersion":"1.1.0","phase":"InProgress","startTimestamp":"2026-01-01T00:00:00Z","version":1}}`

// configMap returns the JSON of a config map with size bytes of data: lines of text, as in files.
func configMap(name string, size int) []byte {
	const keys = 4
	line := "some.setting.of.the.shop: \"a value\" # with a comment\\n"
	value := strings.Repeat(line, 1+size/keys/len(line))[:size/keys/len(line)*len(line)]
	value += strings.Repeat("x", size/keys-len(value))
	value = strings.ReplaceAll(value, `"`, `\"`)
	var data []string
	for key := range keys {
		data = append(data, fmt.Sprintf(`"file-%d.yaml":"%s"`, key, value))
	}
	return []byte(`{"apiVersion":"v1","data":{` + strings.Join(data, ",") +
		`},"kind":"ConfigMap","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",` +
		`"labels":{"app.kubernetes.io/name":"shop"},"name":"` + name +
		`","namespace":"shop","resourceVersion":"4711","uid":"6ba7b811-9dad-11d1-80b4-00c04fd430c8"}}`)
}

// execute is one side of a comparison: it sends an item and receives it back.
type execute func(ctx context.Context, item []byte) error

// side holds the times of one side, and the numbers of items.
type side struct {
	run            execute
	small, large   time.Duration
	smalls, larges int
}

// over returns the time of all items divided by the time of another side.
func (s *side) over(other *side) float64 {
	return (s.small + s.large).Seconds() / (other.small + other.large).Seconds()
}

// String returns the time of one item of each size.
func (s *side) String() string {
	return fmt.Sprintf("%.1f µs and %.2f ms", float64(s.small.Nanoseconds())/1e3/float64(s.smalls),
		s.large.Seconds()*1e3/float64(s.larges))
}

// takeTurns runs all sides over the same items.
func takeTurns(ctx context.Context, sides ...*side) error {
	small, large := configMap("small", smallItem), configMap("large", largeItem)
	for round := range callRounds {
		for i := range sides {
			s := sides[(i+round)%len(sides)] // the order of the sides alternates
			took, err := timed(ctx, s.run, small, smallPerRound)
			if err != nil {
				return err
			}
			s.small, s.smalls = s.small+took, s.smalls+smallPerRound
		}
		for i := range sides {
			s := sides[(i+round)%len(sides)]
			took, err := timed(ctx, s.run, large, 1)
			if err != nil {
				return err
			}
			s.large, s.larges = s.large+took, s.larges+1
		}
	}
	return nil
}

// timed returns the time to send an item a number of times.
func timed(ctx context.Context, run execute, item []byte, times int) (time.Duration, error) {
	began := time.Now()
	for range times {
		if err := run(ctx, item); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// callSite is the environment of the call benchmarks: a host with the labelling plugin, and the bare echo.
type callSite struct {
	dir     string
	host    *pluginhost.Host
	session *pluginhost.Session
	echo    *plugin.Client
	client  backupitemactionv2.BackupItemActionClient
}

func newCallSite(ctx context.Context) (_ *callSite, err error) {
	s := &callSite{}
	if s.dir, err = os.MkdirTemp("", "cleat-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	plugins := filepath.Join(s.dir, "plugins")
	if err := build(ctx, "labeller", filepath.Join(plugins, "label")); err != nil {
		return nil, err
	}
	if err := build(ctx, "bareecho", filepath.Join(s.dir, "bareecho")); err != nil {
		return nil, err
	}
	s.host, err = pluginhost.New(ctx, pluginhost.Config{Dir: plugins, Log: hclog.NewNullLogger(),
		Metrics: prometheus.NewRegistry()})
	if err != nil {
		return nil, err
	}
	s.session = s.host.Session("", hclog.NewNullLogger())
	echo, conn, err := startBare(exec.Command(filepath.Join(s.dir, "bareecho")))
	if err != nil {
		return nil, err
	}
	s.echo, s.client = echo, backupitemactionv2.NewBackupItemActionClient(conn)
	return s, nil
}

// startBare starts the process of a plugin and returns a bare connection to it, encrypted like the server's
// connections. The caller must kill it.
func startBare(cmd *exec.Cmd) (*plugin.Client, *grpc.ClientConn, error) {
	process := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: hostapi.Handshake(), Plugins: plugin.PluginSet{}, Cmd: cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, AutoMTLS: true, Logger: hclog.NewNullLogger(),
	})
	protocol, err := process.Client()
	if err == nil {
		if bare, ok := protocol.(*plugin.GRPCClient); ok {
			return process, bare.Conn, nil
		}
		err = fmt.Errorf("it speaks %T", protocol)
	}
	process.Kill()
	return nil, nil, fmt.Errorf("start %s: %w", cmd.Path, err)
}

func (s *callSite) close() {
	if s.echo != nil {
		s.echo.Kill()
	}
	if s.session != nil {
		s.session.Close()
	}
	if s.host != nil {
		s.host.Close()
	}
	_ = os.RemoveAll(s.dir)
}

// build builds one of the programs in the folders of server/bench.
func build(ctx context.Context, program, path string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "./server/bench/"+program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build %s: %w: %s", program, err, out)
	}
	return nil
}

// ours returns an action of the labelling plugin, called in the same way as by the server.
func (s *callSite) ours(name string) (execute, error) {
	var action backupitemaction.Action
	for _, a := range pluginhost.All(s.session, kinds.BackupItemActions()...) {
		if a.Name() == name {
			action = a
		}
	}
	if action == nil {
		return nil, fmt.Errorf("there is no action %s: %v", name, s.host.Entries())
	}
	backup := []byte(benchBackup)
	return func(ctx context.Context, item []byte) error {
		result, err := action.Execute(ctx, item, backup)
		if err == nil && len(result.Item) <= len(item) {
			err = errors.New("the label is missing")
		}
		return err
	}, nil
}

// bare sends an item to the echo.
func (s *callSite) bare(ctx context.Context, item []byte) error {
	reply, err := s.client.Execute(ctx, &backupitemactionv2.ExecuteRequest{Item: item, Backup: []byte(benchBackup)})
	if err == nil && len(reply.GetItem()) < len(item) {
		err = errors.New("the item is missing")
	}
	return err
}

// rpcOverBare reports the time of an action that sets a label, divided by the time of a bare gRPC echo of the same
// bytes on the same kind of connection. The action gets its items as JSON and does not decode them.
// rpc_decoded_over_bare is the time of the same action written in the usual way, with decoded items, over the same
// echo.
func rpcOverBare(ctx context.Context, _ string, report func(string, float64)) error {
	s, err := newCallSite(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	raw, err := s.ours("bench.cleat.dev/label-raw")
	if err != nil {
		return err
	}
	decoded, err := s.ours("bench.cleat.dev/label-v2")
	if err != nil {
		return err
	}
	var rawOverEcho, decodedOverEcho []float64
	for run := range runs + 1 {
		ours, usual, echo := &side{run: raw}, &side{run: decoded}, &side{run: s.bare}
		if err := takeTurns(ctx, ours, echo, usual); err != nil {
			return err
		}
		if run == 0 {
			continue // warm-up
		}
		rawOverEcho = append(rawOverEcho, ours.over(echo))
		decodedOverEcho = append(decodedOverEcho, usual.over(echo))
		say("each of 1 KiB and of 500 KiB: ours %s, echo %s, ratio %.2f; decoded %s", ours, echo, ours.over(echo), usual)
	}
	report("rpc_over_bare", median(rawOverEcho))
	report("rpc_decoded_over_bare", median(decodedOverEcho))
	return nil
}

// liftTurns is the number of turns of the sides of liftOverDirect in one run. With fewer turns, the effect of other
// load on the machine exceeds the 2 % that the limit allows.
const liftTurns = 3

// liftOverDirect reports the time of a plugin of version 1 through its facade, divided by the time of the same plugin
// at the hub's version.
func liftOverDirect(ctx context.Context, _ string, report func(string, float64)) error {
	s, err := newCallSite(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	lifted, err := s.ours("bench.cleat.dev/label-v1")
	if err != nil {
		return err
	}
	direct, err := s.ours("bench.cleat.dev/label-v2")
	if err != nil {
		return err
	}
	var ratios []float64
	for run := range runs + 1 {
		v1, v2 := &side{run: lifted}, &side{run: direct}
		for range liftTurns {
			if err := takeTurns(ctx, v1, v2); err != nil {
				return err
			}
		}
		if run == 0 {
			continue // warm-up
		}
		ratios = append(ratios, v1.over(v2))
		say("each of 1 KiB and of 500 KiB: version 1 %s, version 2 %s, ratio %.3f", v1, v2, v1.over(v2))
	}
	report("lift_over_direct", median(ratios))
	return nil
}
