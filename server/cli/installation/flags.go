package installation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// builtInProviders is the prefix of object stores that need no plugin image, and have no snapshotter.
const builtInProviders = "cleat.dev/"

// withoutEffect returns flags of Velero's client that have no effect, each with the reason.
func withoutEffect() map[string]string {
	const table = "the objects are printed as json or yaml, see --output"
	return map[string]string{
		"csi-snapshot-early-frequent-polling": "the server looks at new snapshots more often in any case",
		"label-columns":                       table, "show-labels": table,
	}
}

// The kinds of --rbac.
const (
	clusterAdmin   = "cluster-admin"
	leastPrivilege = "least"
)

// flags are the flags of "install".
type flags struct {
	definitionsOnly, dryRun, apply, wait bool
	form, chartDir                       string

	o                            install.Options
	registry                     command.Registry
	provider, bucket, prefix     string
	backupConfig, snapshotConfig map[string]string
	secretFile, caFile           string
	noSecret, noBackupLocation   bool
	useSnapshots                 bool
	rbac                         string
	rbacNamespaces               []string
	resources                    podResources
	tolerations                  []string
	affinityFile                 string
	nodeAgent                    nodeAgentFlags
	useConsole                   bool
	console                      install.Console

	server      config.Options
	serverFlags *pflag.FlagSet // the flags of "cleat server"
}

func newFlags(a *command.App) *flags {
	f := &flags{
		o:         install.Options{Image: install.ImageOf(install.Image, a.Version)},
		rbac:      clusterAdmin,
		server:    config.Defaults(),
		resources: podResources{},

		serverFlags: pflag.NewFlagSet("server", pflag.ContinueOnError),
	}
	f.server.AddFlags(f.serverFlags)
	f.nodeAgent = newNodeAgentFlags(a, f.serverFlags)
	return f
}

// podResources are the requests and limits of a pod, by their flags.
type podResources map[string]*string

// add adds the flags, whose names begin with a prefix, with their defaults.
func (r podResources) add(flags *pflag.FlagSet, prefix, whose string, defaults map[string]string) {
	for _, name := range []string{"cpu-request", "mem-request", "cpu-limit", "mem-limit"} {
		r[prefix+name] = flags.String(prefix+name, cmp.Or(defaults[name], "0"), "of "+whose+"; 0 for none")
	}
}

// requirements returns the resources in the form of a container.
func (r podResources) requirements(whose string) (corev1.ResourceRequirements, error) {
	requirements := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	var err error
	for name, text := range r {
		quantity, e := resource.ParseQuantity(*text)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("--%s %q: %w", name, *text, e))
			continue
		}
		if quantity.IsZero() {
			continue
		}
		list, what := requirements.Requests, corev1.ResourceCPU
		if strings.HasSuffix(name, "-limit") {
			list = requirements.Limits
		}
		if strings.Contains(name, "-mem-") {
			what = corev1.ResourceMemory
		}
		list[what] = quantity
	}
	for what, limit := range requirements.Limits {
		if request, both := requirements.Requests[what]; both && request.Cmp(limit) > 0 {
			err = errors.Join(err, fmt.Errorf("the %s request %s of %s is above its limit %s", what, request.String(), whose,
				limit.String()))
		}
	}
	return requirements, err
}

