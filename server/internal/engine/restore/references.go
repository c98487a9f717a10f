package restore

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxReferencesReported is the maximum number of objects of which a restore reports that they refer to namespaces that
// it maps. The others are counted.
const maxReferencesReported = 100

// namespaceRef is a field of an object that names a namespace.
type namespaceRef struct{ path, namespace string }

// reportReferences warns if a restored object still refers to a namespace that the restore maps to another one. Actions
// map the references that they know; what they have changed is no longer as in the backup.
func (r *itemRun) reportReferences() {
	mapping := r.engine.restore.Spec.NamespaceMapping
	if len(mapping) == 0 || r.tried {
		return
	}
	isMapped := func(namespace string) bool { to, ok := mapping[namespace]; return ok && to != namespace }
	left := referencesIn(r.obj.Encode("managedFields"), isMapped)
	if len(left) == 0 {
		return
	}
	archived := referencesIn(r.raw, isMapped)
	left = slices.DeleteFunc(left, func(ref namespaceRef) bool { return !slices.Contains(archived, ref) })
	if len(left) == 0 {
		return
	}
	var fields []string
	const most = 5
	for _, ref := range left[:min(most, len(left))] {
		fields = append(fields, fmt.Sprintf("%s (%s, now %s)", ref.path, ref.namespace, mapping[ref.namespace]))
	}
	if more := len(left) - most; more > 0 {
		fields = append(fields, fmt.Sprintf("%d more fields", more))
	}
	message := fmt.Sprintf("%s still refers to namespaces that namespaceMapping maps, in %s; change it if the restored "+
		"ones are meant", r.id, strings.Join(fields, ", "))
	r.finding.because(message)
	if r.engine.countReferring() {
		r.log.Warn(message)
		r.engine.results.Warning(r.namespace, message)
	}
}

// countReferring counts an object that refers to mapped namespaces, and reports whether it is to be named.
func (e *engine) countReferring() bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.referring++
	return e.state.referring <= maxReferencesReported
}

// warnOfReferences warns of the objects that were only counted.
func (e *engine) warnOfReferences() {
	if more := e.state.referring - maxReferencesReported; more > 0 {
		e.warn(fmt.Sprintf("%d more objects still refer to namespaces that namespaceMapping maps; the log and 'restore "+
			"explain' name their fields", more))
	}
}

// textReference is a namespace in a text: that of a service account as a user, of a group of them, or of the host of a
// service.
var textReference = regexp.MustCompile(`system:serviceaccounts?:([a-z0-9-]+)|[a-z0-9]\.([a-z0-9-]+)\.svc\b`)

// referencesIn returns the fields of an object that name a namespace for which isMapped returns true: fields for the
// names of namespaces, and texts with the host of a service or the name of an account.
func referencesIn(raw []byte, isMapped func(string) bool) []namespaceRef {
	f := &referenceFinder{in: jsontext.NewDecoder(bytes.NewReader(raw)), isMapped: isMapped}
	if f.value("", "") != nil {
		return nil // another reader has reported it
	}
	return f.found
}

type referenceFinder struct {
	in       *jsontext.Decoder
	isMapped func(string) bool
	found    []namespaceRef
}

// skips reports whether a field says nothing about others: the namespace of the object itself, and what others note
// about the whole object.
func skips(path string) bool {
	switch path {
	case "metadata.namespace", "metadata.managedFields", "status":
		return true
	}
	key, isAnnotation := strings.CutPrefix(path, "metadata.annotations.")
	return isAnnotation && (strings.HasSuffix(key, "/last-applied-configuration") ||
		strings.HasPrefix(key, "velero.io/") ||
		strings.HasPrefix(key, "cleat.dev/"))
}

// isOfNamespaces reports whether the value of a field is the name of a namespace, or a list of names.
func isOfNamespaces(key string) bool {
	key = strings.ToLower(key)
	return strings.HasSuffix(key, "namespace") || strings.HasSuffix(key, "namespaces") || key == "matchnames" ||
		key == "kubernetes.io/metadata.name"
}

// value reads a value at a path. key is the name of the field that has it, also through a list.
func (f *referenceFinder) value(path, key string) error {
	switch f.in.PeekKind() {
	case '{':
		return f.object(path)
	case '[':
		return f.list(path, key)
	case '"':
		token, err := f.in.ReadToken()
		if err == nil {
			f.text(path, key, token.String())
		}
		return err
	}
	return f.in.SkipValue()
}

func (f *referenceFinder) object(path string) error {
	if _, err := f.in.ReadToken(); err != nil {
		return err
	}
	for f.in.PeekKind() != '}' {
		token, err := f.in.ReadToken()
		if err != nil {
			return err
		}
		key := token.String()
		at := strings.TrimPrefix(path+"."+key, ".")
		if skips(at) {
			err = f.in.SkipValue()
		} else {
			err = f.value(at, key)
		}
		if err != nil {
			return err
		}
	}
	_, err := f.in.ReadToken()
	return err
}

func (f *referenceFinder) list(path, key string) error {
	if _, err := f.in.ReadToken(); err != nil {
		return err
	}
	for i := 0; f.in.PeekKind() != ']'; i++ {
		if err := f.value(path+"["+strconv.Itoa(i)+"]", key); err != nil {
			return err
		}
	}
	_, err := f.in.ReadToken()
	return err
}

// text adds the namespaces that a text names.
func (f *referenceFinder) text(path, key, text string) {
	if isOfNamespaces(key) && f.isMapped(text) {
		f.found = append(f.found, namespaceRef{path, text})
		return
	}
	if !strings.Contains(text, ".svc") && !strings.Contains(text, "system:serviceaccount") {
		return
	}
	for _, match := range textReference.FindAllStringSubmatch(text, -1) {
		ref := namespaceRef{path, match[1] + match[2]}
		if f.isMapped(ref.namespace) && !slices.Contains(f.found, ref) {
			f.found = append(f.found, ref)
		}
	}
}
