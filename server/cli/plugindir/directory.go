package plugindir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/server/pluginlock"
	"github.com/cleat-dev/cleat/server/pluginreport"
)

// directoryFlags say which plugin directory a command looks at, without a cluster.
type Flags struct {
	Path       string
	lock       string // path of the lock
	Config     string // file of a server's configuration
	NoBuiltIns bool
	verbose    bool
	Order      []string

	Options config.Options // of a server with that file
	File    *config.File
}

func (f *Flags) Add(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.Path, "plugin-dir", f.Path, usage)
	flags.StringVar(&f.Config, "config", "", "file of a server's configuration: what it says of plugins holds where no flag says otherwise")
	flags.StringVar(&f.lock, "lock-file", "", "lock of the directory; empty for "+pluginlock.FileName+" in it, if it is there")
	flags.BoolVar(&f.NoBuiltIns, "no-built-ins", false, "leave out the plugins that are part of the server")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print what the plugins log")
}

// complete reads the file with the configuration, if one is named.
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

// lockPath is where the lock is or will be.
func (f *Flags) LockPath() string {
	return cmp.Or(f.lock, filepath.Join(f.Path, pluginlock.FileName))
}

// readLock reads the lock; nil when there is none and none was named.
func (f *Flags) ReadLock() (*pluginlock.Lock, error) {
	lock, err := pluginlock.Read(f.LockPath())
	if errors.Is(err, fs.ErrNotExist) && f.lock == "" {
		return nil, nil
	}
	return lock, err
}

// open starts a host over the directory, which may be a single file as well, as a server would; without a path, over the
// built-ins alone. Only what lock has is run, if there is a lock. The caller closes the host.
func (f *Flags) Open(ctx context.Context, a *command.App, lock *pluginlock.Lock) (*pluginreport.Source, error) {
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
	host.Dir, host.Order, host.Lock, host.Rescan = f.Path, f.Order, lock, -1
	started, err := pluginhost.New(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look for plugins: %w", err)
	}
	return &pluginreport.Source{Host: started, Directory: f.Path, Lock: lock, LockPath: f.LockPath(), Order: f.Order, Log: log}, nil
}

// openFile starts a host over a single file, as it is now. The user has named it, so it runs whoever can change it.
func (f *Flags) OpenFile(ctx context.Context, a *command.App) (*pluginreport.Source, error) {
	sum, err := pluginlock.SumFile(f.Path)
	if err != nil {
		return nil, err
	}
	source, err := f.Open(ctx, a, &pluginlock.Lock{Plugins: []pluginlock.Plugin{{Path: ".", SHA256: sum}}})
	if err != nil {
		return nil, err
	}
	source.Directory, source.Lock = "", nil // there is neither
	return source, nil
}