func (f *flags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.definitionsOnly, "crds-only", false, "install the custom resource definitions and nothing else")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the objects and send nothing")
	flags.StringVarP(&f.form, "output", "o", "", "print the objects as json or yaml instead of installing them")
	flags.StringVar(&f.chartDir, "helm", "", "write a Helm chart of the same objects into this directory instead of "+
		"installing them")
	flags.BoolVar(&f.apply, "apply", false, "update objects that exist")
	flags.BoolVar(&f.wait, "wait", false, "wait until the server and the node agents are available")

	flags.StringVar(&f.o.Image, "image", f.o.Image, "image of the server and of the node agents")
	flags.StringSliceVar(&f.o.ImagePullSecrets, "image-pull-secrets", nil, "secrets with which images are pulled")
	flags.StringSliceVar(&f.o.Plugins, "plugins", nil, "images of plugins")
	f.registry.Add(flags, "each image that is installed, that of the server too,")
	flags.StringVar(&f.provider, "provider", "", "object store plugin of the default location, such as cleat.dev/s3, "+
		"which is built in, or aws")
	flags.StringVar(&f.bucket, "bucket", "", "bucket of the default location")
	flags.StringVar(&f.prefix, "prefix", "", "prefix in the bucket")
	flags.StringToStringVar(&f.backupConfig, "backup-location-config", nil,
		"config of the default backup storage location, as KEY=VALUE,...")
	flags.StringToStringVar(&f.snapshotConfig, "snapshot-location-config", nil,
		"config of the default volume snapshot location, as KEY=VALUE,...")
	flags.BoolVar(&f.noBackupLocation, "no-default-backup-location", false, "install no default backup storage location")
	flags.BoolVar(&f.useSnapshots, "use-volume-snapshots", true,
		"install a default volume snapshot location; the built-in providers have none")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the credentials of the provider")
	flags.BoolVar(&f.noSecret, "no-secret", false, "install no credentials")
	flags.StringVar(&f.caFile, "cacert", "", "file with certificates of authorities that have signed the certificate of "+
		"the object store")

	flags.StringVar(&f.rbac, "rbac", f.rbac, "rights of the server: cluster-admin, or least for those that "+
		"--rbac-namespaces need")
	flags.StringSliceVar(&f.rbacNamespaces, "rbac-namespaces", nil,
		"existing namespaces that a server with --rbac least may back up and restore")
	flags.BoolVar(&f.o.AllVolumes, "rbac-all-volumes", false,
		"with --rbac least, let the server and the node agents change the persistent volumes and the contents of CSI "+
			"snapshots of all namespaces, for which Kubernetes has no narrower rights: for EnableCSI, and for labels and reclaim "+
			"policies of restored volumes")
	flags.StringVar(&f.o.ServiceAccountName, "service-account-name", "",
		"existing service account of the server, with its rights; none is installed then")
	flags.StringToStringVar(&f.o.ServiceAccountAnnotations, "sa-annotations", nil,
		"annotations of the service accounts, as KEY=VALUE,...")
	flags.StringToStringVar(&f.o.PodAnnotations, "pod-annotations", nil, "annotations of the pods, as KEY=VALUE,...")
	flags.StringToStringVar(&f.o.PodLabels, "pod-labels", nil, "labels of the pods, as KEY=VALUE,...")
	flags.StringToStringVar(&f.o.NodeSelector, "node-selector", nil, "labels of nodes for the server, as KEY=VALUE,...")
	flags.StringSliceVar(&f.tolerations, "tolerations", nil, "taints that the pods tolerate, as KEY[=VALUE][:EFFECT],...")
	flags.StringVar(&f.affinityFile, "affinity-file", "", "file with the affinity of the server's pod, as YAML")
	flags.StringVar(&f.o.PriorityClassName, "server-priority-class-name", "", "priority class of the server")
	f.resources.add(flags, "velero-pod-", "the server's pod", map[string]string{
		"cpu-request": "500m", "mem-request": "128Mi", "cpu-limit": "1000m", "mem-limit": "512Mi", // Velero's
	})
	f.nodeAgent.add(flags)
	for name, why := range withoutEffect() {
		flags.String(name, "", "has no effect: "+why)
		flags.Lookup(name).Hidden = true
		if name != "label-columns" {
			flags.Lookup(name).NoOptDefVal = "true"
		}
	}
	flags.BoolVar(&f.useConsole, "use-console", false,
		"install the console too, which acts with the tokens of those who look")
	flags.StringSliceVar(&f.console.Hosts, "console-hosts", nil,
		"hosts, with their ports unless these are the default, under which the console is reached; empty for any")
	flags.StringVar(&f.console.TLSSecret, "console-tls-secret", "",
		"existing secret with tls.crt and tls.key for the console; empty if a proxy in front has a certificate")
	flags.AddFlagSet(f.serverFlags)
}

