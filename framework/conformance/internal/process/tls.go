package process

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certificateVariable is the environment variable by which a host offers mutual TLS: the host's certificate in PEM. A
// plugin that accepts the offer appends its own certificate to the handshake line.
const certificateVariable = "PLUGIN_CLIENT_CERT"

// offer is the host's side of mutual TLS for one process.
type offer struct {
	certificate tls.Certificate
	pem         string
}

// newOffer makes a self-signed certificate, as go-plugin's client does for each process.
func newOffer() (*offer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: tlsName}, DNSNames: []string{tlsName},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		return nil, err
	}
	return &offer{certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem: text.String()}, nil
}

// tlsName is the name that go-plugin puts into its certificates.
const tlsName = "localhost"

// accepted returns the configuration for a plugin whose handshake line holds answer, the base64 of its certificate. It
// returns nil when the plugin has not accepted the offer; the connection is plain then.
func (o *offer) accepted(answer string) (*tls.Config, error) {
	if answer == "" {
		return nil, nil
	}
	der, err := base64.RawStdEncoding.DecodeString(answer)
	if err != nil {
		return nil, fmt.Errorf("the certificate in the handshake line is not base64: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate in the handshake line: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{o.certificate}, RootCAs: roots, ServerName: tlsName, MinVersion: tls.VersionTLS12,
	}, nil
}
