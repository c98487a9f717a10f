package conformance

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/rules"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// Option configures a test.
type Option func(*options)

// options are those of the test, and what only the report needs.
type options struct {
	suite.Options
	progress func(Progress)
	rules    []suite.Rule // that are checked
}

func newOptions(opts []Option) *options {
	o := &options{Options: suite.Defaults(), progress: func(Progress) {}, rules: rules.All()}
	for _, option := range opts {
		option(o)
	}
	return o
}

// WithTimeout sets how long a start, a call, or a message of a stream may take. The default is three minutes. Only a
// plugin that hangs makes the test wait so long, so the timeout can be generous.
func WithTimeout(timeout time.Duration) Option { return func(o *options) { o.Timeout = timeout } }

// WithOperationWait sets how long to wait for an operation that a plugin has started to complete. The default is 10
// seconds. Rules about completed operations are skipped when none completes.
func WithOperationWait(wait time.Duration) Option { return func(o *options) { o.OperationWait = wait } }

// WithLeakCalls sets how many calls are made in each round of the search for leaks. The default is 200; 0 disables the
// search.
func WithLeakCalls(calls int) Option { return func(o *options) { o.LeakCalls = calls } }

// WithSizes sets how many objects are put into an ObjectStore to check its lists, and the size of the largest object in
// bytes. The defaults are 1,005 objects, more than S3 returns in one page, and 12 MiB, more than most storages have in
// one part of an upload. Use less for a storage whose requests are slow or expensive.
func WithSizes(objects int, large int64) Option {
	return func(o *options) { o.Objects, o.Large = objects, large }
}

// WithEnvironment adds variables ("NAME=value") to the environment of the plugin, as plugins.variables does in the
// config of a server. The plugin also gets the variables of this process, as plugins of a server get its own.
func WithEnvironment(variables ...string) Option {
	return func(o *options) { o.Environment = append(o.Environment, variables...) }
}

// WithOnly restricts the test to the process and the plugins with these names.
func WithOnly(names ...string) Option {
	return func(o *options) { o.Only = append(o.Only, names...) }
}

// WithConfig sets the configuration of the plugin called name, or of all plugins if name is empty. Plugins of several
// kinds may have the same name: then name is "KIND/domain/name" for one of them, like "ObjectStore/example.io/store",
// or "KIND" for all of a kind. An ObjectStore or a VolumeSnapshotter gets it in Init. For an ObjectStore it must have
// the key "bucket", which names an empty bucket that the test may fill. For a DataMover it is the config of a location
// in which it may make repositories, with the key "bucket", and the key "provider" unless that is cleat.dev/file. A
// policy gets it as an object whose values are parsed as YAML, so "true" and "3" are not strings.
func WithConfig(name string, config map[string]string) Option {
	return func(o *options) {
		if o.Config[name] == nil {
			o.Config[name] = map[string]string{}
		}
		maps.Copy(o.Config[name], config)
	}
}

// WithKubeconfig gives the plugin a cluster: the variable KUBECONFIG with the path of a file. Without one, rules about
// an action whose AppliesTo needs a cluster are skipped.
func WithKubeconfig(path string) Option { return WithEnvironment("KUBECONFIG=" + path) }

// WithItem adds an object, in YAML or JSON, that actions are asked about, beside the built-in samples. It must have
// apiVersion, kind and metadata.name.
func WithItem(item []byte) Option { return func(o *options) { o.Items = append(o.Items, item) } }

// WithSnapshot adds a snapshot of a queue that a QueueAdmission is asked about, beside the built-in ones. It is a list
// of Backups, as "kubectl get backups -o yaml" prints it, or the YAML or JSON of a DecideRequest (queueadmission.proto)
// without plugin and config:
//
//	now: 2026-03-02T12:00:00Z
//	limit: 3
//	running: [{name: shop-1, namespaces: [shop], labels: {team: gold}}]
//	queued: [{name: shop-2, namespaces: [shop], clusterScope: CLUSTER_SCOPE_NONE, spec: {ttl: 720h}}]
//
// limit and queued are required. Other fields have defaults.
func WithSnapshot(snapshot []byte) Option {
	return func(o *options) { o.Snapshots = append(o.Snapshots, snapshot) }
}

// WithVolume names a volume that a VolumeSnapshotter under test may take snapshots of. zone may be empty.
func WithVolume(id, zone string) Option {
	return func(o *options) { o.Volume, o.Zone = id, zone }
}

// Progress describes how far a test is.
type Progress struct {
	// Kind and Name identify the plugin. Rule is the ID of the rule that is checked next.
	Kind, Name, Rule string
	// Done counts the checks that are done, Total all checks.
	Done, Total int
}

// WithProgress calls tell before each check. Plugins are tested at the same time, but the calls of tell are made one at
// a time.
func WithProgress(tell func(Progress)) Option { return func(o *options) { o.progress = tell } }

// ParseConfig parses "key=value", as given on a command line. In front of it can be the first argument of WithConfig
// and a colon, for one plugin: "domain/name:key=value", "KIND/domain/name:key=value" or "KIND:key=value".
func ParseConfig(text string) (Option, error) {
	key, value, found := strings.Cut(text, "=")
	name := ""
	if at := strings.LastIndexByte(key, ':'); at >= 0 {
		if _, known := wire.Kind(key[:at]); known || strings.Contains(key[:at], "/") {
			name, key = key[:at], key[at+1:]
		}
	}
	if !found || key == "" {
		return nil, fmt.Errorf(`config %q must be KEY=VALUE, or PLUGIN:KEY=VALUE or KIND/PLUGIN:KEY=VALUE for one plugin`,
			text)
	}
	return WithConfig(name, map[string]string{key: value}), nil
}
