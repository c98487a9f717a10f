package config_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

func parse(t *testing.T, args ...string) (config.Options, *pflag.FlagSet, error) {
	t.Helper()
	o := config.Defaults()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	o.AddFlags(flags)
	err := flags.Parse(args)
	return o, flags, err
}

// The table is Velero's reference of server flags.
func TestDefaultsAreThoseOfVelero(t *testing.T) {
	t.Parallel()
	_, flags, err := parse(t)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"log-level": "info", "log-format": "text", "plugin-dir": "/plugins", "metrics-address": ":8085",
		"backup-sync-period": "1m0s", "fs-backup-timeout": "4h0m0s", "restore-only": "false", "disable-controllers": "[]",
		"default-backup-storage-location": "default", "store-validation-frequency": "1m0s",
		"default-volume-snapshot-locations": "", "client-qps": "100", "client-burst": "100", "client-page-size": "500",
		"profiler-address": "localhost:6060", "terminating-resource-timeout": "10m0s", "resource-timeout": "10m0s",
		"default-backup-ttl": "720h0m0s", "default-item-operation-timeout": "4h0m0s", "item-operation-sync-frequency": "10s",
		"garbage-collection-frequency": "1h0m0s", "default-repo-maintain-frequency": "0s",
		"volume-group-snapshot-label-key": "velero.io/volume-group", "default-volumes-to-fs-backup": "false",
		"default-snapshot-move-data": "false", "uploader-type": "kopia", "max-concurrent-k8s-connections": "30",
		"disable-informer-cache": "false", "schedule-skip-immediately": "false", "backup-repository-configmap": "",
		"repo-maintenance-job-configmap": "", "item-block-worker-count": "1", "concurrent-backups": "1",
		"concurrent-restores": "1", "features": "[]",
		"restore-resource-priorities": "", "global-backup-volume-policies-configmap": "",
	} {
		flag := flags.Lookup(name)
		require.NotNil(t, flag, name)
		require.Equal(t, want, flag.DefValue, name)
	}
}

func TestFlagsOfVelerosInstallerAreAccepted(t *testing.T) {
	t.Parallel()
	o, flags, err := parse(t, "--features=", "--uploader-type=kopia",
		"--default-volume-snapshot-locations=aws:one,gcp:two",
		"--concurrent-backups=0", "--disable-controllers=gc,schedule", "--restore-only", "--default-backup-ttl=24h",
		"--keep-latest-maintenance-jobs=3", "--maintenance-job-cpu-limit=1", "--restic-timeout=1h",
		"--default-volumes-to-restic")
	require.NoError(t, err)
	require.NoError(t, o.Complete())
	require.Empty(t, o.Features)
	require.Equal(t, 1, o.ConcurrentBackups)
	require.Equal(t, 24*time.Hour, o.DefaultBackupTTL)
	require.Equal(t, map[string]string{"aws": "one", "gcp": "two"}, o.DefaultVolumeSnapshotLocations)
	require.Contains(t, o.Disabled(), "gc")
	require.Contains(t, o.Disabled(), "backup-finalizer")
	require.NotContains(t, o.Disabled(), "restore")
	require.Equal(t, []string{
		"flag --default-volumes-to-restic has no effect: use --default-volumes-to-fs-backup",
		"flag --keep-latest-maintenance-jobs has no effect: set it in the ConfigMap that --repo-maintenance-job-configmap " +
			"names",
		"flag --maintenance-job-cpu-limit has no effect: set it in the ConfigMap that --repo-maintenance-job-configmap names",
		"flag --restic-timeout has no effect: use --fs-backup-timeout",
	}, o.Warnings(flags))
}

func TestUnknownFlagsAreErrors(t *testing.T) {
	t.Parallel()
	_, _, err := parse(t, "--no-such-flag")
	require.ErrorContains(t, err, "no-such-flag")
}

func TestCompleteReportsAllInvalidValues(t *testing.T) {
	t.Parallel()
	o, _, err := parse(t, "--log-level=loud", "--log-format=xml", "--uploader-type=tar", "--default-backup-ttl=0",
		"--client-page-size=-1", "--shutdown-grace-period=-1s")
	require.NoError(t, err)
	err = o.Complete()
	for _, want := range []string{
		`--log-level "loud": want one of trace, debug, info`, `--log-format "xml": want one of text, json`,
		`--uploader-type "tar": want one of kopia, restic`, "--default-backup-ttl 0s: want more than 0",
		"--client-page-size -1: want 0 or more", "--shutdown-grace-period -1s: want 0 or more",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestPairsRequireKeyAndValue(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"aws", "aws:", ":x", "a:b,,c:d", ""} {
		var m map[string]string
		require.ErrorContains(t, config.NewPairs(&m).Set(text), "want KEY:VALUE", text)
	}
}
