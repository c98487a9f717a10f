package debug

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// redacted replaces a value that is left out. It is one word, so that redacting twice has no effect.
const redacted = "(left-out)"

// words are parts of the names of what holds secrets.
const words = `(?:secret|password|passwd|passphrase|token|credential|private|access[-_]?key|api[-_]?key|account[-_]?key)`

// secret matches the names of settings, fields and flags whose values are left out.
var secret = regexp.MustCompile(`(?i)authorization|` + words)

// leaks are what looks like a secret within a text. What the groups have stays.
var leaks = []*regexp.Regexp{
	regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|$)`),
	// credentials in a URL
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"']+(@)`),
	regexp.MustCompile(`(?i)([?&][^=&\s"']*(?:sig|signature|key|` + words + `)[^=&\s"']*=)[^&\s"'\\]+`), // a signed URL
	regexp.MustCompile(`(?i)((?:authorization|proxy-authorization)\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic)\s+)?)[^\s"'\\,]+`),
	regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]+`),
	// a JSON web token
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
	// NAME=VALUE
	regexp.MustCompile(`(?i)([A-Za-z0-9_.-]*` + words + `[A-Za-z0-9_.-]*\\?["']?\s*=\s*)(?:"[^"]*"|'[^']*'|[^\s"',;&]+)`),
	// JSON
	regexp.MustCompile(`(?i)(\\?["'][A-Za-z0-9_.-]*` + words + `[A-Za-z0-9_.-]*\\?["']\s*:\s*\\?["'])[^"'\\]+`),
	// --NAME VALUE
	regexp.MustCompile(`(?i)((?:^|\s)--?[a-z0-9-]*` + words + `[a-z0-9-]*\s+)(?:"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)`),
}

// redactText leaves out what looks like a secret within a text: a line of a log, an argument, a message.
func redactText(text string) string {
	for _, leak := range leaks {
		text = leak.ReplaceAllString(text, "${1}"+redacted+"${2}")
	}
	return text
}

// redactTree removes likely secrets from decoded JSON: values by the names of their fields, arguments by the flags
// before them, and parts of texts. It returns the rest.
func redactTree(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if text, ok := member.(string); ok && text != "" && secret.MatchString(key) && key != "secretName" {
				v[key] = redacted
				continue
			}
			v[key] = redactTree(member)
		}
	case []any:
		for i, element := range v {
			flag := ""
			if i > 0 {
				flag, _ = v[i-1].(string)
			}
			if _, ok := element.(string); ok && strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") &&
				secret.MatchString(flag) {
				v[i] = redacted
				continue
			}
			v[i] = redactTree(element)
		}
	case string:
		return redactText(v)
	}
	return value
}

// redactObject removes values that are or may be secrets, whatever their form: signed URLs, and the values of variables
// and headers.
func redactObject(object any) {
	if o, ok := object.(*velerov1.DownloadRequest); ok && o.Status.DownloadURL != "" {
		o.Status.DownloadURL = redacted
	}
}

// redactPod leaves the values of variables, and of the headers of probes, out of the containers of a pod.
func redactPod(spec *corev1.PodSpec) {
	// which share their variables
	containers := append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...)
	for i := range spec.EphemeralContainers {
		containers = append(containers, corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for i := range containers {
		c := &containers[i]
		for v := range c.Env {
			if c.Env[v].Value != "" {
				c.Env[v].Value = redacted
			}
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if probe != nil {
				redactHeaders(probe.HTTPGet)
			}
		}
		if c.Lifecycle != nil {
			for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
				if handler != nil {
					redactHeaders(handler.HTTPGet)
				}
			}
		}
	}
}

func redactHeaders(get *corev1.HTTPGetAction) {
	if get == nil {
		return
	}
	for i := range get.HTTPHeaders {
		get.HTTPHeaders[i].Value = redacted
	}
}
