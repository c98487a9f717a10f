package download

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

func granted() Grant {
	return Grant{
		Request: "d", UID: "u", Until: time.Unix(1000, 0),
		File: store.File{DownloadTarget: velerov1.DownloadTarget{Kind: velerov1.DownloadTargetKindBackupLog, Name: "b"},
			Artifact: "x"},
	}
}

func TestAddressHoldsItsGrant(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("https://velero.example.com/files/")
	require.NoError(t, err)
	key := signing.NewKey([]byte("k"))
	address, err := url.Parse(granted().Address(base, key))
	require.NoError(t, err)
	require.Equal(t, "/files/downloads/d", address.Path)
	c, err := parse(address.Path, address.Query().Get("token"))
	require.NoError(t, err)
	require.Equal(t, granted(), c.Grant)
	require.True(t, c.proven(key))
	require.False(t, c.proven(signing.NewKey([]byte("other"))))

	later := granted()
	later.Until = time.Unix(2000, 0)
	other, err := url.Parse(later.Address(base, key))
	require.NoError(t, err)
	content, _, _ := strings.Cut(other.Query().Get("token"), ".")
	_, proof, _ := strings.Cut(address.Query().Get("token"), ".")
	c, err = parse(address.Path, content+"."+proof)
	require.NoError(t, err)
	require.False(t, c.proven(key), "the time is signed")
	_, err = parse("/files/downloads/e", address.Query().Get("token"))
	require.ErrorIs(t, err, errNoToken, "of another request")
}

func FuzzParse(f *testing.F) {
	base := &url.URL{Scheme: "http", Host: "h"}
	key := signing.NewKey([]byte("k"))
	address, err := url.Parse(granted().Address(base, key))
	require.NoError(f, err)
	real := address.Query().Get("token")
	f.Add(address.Path, real)
	f.Add("/downloads/%", "")
	f.Add("/downloads/d", "e30.e30")
	f.Add("/downloads/../d", strings.Repeat("a", 5000))
	f.Fuzz(func(t *testing.T, path, token string) {
		c, err := parse(path, token)
		if err != nil {
			return
		}
		require.NotContains(t, c.Request, "/")
		require.True(t, strings.HasSuffix(path, "/downloads/"+c.Request))
		if c.proven(key) {
			require.Equal(t, granted(), c.Grant)
		}
	})
}
