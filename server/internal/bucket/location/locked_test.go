package location_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/s3store"
	"github.com/cleat-dev/cleat/plugins/sealed"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

// A store in front of another one passes on what that one keeps, also when it is hidden and its time is over.
func TestLocksBehindAnotherStore(t *testing.T) {
	t.Parallel()
	cluster := plane.Get(t)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	host, err := pluginhost.New(t.Context(), pluginhost.Config{Log: hclog.NewNullLogger(),
		BuiltIns: []framework.Registration{s3store.Register(), sealed.Register()}})
	require.NoError(t, err)
	t.Cleanup(host.Close)
	scratch, err := os.MkdirTemp("", "locked") // the path of a socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(scratch)) })
	opener := location.NewOpener(secrets{"keys": {"identities": []byte(identity.String()),
		"cloud": []byte("[default]\naws_access_key_id=" + cluster.S3.AccessKey + "\naws_secret_access_key=" +
			cluster.S3.SecretKey + "\n")}}, location.PluginHost{Host: host}, scratch, hclog.NewNullLogger())
	bucket := cluster.NewLockingBucket(t, "behind", nil)
	bsl := &velerov1.BackupStorageLocation{}
	bsl.Namespace, bsl.Name, bsl.Spec.Provider = "ns", "default", sealed.Name
	bsl.Spec.ObjectStorage = &velerov1.ObjectStorageLocation{Bucket: bucket}
	bsl.Spec.Credential = &velerov1.SecretKeySelector{Name: "keys", Key: "cloud"}
	bsl.Spec.Config = map[string]string{"store": s3store.Name, "s3Url": cluster.S3.Endpoint, "region": cluster.S3.Region,
		"s3ForcePathStyle": "true", "objectLockMode": "GOVERNANCE", "secret": "keys/identities",
		"recipients": identity.Recipient().String()}
	opened, err := opener.Open(t.Context(), bsl)
	require.NoError(t, err)

	locks, err := opened.Locks(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, "GOVERNANCE", locks.Mode)
	until := time.Now().Add(3 * time.Second)
	require.NoError(t, opened.Retain(until).PutBackupLog(t.Context(), "b", strings.NewReader("x")))
	kept, err := opened.Kept(t.Context(), "b", time.Now())
	require.NoError(t, err)
	require.WithinDuration(t, until, kept.Until, time.Second)
	key := "backups/b/b-logs.gz"
	_, err = cluster.S3Client().DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		kept, err = opened.Kept(t.Context(), "b", time.Now())
		return err != nil || kept == store.Kept{}
	}, time.Minute, 200*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, opened.DeleteBackup(t.Context(), "b"))
	left, err := cluster.S3Client().ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &bucket})
	require.NoError(t, err)
	require.Empty(t, left.Versions)
	require.Empty(t, left.DeleteMarkers)
}
