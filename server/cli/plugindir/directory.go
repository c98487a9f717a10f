package plugindir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/report/pluginreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// Flags name a plugin directory that a command inspects without a cluster.
type Flags struct {
	Path       string
	lock       string // path of the lock; empty for the default
	Config     string // configuration file of a server
	NoBuiltIns bool
	verbose    bool
	Order      []string

	Options config.Options // of a server with Config
	File    *config.File
}

// Add adds the flags. usage describes --plugin-dir.
func (f *Flags) Add(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.Path, "plugin-dir", f.Path, usage)
	flags.StringVar(&f.Config, "config", "", "configuration file of a server: its settings for plugins apply where no "+
		"flag is given")
	flags.StringVar(&f.lock, "lock-file", "", "lock of the directory; empty for its file "+pluginlock.FileName+
		", if it exists")
	flags.BoolVar(&f.NoBuiltIns, "no-built-ins", false, "leave out the plugins that are part of the server")
	flags.BoolVar(&f.verbose, "verbose", false, "print what the plugins log")
}

// Complete reads the configuration file, if one is named.
func (f *Flags) Complete(cmd *cobra.Command) error {
	f.Options, f.File = config.Defaults(), &config.File{}
	if f.Config == "" {
		return nil
	}
	file, err := config.ReadFile(f.Config)
	if err != nil {
		return err
	}
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Options.AddFlags(settings)
	if err := file.Apply(settings); err != nil {
		return err
	}
	f.File = file
	if !cmd.Flags().Changed("plugin-dir") {
		f.Path = f.Options.PluginDir
	}
	if len(f.Order) == 0 {
		f.Order = file.Plugins.Order
	}
	if f.lock == "" {
		f.lock = file.Plugins.Lock
	}
	if f.lock == config.LockRequired {
		f.lock = filepath.Join(f.Path, pluginlock.FileName)
	}
	return nil
}

// Verbose returns w if the flags request the logs of plugins, and nil otherwise.
func (f *Flags) Verbose(w io.Writer) io.Writer {
	if !f.verbose {
		return nil
	}
	return w
}

// LockPath returns the path of the lock, which need not exist.
func (f *Flags) LockPath() string {
	return cmp.Or(f.lock, filepath.Join(f.Path, pluginlock.FileName))
}

// ReadLock reads the lock. It returns nil if there is no lock and none was named.
func (f *Flags) ReadLock() (*pluginlock.Lock, error) {
	lock, err := pluginlock.Read(f.LockPath())
	if errors.Is(err, fs.ErrNotExist) && f.lock == "" {
		return nil, nil
	}
	return lock, err
}

// Open starts a plugin host for the directory, as a server would. The path may also name a single file; without a path,
// the host has the built-in plugins only. With a lock, it runs only what the lock contains. The caller closes the host.
func (f *Flags) Open(ctx context.Context, a *command.App, lock *pluginlock.Lock) (*pluginreport.Source, error) {
	return f.open(ctx, a, lock, false)
}

// open is Open. With named, a file may run although others can change it.
func (f *Flags) open(
	ctx context.Context, a *command.App, lock *pluginlock.Lock, named bool,
) (*pluginreport.Source, error) {
	if _, err := os.Stat(f.Path); f.Path != "" && err != nil {
		return nil, fmt.Errorf("look for plugins (name their directory with --plugin-dir): %w", err)
	}
	log := hclog.NewNullLogger()
	if f.verbose {
		log = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: a.Err})
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the path of this binary: %w", err)
	}
	server := app.Config{Options: f.Options, File: f.File, Self: self, Log: log}
	if !f.NoBuiltIns {
		server.BuiltIns = a.BuiltIns()
	}
	host := app.HostConfig(server)
	host.Dir, host.Order, host.Lock, host.Rescan, host.Named = f.Path, f.Order, lock, -1, named
	started, err := pluginhost.New(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look for plugins: %w", err)
	}
	return &pluginreport.Source{Host: started, Directory: f.Path, Lock: lock, LockPath: f.LockPath(), Order: f.Order,
		Policies: policy.Plugins(f.File), Log: log}, nil
}

// OpenFile starts a plugin host for a single file with its present content. The user has named the file, so it runs
// even if other users can write to it.
func (f *Flags) OpenFile(ctx context.Context, a *command.App) (*pluginreport.Source, error) {
	sum, err := pluginlock.SumFile(f.Path)
	if err != nil {
		return nil, err
	}
	source, err := f.open(ctx, a, &pluginlock.Lock{Plugins: []pluginlock.Plugin{{Path: ".", SHA256: sum}}}, true)
	if err != nil {
		return nil, err
	}
	source.Directory, source.Lock = "", nil
	return source, nil
}
