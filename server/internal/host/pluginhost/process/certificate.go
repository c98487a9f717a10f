package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

const (
	// clientCertificate is the variable by which a host offers mutual TLS: its certificate in PEM.
	clientCertificate = "PLUGIN_CLIENT_CERT"
	// tlsName is the name in the certificates of go-plugin.
	tlsName = "localhost"
)

// offerTLS makes a certificate of the host for one process. It returns the configuration with it, and the variable that
// offers it to the process. go-plugin's own certificates are on P-521, which takes a hundred times the time of P-256:
// more than anything else in the start of a process.
func offerTLS() (*tls.Config, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make the key of the host's certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, "", fmt.Errorf("make the host's certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: tlsName}, DNSNames: []string{tlsName},
		NotBefore: now.Add(-time.Minute), NotAfter: now.AddDate(30, 0, 0), // longer than any process
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("make the host's certificate: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ServerName: tlsName,
		MinVersion: tls.VersionTLS12,
	}
	return config, clientCertificate + "=" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
