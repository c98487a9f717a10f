package glue

import "github.com/hashicorp/go-plugin"

// Handshake holds the values that host and plugin must share, which are Velero's. It lets a plugin detect that a host
// started it; it is not a security feature.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  2,
		MagicCookieKey:   "VELERO_PLUGIN",
		MagicCookieValue: "hello",
	}
}