// options returns the options of the installation. Its error lists all mistakes.
func (f *flags) options(cmd *cobra.Command, a *command.App) (*install.Options, error) {
	o := &f.o
	var err error
	if o.Namespace, err = a.Cluster.NamespaceOrDefault(); err != nil {
		return nil, err
	}
	if !cmd.Flags().Changed("use-volume-snapshots") {
		f.useSnapshots = f.provider != "" && !strings.HasPrefix(f.provider, builtInProviders)
	}
	err = errors.Join(f.setServerArgs(cmd, a), f.setLocations(), f.setRBAC(), f.setPod(), f.setSecret())
	var agentErr error
	o.NodeAgent, agentErr = f.nodeAgent.options(a, o.Image, f.server.UploaderType)
	if err = errors.Join(err, agentErr, f.setConsole()); err != nil {
		return nil, err
	}
	if o.NodeAgent != nil {
		added := slices.DeleteFunc(slices.Clone(o.NodeAgent.Plugins),
			func(image string) bool { return slices.Contains(o.Plugins, image) })
		o.Plugins = append(o.Plugins, added...)
	}
	if !cmd.Flags().Changed("image") && !install.IsRelease(a.Version) {
		fmt.Fprintf(a.Err, "This program (%s) is no release, so no image of it is published, and %s is that of the newest "+
			"release. To run this one, build its images with \"make image\", load them into the nodes (bin/image/*.tar) or push "+
			"them with \"make push REPOSITORY=...\", and name the server's with --image.\n", a.Version, o.Image)
	}
	if f.rbac == clusterAdmin && o.ServiceAccountName == "" && f.form == "" {
		fmt.Fprintln(a.Err, "The server will be a cluster admin, as Velero is; --rbac least restricts it to some namespaces.")
	}
	return o, nil
}

// setServerArgs sets the flags of the server: the flags of this command that the server has.
func (f *flags) setServerArgs(cmd *cobra.Command, a *command.App) error {
	f.serverFlags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed {
			return
		}
		f.o.ServerArgs = append(f.o.ServerArgs, argument(flag))
	})
	f.o.CSISnapshots = f.server.HasFeature(config.EnableCSI)
	for _, name := range slices.Sorted(maps.Keys(withoutEffect())) {
		if cmd.Flags().Changed(name) && cmd.Flags().Lookup(name).Value.String() != "false" {
			fmt.Fprintf(a.Err, "Flag --%s has no effect: %s.\n", name, withoutEffect()[name])
		}
	}
	for _, warning := range f.server.Warnings(cmd.Flags()) {
		fmt.Fprintf(a.Err, "The server will warn: %s.\n", warning)
	}
	return f.server.Complete()
}

// argument returns a flag that was given as an argument of a container.
func argument(flag *pflag.Flag) string {
	return "--" + flag.Name + "=" + strings.Trim(flag.Value.String(), "[]")
}

func (f *flags) setLocations() (err error) {
	refuse := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if f.noBackupLocation {
		if f.bucket != "" || f.prefix != "" || len(f.backupConfig) > 0 || f.caFile != "" {
			refuse("--bucket, --prefix, --backup-location-config and --cacert describe a location: leave them out with " +
				"--no-default-backup-location")
		}
	} else {
		switch {
		case f.provider == "" || f.bucket == "":
			refuse("name the default location with --provider and --bucket, or use --no-default-backup-location")
		case strings.HasPrefix(f.bucket, "-"):
			refuse("--bucket %q begins with a dash: is a variable empty?", f.bucket)
		}
		f.o.BackupLocation = &install.BackupLocation{Provider: f.provider, Bucket: f.bucket, Prefix: f.prefix,
			Config: f.backupConfig}
		if f.caFile != "" {
			certificates, e := os.ReadFile(f.caFile)
			if e != nil {
				refuse("--cacert: %w", e)
			}
			f.o.BackupLocation.CACert = certificates
		}
	}
	switch {
	case !f.useSnapshots && len(f.snapshotConfig) > 0:
		refuse("--snapshot-location-config needs --use-volume-snapshots")
	case f.useSnapshots && f.provider == "":
		refuse("--use-volume-snapshots needs a --provider")
	case f.useSnapshots:
		f.o.SnapshotLocation = &install.SnapshotLocation{Provider: f.provider, Config: f.snapshotConfig}
	case f.noBackupLocation && f.provider != "":
		refuse("--provider has no use with --no-default-backup-location and without --use-volume-snapshots")
	}
	if f.provider != "" && !strings.HasPrefix(f.provider, builtInProviders) && len(f.o.Plugins) == 0 {
		refuse("--provider %s is not built in: name the image of its plugin with --plugins", f.provider)
	}
	return err
}

