package app

import (
	"cmp"
	"context"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/verification"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
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

// publicKeys returns the keys whose signatures of backups are accepted.
func (c *controllers) publicKeys() (keys []serverreport.Key) {
	ctx, cancel := context.WithTimeout(c.lost, keyTimeout)
	defer cancel()
	for _, accepted := range c.trusted.Ring(ctx) {
		key := serverreport.Key{ID: accepted.ID, Name: accepted.Name, Signs: accepted.Own, PEM: string(accepted.PEM),
			NotAfter: accepted.NotAfter}
		if accepted.Problem != nil {
			key.Problem = accepted.Problem.Error()
		}
		keys = append(keys, key)
	}
	return keys
}

// keyTimeout is how long an answer waits for the key of a KMS.
const keyTimeout = 5 * time.Second

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
