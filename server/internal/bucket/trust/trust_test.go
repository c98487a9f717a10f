package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func document() *Document {
	completed := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	return &Document{
		Format: Version, Backup: Backup{Name: "b", Namespace: "velero", UID: "u", Completed: &completed},
		Signed: completed.Add(time.Second),
		Files:  []File{{"velero-backup.json", 3, zeros}, {"b.tar.gz", 5, zeros}},
	}
}

func newSigner(t *testing.T) *Signer {
	t.Helper()
	private, err := NewKey()
	require.NoError(t, err)
	signer, err := ParseKey(private)
	require.NoError(t, err)
	return signer
}

func TestDocumentIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	data, err := document().Encode()
	require.NoError(t, err)
	read, err := Parse(data)
	require.NoError(t, err)
	require.Equal(t, "b.tar.gz", read.Files[0].Name, "files are sorted")
	again, err := read.Encode()
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
	for change, want := range map[string]string{
		`"format": "1"|"format": "2"`:                        `format "2", want "1"`,
		`"uid": "u"|"uid": ""`:                               "no uid",
		`"name": "b.tar.gz"|"name": "velero-backup.json"`:    "is there twice",
		`"name": "b.tar.gz"|"name": "../b.tar.gz"`:           "want the name of a file",
		`"name": "velero-backup.json"|"name": "backup.json"`: "files lacks velero-backup.json",
		`"size": 5|"size": -5`:                               "want the number of bytes",
		`"sha256": "` + zeros + `"|"sha256": "00"`:           "want 64 hexadecimal digits",
		`"size": 5|"size": "many"`:                           "size",
		`{|[`:                                                "",
	} {
		from, to, _ := strings.Cut(change, "|")
		_, err := Parse(bytes.Replace(data, []byte(from), []byte(to), 1))
		require.ErrorContains(t, err, want, change)
	}
}

func TestRingJudgesSignatures(t *testing.T) {
	t.Parallel()
	d := document()
	checksums, err := d.Encode()
	require.NoError(t, err)
	one, other := newSigner(t), newSigner(t)
	signature, err := one.Sign(t.Context(), checksums)
	require.NoError(t, err)
	accepted := func(signers ...*Signer) (ring Ring) {
		for _, s := range signers {
			ring = append(ring, Accepted{PublicKey: s.Public, Name: "k"})
		}
		return ring
	}
	expired := accepted(one)
	expired[0].NotAfter = d.Signed.Add(-time.Minute)
	lasts := accepted(one)
	lasts[0].NotAfter = d.Signed.Add(time.Minute)
	lost := Ring{{Name: "k", Problem: os.ErrNotExist}}
	both := new(Signatures)
	require.NoError(t, json.Unmarshal(signature, both))
	added, err := other.Sign(t.Context(), checksums)
	require.NoError(t, err)
	more, err := ParseSignatures(added)
	require.NoError(t, err)
	both.Signatures = append(both.Signatures, more.Signatures...)
	several, err := json.Marshal(both)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		ring                 Ring
		checksums, signature []byte
		state                velerov1.SignatureState
		problem              string
	}{
		"valid": {accepted(other, one), checksums, signature, velerov1.SignatureValid, ""},
		"none":  {accepted(one), checksums, nil, velerov1.SignatureMissing, "no signature"},
		"changed": {accepted(one), append([]byte(" "), checksums...), signature, velerov1.SignatureInvalid,
			"are not those that key k"},
		"another key": {accepted(other), checksums, signature, velerov1.SignatureUnknownKey,
			"not among the accepted keys"},
		"no key": {nil, checksums, signature, velerov1.SignatureUnknownKey, "not among the accepted keys"},
		"expired": {expired, checksums, signature, velerov1.SignatureUnknownKey,
			"is accepted for backups until 2026-03-04T11:59:01Z"},
		"not expired": {lasts, checksums, signature, velerov1.SignatureValid, ""},
		"lost": {lost, checksums, signature, velerov1.SignatureUnknownKey,
			"key k cannot be used: file does not exist"},
		"damaged": {accepted(one), checksums, signature[:len(signature)/2], velerov1.SignatureInvalid,
			"is damaged"},
		"of two, the first": {accepted(one), checksums, several, velerov1.SignatureValid, ""},
		"of two, the last":  {accepted(other), checksums, several, velerov1.SignatureValid, ""},
		"other payload": {accepted(one), checksums, bytes.Replace(signature, []byte(checksumsType), []byte("text/plain"), 1),
			velerov1.SignatureInvalid, "payloadType"},
	} {
		judged := test.ring.Judge(d, test.checksums, test.signature)
		require.Equal(t, test.state, judged.State, name)
		if test.problem == "" {
			require.NoError(t, judged.Problem, name)
			require.NotEmpty(t, judged.Key, name)
		} else {
			require.ErrorContains(t, judged.Problem, test.problem, name)
		}
	}
}

func TestKeysOfOtherKindsAreRefused(t *testing.T) {
	t.Parallel()
	private, err := NewKey()
	require.NoError(t, err)
	public := newSigner(t).Public.PEM
	for text, want := range map[string]string{
		"":                                "want an Ed25519 key in PEM",
		string(public):                    `it is a PEM block of type "PUBLIC KEY", want "PRIVATE KEY"`,
		string(private) + string(private): "there is something after the key",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "has no Ed25519 key",
	} {
		_, err := ParseKey([]byte(text))
		require.ErrorContains(t, err, want)
	}
	_, err = ParsePublicKey(private)
	require.ErrorContains(t, err, `want "PUBLIC KEY"`)
	require.NotContains(t, err.Error(), strings.Split(string(private), "\n")[1])
	_, err = ParsePublicKey([]byte("x"))
	require.ErrorContains(t, err, "want a public key in PEM")
}

// TestKMSIsAProgram signs with a program in the PATH, as sigstore's library calls them.
func TestKMSIsAProgram(t *testing.T) {
	_, err := OpenKMS(t.Context(), "nosuchkms://key")
	require.ErrorContains(t, err, "there is no program for it in the PATH of the server")
	dir := t.TempDir()
	program := []byte("#!/bin/sh\necho no >&2\nexit 3\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sigstore-kms-brokenkms"), program, 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	_, err = OpenKMS(context.Background(), "brokenkms://key")
	require.ErrorContains(t, err, "brokenkms://key")
}

func FuzzParse(f *testing.F) {
	data, _ := document().Encode()
	f.Add(data)
	f.Add([]byte(`{"format":"1","backup":{"name":"b","uid":"u"},"files":[{"name":"velero-backup.json"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			return
		}
		again, err := d.Encode()
		require.NoError(t, err)
		_, err = Parse(again)
		require.NoError(t, err)
	})
}

func FuzzParseSignatures(f *testing.F) {
	f.Add([]byte(`{"payloadType":"`+checksumsType+`","signatures":[{"keyid":"k","sig":"AAAA"}]}`), []byte("x"))
	f.Fuzz(func(t *testing.T, data, key []byte) {
		s, err := ParseSignatures(data)
		if err == nil {
			require.NotEmpty(t, s.Signatures)
		}
		if public, err := ParsePublicKey(key); err == nil {
			again, err := ParsePublicKey(public.PEM)
			require.NoError(t, err)
			require.Equal(t, public.ID, again.ID)
		}
		_, _ = ParseKey(key)
	})
}
