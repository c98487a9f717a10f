package pluginhost

import "strings"

// passedExactly and passedByPrefix are the parts of the server's environment that a plugin gets. Everything
// else stays with the server: a plugin needs what finds its files, its proxy, its cluster and the credentials
// that Velero's install puts there, and no secret that happens to stand in the server's environment.
func passedExactly(name string) bool {
	switch name {
	case
		// the process
		"PATH", "HOME", "USER", "TMPDIR", "TZ", "LANG", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"SYSTEMROOT", "TEMP", "TMP", "USERPROFILE", "COMSPEC", "PATHEXT",
		// the Go runtime, and the limits an operator sets for it
		"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR",
		// the way out
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

// pluginEnvironment picks from environ ("NAME=value" each) what a plugin gets, plus what the configuration
// names in extra.
func pluginEnvironment(environ, extra []string) []string {
	var passed []string
	for _, variable := range environ {
		name, _, ok := strings.Cut(variable, "=")
		if !ok || name == "" {
			continue
		}
		if passedExactly(name) || passedByPrefix(name) {
			passed = append(passed, variable)
		}
	}
	return append(passed, extra...)
}
