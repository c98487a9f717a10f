package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
)

type identifiers = []*pluginlisterv1.PluginIdentifier

// processDefects returns defects of the process, whatever it serves.
func processDefects() map[string]defect {
	onList := func(change func(p *program, all identifiers) (identifiers, error)) defect {
		return defect{plant: func(p *program) {
			p.list = func(all identifiers) (identifiers, error) { return change(p, all) }
		}}
	}
	onInfo := func(change func(*plugininfov1.GetPluginInfoResponse) error) defect {
		return defect{plant: func(p *program) {
			p.info = func(answer *plugininfov1.GetPluginInfoResponse) (*plugininfov1.GetPluginInfoResponse, error) {
				return answer, change(answer)
			}
		}}
	}
	onAsync := func(change func(*plugininfov1.Plugin)) defect {
		return defect{plant: func(p *program) {
			p.kinds = []string{"AsyncBackupItemAction"}
			p.info = func(answer *plugininfov1.GetPluginInfoResponse) (*plugininfov1.GetPluginInfoResponse, error) {
				change(answer.GetPlugins()[0])
				return answer, nil
			}
		}}
	}
	onRoles := func(roles ...string) defect {
		return onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.Plugins[0].Roles = roles
			return nil
		})
	}
	onLimits := func(longest, stall time.Duration) defect {
		return onAsync(func(plugin *plugininfov1.Plugin) {
			for limit, to := range map[time.Duration]**durationpb.Duration{longest: &plugin.OperationTimeout,
				stall: &plugin.StallTimeout} {
				if limit != 0 {
					*to = durationpb.New(limit)
				}
			}
		})
	}
	var calls atomic.Int64
	return map[string]defect{
		"process-handshake/greeting": {plant: func(p *program) {
			good := p.handshake
			p.handshake = func(address string) { fmt.Println("Hello!"); good(address) }
		}},
		"process-handshake/version": {plant: func(p *program) {
			p.handshake = func(address string) { fmt.Printf("1|3|unix|%s|grpc|\n", address) }
		}},
		"process-handshake/netrpc": {plant: func(p *program) {
			p.handshake = func(address string) { fmt.Printf("1|2|unix|%s|netrpc|\n", address) }
		}},
		"process-handshake/ends":   {plant: func(p *program) { p.handshake = func(string) { os.Exit(3) } }},
		"process-handshake/silent": {waits: true, plant: func(p *program) { p.handshake = func(string) {} }},
		"process-flags": {plant: func(p *program) {
			p.flags = func(args []string) {
				if slices.Contains(args, "--uploader-type=kopia") {
					fmt.Fprintln(os.Stderr, `{"@level":"error","@message":"unknown flag: --uploader-type"}`)
					os.Exit(2)
				}
			}
		}},
		"process-cookie/runs":     {waits: true, plant: func(p *program) { p.cookie = func() { time.Sleep(time.Hour) } }},
		"process-cookie/quiet":    {plant: func(p *program) { p.cookie = func() { os.Exit(1) } }},
		"process-health/sick":     {plant: func(p *program) { p.health = grpc_health_v1.HealthCheckResponse_NOT_SERVING }},
		"process-health/unserved": {plant: func(p *program) { p.health = grpc_health_v1.HealthCheckResponse_UNKNOWN }},
		"process-unknown-method": {plant: func(p *program) {
			p.options = append(p.options,
				grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return errors.New("what is that?") }))
		}},
		"process-shutdown": {waits: true, plant: func(p *program) { p.shutdown = func() {} }},
		"process-sigterm":  {waits: true, plant: func(p *program) { p.onSIGTERM = func() {} }},
		"process-children": {waits: true, plant: func(p *program) {
			onExecute(p, func() {
				if calls.Add(1) == 1 {
					child()
				}
			})
		}},
		"stdout-quiet": {plant: func(p *program) { onExecute(p, func() { fmt.Println("an item!") }) }},
		"stderr-json":  {plant: func(p *program) { onExecute(p, func() { fmt.Fprintln(os.Stderr, "an item!") }) }},
		"leak-memory": {plant: func(p *program) {
			var kept [][]byte
			onExecute(p, func() {
				piece := make([]byte, 256<<10)
				for i := range piece {
					piece[i] = byte(i)
				}
				kept = append(kept, piece)
			})
		}},
		"leak-files": {plant: func(p *program) {
			var kept []*os.File
			onExecute(p, func() {
				if file, err := os.Open(os.DevNull); err == nil {
					kept = append(kept, file)
				}
			})
		}},
		"leak-goroutines": {plant: func(p *program) {
			onExecute(p, func() {
				if calls.Add(1)%2 == 0 {
					go func() { select {} }()
				}
			})
		}},
		"leak-children": {plant: func(p *program) {
			var started []int
			onExecute(p, func() {
				if calls.Add(1)%8 == 0 {
					started = append(started, child())
				}
			})
			p.onSIGTERM = func() {
				for _, pid := range started {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				os.Exit(0)
			}
		}},

		"list-answers/error": onList(func(*program, identifiers) (identifiers, error) { return nil, errors.New("not now") }),
		"list-answers/changes": onList(func(p *program, all identifiers) (identifiers, error) {
			if calls.Add(1) > 1 {
				all = append(all, p.identifier("BackupItemAction", "example.io/later"))
			}
			return all, nil
		}),
		"list-not-empty": {plant: func(p *program) { p.kinds = nil }},
		"list-kinds": {kind: "AsyncBackupItemAction", plant: func(p *program) {
			p.list = func(identifiers) (identifiers, error) {
				return identifiers{p.identifier("AsyncBackupItemAction", pluginName)}, nil
			}
		}},
		"list-order/kinds": {plant: func(p *program) {
			p.kinds = []string{"BackupItemAction", "BackupItemActionV2"}
			p.list = func(all identifiers) (identifiers, error) { slices.Reverse(all); return all, nil }
		}},
		"list-once": onList(func(_ *program, all identifiers) (identifiers, error) { return append(all, all...), nil }),
		"list-names": {plant: func(p *program) {
			p.name = func(name string) error {
				if name != "defect" {
					return errors.New("not here")
				}
				return nil
			}
			p.list = func(identifiers) (identifiers, error) {
				return identifiers{p.identifier("BackupItemAction", "defect")}, nil
			}
			p.info = func(answer *plugininfov1.GetPluginInfoResponse) (*plugininfov1.GetPluginInfoResponse, error) {
				answer.Plugins[0].Name = "defect"
				return answer, nil
			}
		}},
		"list-command":       {plant: func(p *program) { p.command = "/somewhere/else" }},
		"info-answers/error": onInfo(func(*plugininfov1.GetPluginInfoResponse) error { return errors.New("not now") }),
		"info-answers/changes": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.PluginVersion = fmt.Sprintf("1.%d", calls.Add(1))
			return nil
		}),
		"info-answers/lines": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.FrameworkVersion = "two\nlines"
			return nil
		}),
		"info-consistent/less": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.Plugins = nil
			return nil
		}),
		"info-consistent/more": {plant: func(p *program) {
			p.kinds = []string{"BackupItemAction", "BackupItemActionV2"}
			p.list = func(all identifiers) (identifiers, error) { return all[:1], nil }
		}},
		"info-consistent/version": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.Plugins = append(answer.Plugins, &plugininfov1.Plugin{Kind: "Later", Name: pluginName})
			return nil
		}),
		"info-consistent/kind": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.Plugins = append(answer.Plugins, &plugininfov1.Plugin{Kind: "LaterV2", Version: 1, Name: pluginName})
			return nil
		}),
		"info-consistent/twice": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.Plugins = append(answer.Plugins, answer.Plugins...)
			return nil
		}),
		"info-schema/no JSON": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.Plugins[0].ConfigSchema = []byte("{")
			return nil
		}),
		"info-schema/no schema": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			answer.Plugins[0].ConfigSchema = []byte(`{"type":3}`)
			return nil
		}),
		"info-limits/of another kind": onInfo(func(answer *plugininfov1.GetPluginInfoResponse) error {
			for _, plugin := range answer.GetPlugins() {
				plugin.OperationTimeout = durationpb.New(time.Hour)
			}
			return nil
		}),
		"info-limits/negative":            onLimits(0, -time.Minute),
		"info-limits/too short":           onLimits(time.Millisecond, 0),
		"info-limits/the wrong way round": onLimits(time.Minute, time.Hour),
		"info-limits/invalid": onAsync(func(plugin *plugininfov1.Plugin) {
			plugin.OperationTimeout = &durationpb.Duration{Seconds: 1, Nanos: -1}
		}),
		"info-roles/unknown":         onRoles("later"),
		"info-roles/of another kind": onRoles("node-files"),
		"info-roles/twice":           onRoles("csi", "csi"),
		"served": {plant: func(p *program) {
			p.kinds, p.skip = []string{"BackupItemAction", "DeleteItemAction"}, "DeleteItemAction"
		}},
		"unknown-name": {plant: func(p *program) { p.name = func(string) error { return nil } }},
	}
}

// onExecute calls do for each item.
func onExecute(p *program, do func()) {
	good := p.action.execute
	p.action.execute = func(ctx context.Context, req request) (*reply, error) {
		do()
		return good(ctx, req)
	}
}

// child starts a process that runs for a long time.
func child() (pid int) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	pid = cmd.Process.Pid
	_ = cmd.Process.Release()
	return pid
}
