package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
)

// The features that --features can switch on.
const (
	EnableCSI              = "EnableCSI"
	EnableAPIGroupVersions = "EnableAPIGroupVersions"
)

// HasFeature reports whether a feature is switched on.
func (o *Options) HasFeature(name string) bool { return slices.Contains(o.Features, name) }

// unsupported returns the flags of features that the server lacks, each with the reason why it has no effect.
func unsupported() map[string]string {
	return map[string]string{
		"max-concurrent-k8s-connections": "as many snapshots are taken at once as there are workers of item blocks",
	}
}

// inherited returns flags of other command lines, each with the reason why it has no effect: flags of older servers, of
// klog, and of Velero's client.
func inherited() map[string]string {
	const (
		job    = "set it in the ConfigMap that --repo-maintenance-job-configmap names"
		output = "the server's log goes to stderr; --log-level and --log-format change it"
	)
	return map[string]string{
		"keep-latest-maintenance-jobs": job, "maintenance-job-cpu-limit": job, "maintenance-job-cpu-request": job,
		"maintenance-job-mem-limit": job, "maintenance-job-mem-request": job,
		"restic-timeout":                 "use --fs-backup-timeout",
		"default-volumes-to-restic":      "use --default-volumes-to-fs-backup",
		"default-restic-prune-frequency": "use --default-repo-maintain-frequency",
		"pod-volume-operation-timeout":   "use --fs-backup-timeout",

		"logtostderr": output, "alsologtostderr": output, "stderrthreshold": output, "alsologtostderrthreshold": output,
		"legacy_stderr_threshold_behavior": output, "log_dir": output, "log_file": output, "log_file_max_size": output,
		"log_backtrace_at": output, "one_output": output, "add_dir_header": output, "skip_headers": output,
		"skip_log_headers": output,

		"colorized": "the server's log has no colors",
	}
}

// withoutValue returns the inherited flags that may stand without a value.
func withoutValue() []string {
	return []string{
		"default-volumes-to-restic", "logtostderr", "alsologtostderr", "legacy_stderr_threshold_behavior", "one_output",
		"add_dir_header", "skip_headers", "skip_log_headers", "colorized",
	}
}

// addFlagsWithoutEffect adds the inherited flags, hidden.
func addFlagsWithoutEffect(flags *pflag.FlagSet) {
	for name := range inherited() {
		flags.String(name, "", "has no effect")
		flag := flags.Lookup(name)
		flag.Hidden = true
		if slices.Contains(withoutValue(), name) {
			flag.NoOptDefVal = "true"
		}
	}
}

// Warnings returns a warning for each flag that was set to a value that has no effect, sorted.
func (o *Options) Warnings(flags *pflag.FlagSet) []string {
	var warnings []string
	noEffect, notYet := inherited(), unsupported()
	flags.Visit(func(flag *pflag.Flag) {
		if reason, ok := noEffect[flag.Name]; ok && !isServersWay(flag) {
			warnings = append(warnings, fmt.Sprintf("flag --%s has no effect: %s", flag.Name, reason))
		}
		if reason, ok := notYet[flag.Name]; ok && flag.Value.String() != flag.DefValue && !isServersWay(flag) {
			warnings = append(warnings, fmt.Sprintf("flag --%s %s has no effect: %s", flag.Name, flag.Value, reason))
		}
	})
	if o.DownloadURL == "" && flags.Changed("download-address") {
		warnings = append(warnings, "flag --download-address has no effect without --download-url, the URL at which users "+
			"reach it")
	}
	for _, feature := range o.Features {
		switch feature {
		case EnableAPIGroupVersions, EnableCSI:
		default:
			warnings = append(warnings, fmt.Sprintf("flag --features: %s is unknown and has no effect; known are %s and %s",
				feature, EnableAPIGroupVersions, EnableCSI))
		}
	}
	slices.Sort(warnings)
	return warnings
}

// isServersWay reports whether a flag requests what the server does in any case.
func isServersWay(flag *pflag.Flag) bool {
	on, err := strconv.ParseBool(flag.Value.String())
	switch flag.Name {
	case "logtostderr":
		return err == nil && on
	case "alsologtostderr", "colorized":
		return err == nil && !on
	}
	return false
}
