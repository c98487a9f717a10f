package hostenv

import (
	"slices"
	"strings"
)

// Rule selects the variables of a host's environment that its plugins get.
type Rule string

const (
	// Complete passes all variables except the handshake's, as Velero does. Many plugins are configured by variables of
	// their own.
	Complete Rule = "Complete"
	// Strict passes variables that locate the plugin's files, its proxy, its cluster and the credentials that an
	// installation provides. Secrets of the host that happen to be in its environment are withheld.
	Strict Rule = "Strict"
)

// Environ returns the variables of environ ("NAME=value") that a plugin gets, followed by those of extra. It also
// returns the names of those that are withheld, sorted.
func (r Rule) Environ(environ []string, extra ...string) (passed, withheld []string) {
	for _, variable := range environ {
		name, _, ok := strings.Cut(variable, "=")
		switch {
		case !ok || name == "": // Windows has such ones for its drives
		case !Reserved(name) && (r != Strict || passedExactly(name) || passedByPrefix(name)):
			passed = append(passed, variable)
		default:
			withheld = append(withheld, name)
		}
	}
	slices.Sort(withheld)
	return append(passed, extra...), slices.Compact(withheld)
}

// Environ returns the variables that a plugin gets by the rule Complete, which is the default.
func Environ(environ []string, extra ...string) []string {
	passed, _ := Complete.Environ(environ, extra...)
	return passed
}

// Reserved reports whether a variable belongs to the handshake between a host and one plugin process. The host sets it
// anew for each process; one from elsewhere, for instance of a host that is itself a plugin, would confuse the plugin.
func Reserved(name string) bool {
	switch name {
	case "VELERO_PLUGIN", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT", "PLUGIN_CLIENT_CERT",
		"PLUGIN_UNIX_SOCKET_DIR", "PLUGIN_UNIX_SOCKET_GROUP", "PLUGIN_MULTIPLEX_GRPC":
		return true
	}
	return false
}

func passedExactly(name string) bool {
	switch name {
	case
		// the process
		"PATH", "HOME", "USER", "TMPDIR", "TZ", "LANG", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", "COMSPEC", "PATHEXT",
		// the Go runtime, and the limits that an operator sets for it
		"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR",
		// proxies
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		// the cluster
		"KUBECONFIG", "NODE_NAME", "POD_NAME", "POD_NAMESPACE":
		return true
	}
	return false
}

func passedByPrefix(name string) bool {
	for _, prefix := range []string{
		"VELERO_", "CLEAT_", "LC_",
		"KUBERNETES_SERVICE_", "KUBERNETES_PORT",
		// credentials, by provider, as files and by workload identity
		"AWS_", "GOOGLE_", "GCE_", "CLOUDSDK_", "AZURE_", "ALIBABA_CLOUD_", "OCI_", "IBM_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
