package config_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// TestEveryFlagIsBuiltOrNamedInAWarning sets each flag of the server to another value than its default. The server
// either does what it says, as the named test or code shows, or has a warning that names it.
func TestEveryFlagIsBuiltOrNamedInAWarning(t *testing.T) {
	t.Parallel()
	const output = "the server's log goes to stderr"
	const job = "set it in the ConfigMap"
	table := map[string]struct {
		value string // another than the default
		built string // what shows that the flag has an effect
		warns string // a part of the warning, for a flag that has none
	}{
		"log-level": {value: "debug", built: "cli.newLog"}, "log-format": {value: "json",
			built: "cli.newLog, runlog.TestLogWritesJSON"},
		"plugin-dir": {value: "/x", built: "app.HostConfig"}, "isolate-built-ins": {value: "true", built: "app.HostConfig"},
		"metrics-address": {value: ":1", built: "app.Serve"}, "profiler-address": {value: ":1", built: "app.Serve"},
		"download-url":     {value: "https://x", built: "requests.TestServerOffersFileWithToken"},
		"download-address": {value: ":1", warns: "has no effect without --download-url"},
		"scratch-dir":      {value: "/x", built: "app.Serve"},
		"client-qps":       {value: "1", built: "cli.runServer"}, "client-burst": {value: "1", built: "cli.runServer"},
		"client-page-size":    {value: "0", built: "backup.TestListsAreReadWholeWithoutPages"},
		"disable-controllers": {value: "gc", built: "app.registrar"}, "restore-only": {value: "true",
			built: "Options.Disabled"},
		"concurrent-backups": {value: "2", built: "backupqueue"}, "concurrent-restores": {value: "2",
			built: "app.addControllers"},
		"backup-attempts": {value: "1", built: "run.TakeUp"}, "restore-attempts": {value: "1", built: "run.TakeUp"},
		"api-outage-timeout": {value: "1h", built: "run.Patience"}, "store-outage-timeout": {value: "1h",
			built: "run.PatientStores"},
		"queue-sweep": {value: "1h", built: "backupqueue"}, "item-block-worker-count": {value: "2",
			built: "backup.newWorkers"},
		"restore-workers": {value: "2", built: "restore.newPool"}, "shutdown-grace-period": {value: "1h",
			built: "run.NewRuns"},
		"leader-elect": {value: "false", built: "app lead.go"}, "leader-elect-lease-duration": {value: "1h",
			built: "app lead.go"},
		"default-backup-storage-location": {value: "x", built: "backups.TestLocationsAreValidated"},
		"store-validation-frequency":      {value: "1h", built: "location.Reconciler"},
		"default-backup-ttl":              {value: "1h", built: "backups.TestDefaultsAreWrittenIntoTheSpec"},
		"terminating-resource-timeout":    {value: "1h", built: "restore.createNamespace"},
		"resource-timeout":                {value: "1h", built: "restore.awaitReady"},
		"restore-resource-priorities":     {value: "pods", built: "plan.Priorities"},
		"schedule-skip-immediately":       {value: "true", built: "schedules.Controller"},
		"uploader-type":                   {built: "backup.podVolumes"},

		"backup-sync-period":                {value: "1h", built: "server/test/backups TestAcceptBackup_ExpiryAndSync"},
		"garbage-collection-frequency":      {value: "1m", built: "server/test/backups TestAcceptBackup_ExpiryAndSync"},
		"item-operation-sync-frequency":     {value: "1s", built: "server/test/operations TestAcceptOperations_Followed"},
		"default-item-operation-timeout":    {value: "1h", built: "server/test/operations TestAcceptOperations_Timeouts"},
		"default-volume-snapshot-locations": {value: "a:b", built: "backups.TestLocationsAreValidated"},
		"fs-backup-timeout":                 {value: "1h", built: "app.operationLimits"},
		"volume-group-snapshot-label-key":   {value: "x", built: "server/test/volumes TestAcceptVolumes_Groups"},
		"default-volumes-to-fs-backup":      {value: "true", built: "backups.TestDefaultsAreWrittenIntoTheSpec"},
		"default-snapshot-move-data":        {value: "true", built: "server/test/nodeagent TestAcceptVolumes_CSIDataMoved"},
		"default-repo-maintain-frequency": {value: "1h",
			built: "server/test/nodeagent TestAcceptVolumes_Maintenance"},
		"max-concurrent-k8s-connections": {value: "1", warns: "as there are workers of item blocks"},
		"backup-repository-configmap": {value: "x",
			built: "server/test/nodeagent TestAcceptVolumes_Maintenance"},
		"repo-maintenance-job-configmap": {value: "x",
			built: "server/test/nodeagent TestAcceptVolumes_Maintenance"},
		"global-backup-volume-policies-configmap": {value: "x", built: "server/test/volumes TestAcceptVolumes_Policies"},
		"default-resource-modifier-configmap": {value: "x",
			built: "server/internal/control/restores TestDefaultModifiersOfARestore"},
		"disable-informer-cache": {value: "true",
			built: "restore.handleExisting reads from the API server in any case"},
		"features": {value: "EnableEverything",
			warns: "EnableEverything is unknown and has no effect; known are EnableAPIGroupVersions and EnableCSI"},

		"keep-latest-maintenance-jobs": {value: "1", warns: job}, "maintenance-job-cpu-limit": {value: "1", warns: job},
		"maintenance-job-cpu-request": {value: "1", warns: job}, "maintenance-job-mem-limit": {value: "1", warns: job},
		"maintenance-job-mem-request":    {value: "1", warns: job},
		"restic-timeout":                 {value: "1h", warns: "use --fs-backup-timeout"},
		"pod-volume-operation-timeout":   {value: "1h", warns: "use --fs-backup-timeout"},
		"default-volumes-to-restic":      {value: "true", warns: "use --default-volumes-to-fs-backup"},
		"default-restic-prune-frequency": {value: "1h", warns: "use --default-repo-maintain-frequency"},

		"logtostderr": {value: "false", warns: output}, "alsologtostderr": {value: "true", warns: output},
		"stderrthreshold":          {value: "2", warns: output},
		"alsologtostderrthreshold": {value: "2", warns: output}, "legacy_stderr_threshold_behavior": {value: "true",
			warns: output},
		"log_dir": {value: "/x", warns: output}, "log_file": {value: "x", warns: output}, "log_file_max_size": {value: "1",
			warns: output},
		"log_backtrace_at": {value: "x:1", warns: output}, "one_output": {value: "true", warns: output},
		"add_dir_header": {value: "true", warns: output},
		"skip_headers":   {value: "true", warns: output}, "skip_log_headers": {value: "true", warns: output},
		"colorized": {value: "true", warns: "no colors"},
	}
	_, all, err := parse(t)
	require.NoError(t, err)
	all.VisitAll(func(flag *pflag.Flag) {
		row, ok := table[flag.Name]
		require.True(t, ok, "flag --%s is not in the table: say what shows that it has an effect, or warn that it has none",
			flag.Name)
		require.NotEqual(t, row.built == "", row.warns == "", flag.Name)
		if row.value == "" {
			return
		}
		o, flags, err := parse(t, "--"+flag.Name+"="+row.value)
		require.NoError(t, err, flag.Name)
		require.NoError(t, o.Complete(), flag.Name)
		warnings := o.Warnings(flags)
		if row.built != "" {
			require.Empty(t, warnings, flag.Name)
			return
		}
		require.Len(t, warnings, 1, flag.Name)
		require.Contains(t, warnings[0], row.warns, flag.Name)
		require.Contains(t, warnings[0], "flag --"+flag.Name, flag.Name)
		delete(table, flag.Name)
	})
}

func TestFlagsThatAskForTheUsualWarnOfNothing(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"--features=", "--uploader-type=kopia"}, // what Velero's installer writes
		{"--features=EnableAPIGroupVersions", "--default-volumes-to-fs-backup=false", "--default-snapshot-move-data=false"},
		{"--logtostderr", "--alsologtostderr=false", "--colorized=false", "--disable-informer-cache"},
		{"--garbage-collection-frequency=60m", "--item-operation-sync-frequency=10s", "--fs-backup-timeout=4h"},
	} {
		o, flags, err := parse(t, args...)
		require.NoError(t, err)
		require.NoError(t, o.Complete())
		require.Empty(t, o.Warnings(flags), args)
	}
	o, flags, err := parse(t, "--features=EnableCSI")
	require.NoError(t, err)
	require.Empty(t, o.Warnings(flags))
	require.True(t, o.HasFeature(config.EnableCSI))
}
