package kopia_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/plugins/kopia"
)

// TestAcceptVolumes_KopiaInS3 proves that repositories in S3 have Velero's layout, that errors say what to check, and
// that no secrets are on disk or in logs.
func TestAcceptVolumes_KopiaInS3(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	dir := t.TempDir()
	credentials := filepath.Join(dir, "credentials")
	right := fmt.Sprintf("[backups]\naws_access_key_id = %s\naws_secret_access_key = %s\n", c.S3.AccessKey,
		c.S3.SecretKey)
	write(t, dir, map[string]string{
		"credentials": right, "wrong": "[backups]\naws_access_key_id = someone\naws_secret_access_key = else-else\n",
	})
	r := dmv1.Repository{
		Provider: "velero.io/aws", Path: "kopia/shop", Password: []byte(password), Config: map[string]string{
			"bucket": c.NewBucket(t, "kopia"), "prefix": "velero", "s3Url": c.S3.Endpoint + "/", "region": c.S3.Region,
			"s3ForcePathStyle": "true", "profile": "backups", "credentialsFile": credentials,
		},
	}
	config := kopia.Defaults()
	config.CacheDirectory = t.TempDir()
	running := plugintest.Run(t, kopia.Register())
	m := running.DataMoverV1(kopia.Name, plugintest.WithConfig(config))

	volume, target := t.TempDir(), t.TempDir()
	content := map[string]string{"large": random(30 << 20)}
	for i := range 300 {
		content[fmt.Sprintf("dir-%d/file-%d", i%7, i)] = random(2000 + i)
	}
	write(t, volume, content)
	_, err := m.Backup(t.Context(), &dmv1.BackupInput{Repository: r, Key: "k", Volume: dmv1.Volume{Path: volume}})
	require.ErrorIs(t, err, framework.ErrNotFound)
	checked, err := m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.NoError(t, err)
	require.True(t, checked.Created)
	stored := backup(t, m, r, "k", volume)
	require.FileExists(t, filepath.Join(c.S3.Dir, r.Config["bucket"], "velero", "kopia", "shop", "kopia.repository"))
	require.FileExists(t, filepath.Join(c.S3.Dir, r.Config["bucket"], "velero", "kopia", "shop", "udmrepo.Repository"))
	again := backup(t, m, r, "k-2", volume)
	require.Less(t, again.NewBytes, stored.NewBytes/10)
	restored := restore(t, m, r, stored.SnapshotID, target)
	require.Equal(t, stored.Bytes, restored.Bytes)
	require.Equal(t, described(t, volume), described(t, target))
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Depth: dmv1.Data})
	require.NoError(t, err)
	_, err = m.Forget(t.Context(), &dmv1.ForgetInput{Repository: r, SnapshotIDs: []string{again.SnapshotID}})
	require.NoError(t, err)
	_, err = m.Maintain(t.Context(), &dmv1.MaintainInput{Repository: r})
	require.NoError(t, err)

	secrets := []string{password, c.S3.SecretKey}
	for _, line := range running.Logs() {
		for _, secret := range secrets {
			require.NotContains(t, fmt.Sprint(line), secret)
		}
	}
	for path := range times(t, config.CacheDirectory) {
		for _, secret := range secrets {
			require.NotContains(t, read(t, path), secret, path)
		}
	}

	wrong := r
	wrong.Config = maps.Clone(r.Config)
	wrong.Config["credentialsFile"] = filepath.Join(dir, "wrong")
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: wrong, Create: true})
	require.ErrorContains(t, err, "the credentials were refused")
	wrong.Config["credentialsFile"], wrong.Config["bucket"] = credentials, "absent"
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: wrong, Create: true})
	require.ErrorContains(t, err, "the bucket does not exist")
	wrong.Config["bucket"], wrong.Password = r.Config["bucket"], []byte("another")
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: wrong, Create: true})
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "the password is wrong")
	wrong = r
	wrong.Path = "kopia/blog"
	write(t, filepath.Join(c.S3.Dir, r.Config["bucket"], "velero", "kopia", "blog"), map[string]string{"config": "{}"})
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: wrong, Create: true})
	require.ErrorIs(t, err, framework.ErrInvalid)
	require.ErrorContains(t, err, "no repository of kopia")

	away := r
	away.Config = maps.Clone(r.Config)
	away.Config["s3Url"] = "http://127.0.0.1:1"
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: away})
	require.ErrorIs(t, err, framework.ErrUnavailable)
}

// TestRestoreReadsPacksWhole proves that a restore from S3 does not send a request for each small file.
func TestRestoreReadsPacksWhole(t *testing.T) {
	t.Parallel()
	c := plane.Get(t)
	to, err := url.Parse(c.S3.Endpoint)
	require.NoError(t, err)
	var gets atomic.Int64
	passing := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which is signed
		if r.In.Method == http.MethodGet {
			gets.Add(1)
		}
	}}
	counting := httptest.NewServer(passing)
	defer counting.Close()
	volume, credentials := t.TempDir(), filepath.Join(t.TempDir(), "credentials")
	write(t, filepath.Dir(credentials), map[string]string{"credentials": fmt.Sprintf(
		"[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", c.S3.AccessKey, c.S3.SecretKey)})
	const files = 400
	content := map[string]string{}
	for i := range files {
		content[fmt.Sprintf("dir-%d/file-%d", i%40, i)] = random(10_000 + i)
	}
	write(t, volume, content)
	r := dmv1.Repository{
		Provider: "cleat.dev/s3", Path: "kopia/shop", Password: []byte(password), Config: map[string]string{
			"bucket": c.NewBucket(t, "packs"), "s3Url": counting.URL, "region": c.S3.Region, "s3ForcePathStyle": "true",
			"credentialsFile": credentials,
		},
	}
	m := mover(t)
	_, err = m.Check(t.Context(), &dmv1.CheckInput{Repository: r, Create: true})
	require.NoError(t, err)
	id := backup(t, m, r, "k", volume).SnapshotID
	for limit, most := range map[int]int64{2000: files / 10, 0: 3 * files} {
		target := t.TempDir()
		fresh := mover(t, func(config *kopia.Config) { config.CacheLimitMB = limit })
		gets.Store(0)
		restore(t, fresh, r, id, target)
		require.Equal(t, described(t, volume), described(t, target))
		require.Less(t, gets.Load(), most, "with a cache of %d MB", limit)
	}
}
