package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
)

// Option configures a test.
type Option func(*options)

type options struct {
	timeout       time.Duration
	operationWait time.Duration
	leakCalls     int
	objects       int   // in the lists of an ObjectStore
	large         int64 // bytes of the largest object
	only          []string
	environment   []string
	config        map[string]map[string]string // by plugin name; "" holds for all
	items         [][]byte
	snapshots     [][]byte
	volume        string
	zone          string
	progress      func(Progress)
}

func newOptions(opts []Option) *options {
	o := &options{
		timeout:       time.Minute,
		operationWait: 10 * time.Second,
		leakCalls:     200,
		objects:       1005,
		large:         12*mebibyte + 12345,
		config:        map[string]map[string]string{},
		progress:      func(Progress) {},
	}
	for _, option := range opts {
		option(o)
	}
	return o
}

// WithTimeout sets how long a start, a call, or a message of a stream may take. The default is a minute. Only a plugin that
// hangs makes the test wait so long, so the timeout can be generous.
func WithTimeout(timeout time.Duration) Option { return func(o *options) { o.timeout = timeout } }

// WithOperationWait sets how long to wait for an operation that a plugin has started to complete. The default is 10 seconds.
// Rules about completed operations are skipped when none completes.
func WithOperationWait(wait time.Duration) Option { return func(o *options) { o.operationWait = wait } }

// WithLeakCalls sets how many calls are made in each round of the search for leaks. The default is 200; 0 disables the search.
func WithLeakCalls(calls int) Option { return func(o *options) { o.leakCalls = calls } }

// WithSizes sets how many objects are put into an ObjectStore to check its lists, and the size of the largest object in
// bytes. The defaults are 1,005 objects, more than S3 returns in one page, and 12 MiB, more than most storages have in one
// part of an upload. Use less for a storage whose requests are slow or expensive.
func WithSizes(objects int, large int64) Option {
	return func(o *options) { o.objects, o.large = objects, large }
}

// WithEnvironment adds variables ("NAME=value") to the environment of the plugin, as plugins.environment does in the config
// of a server. Without it the plugin gets those variables of this process that a server passes on to its plugins.
func WithEnvironment(variables ...string) Option {
	return func(o *options) { o.environment = append(o.environment, variables...) }
}

// WithOnly restricts the test to the process and the plugins with these names.
func WithOnly(names ...string) Option {
	return func(o *options) { o.only = append(o.only, names...) }
}

// WithConfig sets the configuration of the plugin called name, or of all plugins if name is empty. An ObjectStore or a
// VolumeSnapshotter gets it in Init. For an ObjectStore it must have the key "bucket", which names an empty bucket that the
// test may fill. A policy gets it as an object whose values are parsed as YAML, so "true" and "3" are not strings.
func WithConfig(name string, config map[string]string) Option {
	return func(o *options) {
		if o.config[name] == nil {
			o.config[name] = map[string]string{}
		}
		maps.Copy(o.config[name], config)
	}
}

// WithItem adds an object, in YAML or JSON, that actions are asked about, beside the built-in samples. It must have
// apiVersion, kind and metadata.name.
func WithItem(item []byte) Option { return func(o *options) { o.items = append(o.items, item) } }

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
	return func(o *options) { o.snapshots = append(o.snapshots, snapshot) }
}

// WithVolume names a volume that a VolumeSnapshotter under test may take snapshots of. zone may be empty.
func WithVolume(id, zone string) Option {
	return func(o *options) { o.volume, o.zone = id, zone }
}

// Progress describes how far a test is.
type Progress struct {
	// Kind and Name identify the plugin. Rule is the ID of the rule that is checked next.
	Kind, Name, Rule string
	// Done counts the checks that are done, Total all checks.
	Done, Total int
}

// WithProgress calls tell before each check.
func WithProgress(tell func(Progress)) Option { return func(o *options) { o.progress = tell } }

// configOf returns the configuration of one plugin, or nil if there is none.
func (o *options) configOf(name string) map[string]string {
	if o.config[""] == nil && o.config[name] == nil {
		return nil
	}
	config := map[string]string{}
	maps.Copy(config, o.config[""])
	maps.Copy(config, o.config[name])
	return config
}

func (o *options) wants(name string) bool {
	return len(o.only) == 0 || slices.Contains(o.only, name)
}

// ParseConfig parses "key=value", or "domain/name:key=value" for one plugin, as given on a command line.
func ParseConfig(text string) (Option, error) {
	key, value, found := strings.Cut(text, "=")
	name := ""
	if at := strings.LastIndexByte(key, ':'); at >= 0 && strings.Contains(key[:at], "/") {
		name, key = key[:at], key[at+1:]
	}
	if !found || key == "" {
		return nil, fmt.Errorf(`config %q must be KEY=VALUE, or PLUGIN:KEY=VALUE for one plugin`, text)
	}
	return WithConfig(name, map[string]string{key: value}), nil
}

// policyConfig returns the JSON config of a policy, and whether the caller has given one.
func (o *options) policyConfig(name string) (config []byte, given bool, err error) {
	values := o.configOf(name)
	if values == nil {
		return []byte("{}"), false, nil
	}
	object := map[string]any{}
	for key, text := range values {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, true, fmt.Errorf("config %s=%s: %w", key, text, err)
		}
		object[key] = value
	}
	return sample.Encode(object), true, nil
}
