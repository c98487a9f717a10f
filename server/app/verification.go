package app

import (
	"cmp"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/verification"
)

// newTrust returns the keys of backups that the configuration names.
func (c *controllers) newTrust() *verification.Keys {
	return &verification.Keys{
		Live:      c.live,
		Namespace: c.Namespace,
		Key:       c.File.Backups.Signing.Key,
		Trusted:   c.File.Trust.Keys,
		Now:       time.Now,
	}
}

// signer returns what makes the checksums of backups.
func (c *controllers) signer() *verification.Signer {
	return &verification.Signer{
		Keys:   c.trusted,
		Events: c.events,
		Log:    c.Log.Named(run.BackupFinalizerController),
		Now:    time.Now,
	}
}

// verifications returns the controller that verifies backups.
func (c *controllers) verifications() *verification.Controller {
	settings := c.File.Verification
	return &verification.Controller{
		Cluster: c.cluster,
		Stores:  c.opener,
		Keys:    c.trusted,
		Settings: verification.Settings{
			After:      settings.After,
			Every:      settings.Every.Std(),
			Depth:      velerov1.VerificationDepth(cmp.Or(settings.Depth, string(velerov1.VerifyFiles))),
			Concurrent: max(1, settings.Concurrent),
		},
		Repositories: newRepositories(c.cluster, c.opener, c.host, c.Log.Named("repositories")),
		Events:       c.events,
		Log:          c.Log.Named(run.VerificationController),
		Now:          time.Now,
	}
}
