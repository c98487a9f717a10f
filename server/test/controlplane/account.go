package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// AccountKubeconfig writes a kubeconfig for a service account, with a token of its own, and returns its path.
func (c *Cluster) AccountKubeconfig(t testing.TB, namespace, account string) string {
	t.Helper()
	token, err := c.token(t, namespace, account)
	if err != nil {
		t.Fatalf("get a token of service account %s/%s: %v", namespace, account, err)
	}
	named := func(name, key string, value map[string]any) []map[string]any {
		return []map[string]any{{"name": name, key: value}}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": named("c", "cluster", map[string]any{"server": c.APIServer, "certificate-authority": c.CAFile}),
		"users":    named("u", "user", map[string]any{"token": token}),
		"contexts": named("c", "context", map[string]any{"cluster": "c", "user": "u"}),
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// token requests a token of a service account from the API server.
func (c *Cluster) token(t testing.TB, namespace, account string) (string, error) {
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/serviceaccounts/%s/token", c.APIServer, namespace, account)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // only read from
	var reply struct {
		Status struct{ Token string }
	}
	if response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("the API server answers %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil {
		return "", err
	}
	return reply.Status.Token, nil
}
