package glue

import "github.com/hashicorp/go-plugin"

// Handshake is what host and plugin must agree on before they talk; its values are Velero's. It tells a
// plugin that it was started by a host, it is not a means of security.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  2,
		MagicCookieKey:   "VELERO_PLUGIN",
		MagicCookieValue: "hello",
	}
}
