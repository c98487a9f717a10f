package process

import (
	"fmt"
	"strings"
)

// parseHandshake parses the line that says where a plugin listens. The certificate is empty if the plugin serves
// without TLS.
func parseHandshake(line string) (network, address, certificate string, err error) {
	fields := strings.Split(line, "|")
	const want = `want "1|2|unix or tcp|ADDRESS|grpc|"`
	switch {
	case len(fields) < 5:
		return "", "", "", fmt.Errorf("the first line on stdout is %.200q, %s", line, want)
	case fields[0] != "1":
		return "", "", "", fmt.Errorf("the handshake has the core protocol %q: %.200q, %s", fields[0], line, want)
	case fields[1] != "2":
		return "", "", "", fmt.Errorf("the handshake has the protocol version %q: %.200q, %s", fields[1], line, want)
	case fields[2] != "unix" && fields[2] != "tcp":
		return "", "", "", fmt.Errorf("the handshake has the network %q: %.200q, %s", fields[2], line, want)
	case fields[4] != "grpc":
		return "", "", "", fmt.Errorf("the handshake has the protocol %q: %.200q, %s", fields[4], line, want)
	}
	if len(fields) > 5 {
		certificate = fields[5]
	}
	return fields[2], fields[3], certificate, nil
}