func (f *flags) setRBAC() error {
	switch {
	case f.rbac != clusterAdmin && f.rbac != leastPrivilege:
		return fmt.Errorf("--rbac %q: want %s or %s", f.rbac, clusterAdmin, leastPrivilege)
	case f.rbac == leastPrivilege && f.o.ServiceAccountName != "":
		return errors.New("--rbac least is for the service account that is installed: leave out --service-account-name")
	case f.rbac == leastPrivilege && len(f.rbacNamespaces) == 0:
		return errors.New("--rbac least needs the namespaces that the server may back up and restore, in --rbac-namespaces")
	case f.rbac == clusterAdmin && (len(f.rbacNamespaces) > 0 || f.o.AllVolumes):
		return errors.New("--rbac-namespaces and --rbac-all-volumes need --rbac least")
	case f.rbac == leastPrivilege && f.o.CSISnapshots && !f.o.AllVolumes:
		return errors.New("--rbac least with --features EnableCSI needs rights to create, change and delete the contents " +
			"of CSI snapshots, and to change persistent volumes, of all namespaces, because Kubernetes has no narrower ones: " +
			"grant them with --rbac-all-volumes if all tenants of the cluster trust this server with their volumes, or leave " +
			"out EnableCSI and back up volumes from the file system, with --use-node-agent")
	}
	if slices.Contains(f.rbacNamespaces, f.o.Namespace) {
		return fmt.Errorf("--rbac-namespaces: %s is the namespace of the server, whose credentials a backup would hold",
			f.o.Namespace)
	}
	f.o.Namespaces = f.rbacNamespaces
	return nil
}

func (f *flags) setConsole() error {
	if !f.useConsole && (len(f.console.Hosts) > 0 || f.console.TLSSecret != "") {
		return errors.New("--console-hosts and --console-tls-secret need --use-console")
	}
	if f.useConsole {
		f.o.Console = &f.console
	}
	return nil
}

func (f *flags) setPod() (err error) {
	if f.o.ServiceAccountName != "" && len(f.o.ServiceAccountAnnotations) > 0 {
		err = errors.New("--sa-annotations is for the service account that is installed: leave it out with " +
			"--service-account-name")
	}
	var resourcesErr error
	f.o.Resources, resourcesErr = f.resources.requirements("the server")
	err = errors.Join(err, resourcesErr)
	for _, text := range f.tolerations {
		f.o.Tolerations = append(f.o.Tolerations, toleration(text))
	}
	if f.affinityFile != "" {
		f.o.Affinity, err = readAffinity(f.affinityFile, err)
	}
	return err
}

// toleration returns what KEY[=VALUE][:EFFECT] means.
func toleration(text string) corev1.Toleration {
	taint, effect, _ := strings.Cut(text, ":")
	key, value, equal := strings.Cut(taint, "=")
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Value: value, Effect: corev1.TaintEffect(effect)}
	if equal {
		t.Operator = corev1.TolerationOpEqual
	}
	return t
}

func readAffinity(path string, before error) (*corev1.Affinity, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Join(before, fmt.Errorf("--affinity-file: %w", err))
	}
	var affinity corev1.Affinity
	if err := yaml.UnmarshalStrict(data, &affinity); err != nil {
		return nil, errors.Join(before, fmt.Errorf("--affinity-file %s, want nodeAffinity, podAffinity or podAntiAffinity: "+
			"%w", path, err))
	}
	return &affinity, before
}

func (f *flags) setSecret() error {
	switch {
	case f.secretFile == "" && !f.noSecret:
		return errors.New("name the file of the credentials with --secret-file, or use --no-secret")
	case f.secretFile != "" && f.noSecret:
		return errors.New("--secret-file and --no-secret exclude each other")
	case f.noSecret:
		return nil
	}
	data, err := os.ReadFile(f.secretFile)
	if err != nil {
		return fmt.Errorf("--secret-file: %w", err)
	}
	f.o.Secret = data
	return nil
}
