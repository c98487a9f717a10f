package download

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// directory is the last part of the path below which a Server serves files.
const directory = "/downloads/"

const (
	purpose  = "download"
	maxToken = 4096 // bytes; the longest names are much shorter
)

// Grant is the permission in a URL: to read one file, until a time, as long as its DownloadRequest exists.
type Grant struct {
	Request string // name of the DownloadRequest
	UID     types.UID
	File    store.File
	Until   time.Time
}

// payload is the JSON of a Grant in a token.
type payload struct {
	Request  string                      `json:"request"`
	UID      types.UID                   `json:"uid"`
	Kind     velerov1.DownloadTargetKind `json:"kind"`
	Name     string                      `json:"name"`
	Artifact string                      `json:"artifact,omitempty"`
	Until    int64                       `json:"until"` // seconds since 1970
}

// Address returns the URL of the file, at a server that users reach at base. The token in it is secret.
func (g Grant) Address(base *url.URL, key *signing.Key) string {
	// strings and a number
	encoded, _ := json.Marshal(payload{g.Request, g.UID, g.File.Kind, g.File.Name, g.File.Artifact, g.Until.Unix()})
	content := base64.RawURLEncoding.EncodeToString(encoded)
	address := base.JoinPath(directory, g.Request)
	address.RawQuery = url.Values{"token": {content + "." + key.Sign(purpose, content)}}.Encode()
	return address.String()
}

// claim is a token that was not verified yet.
type claim struct {
	Grant
	content, proof string
}

// parse returns the permission that a URL claims. It is untrusted until proven is called.
func parse(path, token string) (claim, error) {
	_, name, found := strings.Cut(path, directory)
	if !found || name == "" || strings.Contains(name, "/") {
		return claim{}, errNoFile
	}
	content, proof, found := strings.Cut(token, ".")
	if !found || len(token) > maxToken {
		return claim{}, errNoToken
	}
	var p payload
	encoded, err := base64.RawURLEncoding.DecodeString(content)
	if err == nil {
		err = json.Unmarshal(encoded, &p)
	}
	if err != nil || p.Request != name {
		return claim{}, errNoToken
	}
	file := store.File{DownloadTarget: velerov1.DownloadTarget{Kind: p.Kind, Name: p.Name}, Artifact: p.Artifact}
	return claim{Grant{p.Request, p.UID, file, time.Unix(p.Until, 0)}, content, proof}, nil
}

// proven reports whether the holder of the key has made the token.
func (c claim) proven(key *signing.Key) bool { return key.Proves(c.proof, purpose, c.content) }

var (
	errNoFile  = errors.New("want /downloads/NAME")
	errNoToken = errors.New("the URL has no token")
)
