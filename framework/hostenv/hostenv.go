package hostenv

import "strings"

// Environ returns the variables of environ ("NAME=value") that a plugin gets, followed by those of extra. A plugin needs
// variables that locate its files, its proxy, its cluster and the credentials that an installation provides. Secrets of the
// host that happen to be in environ are left out.
func Environ(environ []string, extra ...string) []string {
	var passed []string
	for _, variable := range environ {
		if name, _, ok := strings.Cut(variable, "="); ok && (passedExactly(name) || passedByPrefix(name)) {
			passed = append(passed, variable)
		}
	}
	return append(passed, extra...)
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
