package cli

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
type directoryFlags struct {
	path       string
	lock       string // path of the lock
	config     string // file of a server's configuration
	noBuiltIns bool
	verbose    bool
	order      []string

	options config.Options // of a server with that file
	file    *config.File
}

func (f *directoryFlags) add(cmd *cobra.Command, usage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.path, "plugin-dir", f.path, usage)
	flags.StringVar(&f.config, "config", "", "file of a server's configuration: what it says of plugins holds where no flag says otherwise")
	flags.StringVar(&f.lock, "lock-file", "", "lock of the directory; empty for "+pluginlock.FileName+" in it, if it is there")
	flags.BoolVar(&f.noBuiltIns, "no-built-ins", false, "leave out the plugins that are part of the server")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print what the plugins log")
}

// complete reads the file with the configuration, if one is named.
func (f *directoryFlags) complete(cmd *cobra.Command) error {
	f.options, f.file = config.Defaults(), &config.File{}
	if f.config == "" {
		return nil
	}
	file, err := config.ReadFile(f.config)
	if err != nil {
		return err
	}
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.options.AddFlags(settings)
	if err := file.Apply(settings); err != nil {
		return err
	}
	f.file = file
	if !cmd.Flags().Changed("plugin-dir") {
		f.path = f.options.PluginDir
	}
	if len(f.order) == 0 {
		f.order = file.Plugins.Order
	}
	if f.lock == "" {
		f.lock = file.Plugins.Lock
	}
	if f.lock == config.LockRequired {
		f.lock = filepath.Join(f.path, pluginlock.FileName)
	}
	return nil
}

// lockPath is where the lock is or will be.
func (f *directoryFlags) lockPath() string {
	return cmp.Or(f.lock, filepath.Join(f.path, pluginlock.FileName))
}

// readLock reads the lock; nil when there is none and none was named.
func (f *directoryFlags) readLock() (*pluginlock.Lock, error) {
	lock, err := pluginlock.Read(f.lockPath())
	if errors.Is(err, fs.ErrNotExist) && f.lock == "" {
		return nil, nil
	}
	return lock, err
}

// open starts a host over the directory, which may be a single file as well, as a server would; without a path, over the
// built-ins alone. Only what lock has is run, if there is a lock. The caller closes the host.
func (f *directoryFlags) open(ctx context.Context, a *command.App, lock *pluginlock.Lock) (*pluginreport.Source, error) {
	if _, err := os.Stat(f.path); f.path != "" && err != nil {
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
	server := app.Config{Options: f.options, File: f.file, Self: self, Log: log}
	if !f.noBuiltIns {
		server.BuiltIns = a.BuiltIns()
	}
	host := app.HostConfig(server)
	host.Dir, host.Order, host.Lock, host.Rescan = f.path, f.order, lock, -1
	started, err := pluginhost.New(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look for plugins: %w", err)
	}
	return &pluginreport.Source{Host: started, Directory: f.path, Lock: lock, LockPath: f.lockPath(), Order: f.order, Log: log}, nil
}

// openFile starts a host over a single file, as it is now. The user has named it, so it runs whoever can change it.
func (f *directoryFlags) openFile(ctx context.Context, a *command.App) (*pluginreport.Source, error) {
	sum, err := pluginlock.SumFile(f.path)
	if err != nil {
		return nil, err
	}
	source, err := f.open(ctx, a, &pluginlock.Lock{Plugins: []pluginlock.Plugin{{Path: ".", SHA256: sum}}})
	if err != nil {
		return nil, err
	}
	source.Directory, source.Lock = "", nil // there is neither
	return source, nil
}
