package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Option changes how a target is tested.
type Option func(*options)

type options struct {
	timeout       time.Duration
	operationWait time.Duration
	leakCalls     int
	objects       int   // that lists of an ObjectStore are tried with
	large         int64 // bytes of the largest object
	only          []string
	environment   []string
	config        map[string]map[string]string // by plugin name; "" is for all
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

// WithTimeout is how long a start, a call, or a message of a stream may take; a minute without it. It is waited for in vain
// only when the plugin hangs, so it may well be more than a busy machine needs.
func WithTimeout(timeout time.Duration) Option { return func(o *options) { o.timeout = timeout } }

// WithOperationWait is how long to wait for the end of an operation that a plugin has started; 10 seconds without
// it. What can only be seen after the end is skipped when it does not come.
func WithOperationWait(wait time.Duration) Option { return func(o *options) { o.operationWait = wait } }

// WithLeakCalls is how many calls each round makes of those that look for leaks; 200 without it, 0 looks for none.
func WithLeakCalls(calls int) Option { return func(o *options) { o.leakCalls = calls } }

// WithSizes is how many objects are put into an ObjectStore to look at its lists, and how large the largest object is, in
// bytes. Without it there are 1,005, which is more than S3 tells at once, and one of 12 MiB, which is more than a part of an
// upload has in most storages. A storage where requests are slow or dear can be tried with less.
func WithSizes(objects int, large int64) Option {
	return func(o *options) { o.objects, o.large = objects, large }
}

// WithEnvironment adds variables ("NAME=value") to the environment of the plugin, as plugins.environment does in the config
// of a server. Without it the plugin gets those variables of this process that a server passes on to its plugins.
func WithEnvironment(variables ...string) Option {
	return func(o *options) { o.environment = append(o.environment, variables...) }
}

// WithOnly tests the plugins of these names only, and the process.
func WithOnly(names ...string) Option {
	return func(o *options) { o.only = append(o.only, names...) }
}

// WithConfig is what the plugin name gets as its configuration, or all plugins when name is empty. An ObjectStore or
// a VolumeSnapshotter gets it in Init as it is, and an ObjectStore has to have the key "bucket": an empty bucket that
// it can fill. A policy gets an object of it, whose values are read as YAML: "true" and "3" are no strings.
func WithConfig(name string, config map[string]string) Option {
	return func(o *options) {
		if o.config[name] == nil {
			o.config[name] = map[string]string{}
		}
		maps.Copy(o.config[name], config)
	}
}

// WithItem is the YAML or JSON of an object that actions are tried on, beside the samples that are built in. It has to
// have apiVersion, kind and a name.
func WithItem(item []byte) Option { return func(o *options) { o.items = append(o.items, item) } }

// WithSnapshot adds a snapshot of a queue that a QueueAdmission is asked about, beside those that are built in. It is a list
// of Backups, as "kubectl get backups -o yaml" prints it, or the YAML or JSON of a DecideRequest (queueadmission.proto)
// without plugin and config:
//
//	now: 2026-03-02T12:00:00Z
//	limit: 3
//	running: [{name: shop-1, namespaces: [shop], labels: {team: gold}}]
//	queued: [{name: shop-2, namespaces: [shop], clusterScope: CLUSTER_SCOPE_NONE, spec: {ttl: 720h}}]
//
// limit and queued are needed. What else is missing is made up.
func WithSnapshot(snapshot []byte) Option {
	return func(o *options) { o.snapshots = append(o.snapshots, snapshot) }
}

// WithVolume is a volume that snapshots may be taken of, to test a VolumeSnapshotter. zone may be empty.
func WithVolume(id, zone string) Option {
	return func(o *options) { o.volume, o.zone = id, zone }
}

// Progress is how far a test is.
type Progress struct {
	// Kind and Name say what is tested, Rule is the id of the rule that is checked next.
	Kind, Name, Rule string
	// Done of Total checks are done. Total is not known before the plugin has told what it serves.
	Done, Total int
}

// WithProgress has each step told before it is made.
func WithProgress(tell func(Progress)) Option { return func(o *options) { o.progress = tell } }

// configOf is the configuration of one plugin; nil when there is none.
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

// ParseConfig reads "key=value", or "domain/name:key=value" for one plugin alone, as a command line has it.
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

// policyConfig is the JSON that a policy gets, and whether the caller gave any.
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
	return encode(object), true, nil
}
