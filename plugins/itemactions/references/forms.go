package references

import "strings"

// form is how a value refers to namespaces. It returns the value that refers to the mapped ones, and false if the value
// refers to none of them. It may change objects and lists.
type form func(mapping map[string]string, value any) (any, bool)

// aNamespace is the name of a namespace, or a list of names. A name that the mapping makes equal to another one of the
// list is left out.
func aNamespace(mapping map[string]string, value any) (any, bool) {
	return each(value, func(name string) (string, bool) {
		to, mapped := mapping[name]
		return to, mapped && name != ""
	})
}

// anAccount is the name of a service account as a user, or of the group of those of a namespace, or a list of them.
func anAccount(mapping map[string]string, value any) (any, bool) {
	const user, group = "system:serviceaccount:", "system:serviceaccounts:"
	return each(value, func(name string) (string, bool) {
		if namespace, is := strings.CutPrefix(name, group); is {
			to, mapped := mapping[namespace]
			return group + to, mapped
		}
		account, is := strings.CutPrefix(name, user)
		namespace, account, named := strings.Cut(account, ":")
		to, mapped := mapping[namespace]
		return user + to + ":" + account, is && named && mapped
	})
}

// aName is "namespace/name".
func aName(mapping map[string]string, value any) (any, bool) {
	return each(value, func(text string) (string, bool) {
		namespace, name, found := strings.Cut(text, "/")
		to, mapped := mapping[namespace]
		return to + "/" + name, mapped && found
	})
}

// aHost is the host of a service, "service.namespace.svc" with or without the domain of the cluster.
func aHost(mapping map[string]string, value any) (any, bool) {
	return each(value, func(host string) (string, bool) {
		labels := strings.Split(host, ".")
		if len(labels) < 3 || labels[2] != "svc" {
			return "", false
		}
		to, mapped := mapping[labels[1]]
		labels[1] = to
		return strings.Join(labels, "."), mapped
	})
}

// aSubject is a subject of a role binding.
func aSubject(mapping map[string]string, value any) (any, bool) {
	subject, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	key, by := "name", form(anAccount)
	if subject["kind"] == "ServiceAccount" {
		key, by = "namespace", aNamespace
	}
	return subject, set(mapping, subject, key, by)
}

// nameLabel is the label of each namespace with its name.
const nameLabel = "kubernetes.io/metadata.name"

// aSelector is a selector of the labels of namespaces.
func aSelector(mapping map[string]string, value any) (any, bool) {
	selector, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	changed := false
	if labels, ok := selector["matchLabels"].(map[string]any); ok {
		changed = set(mapping, labels, nameLabel, aNamespace)
	}
	expressions, _ := selector["matchExpressions"].([]any)
	for _, element := range expressions {
		if expression, ok := element.(map[string]any); ok && expression["key"] == nameLabel {
			changed = set(mapping, expression, "values", aNamespace) || changed
		}
	}
	return selector, changed
}

// set maps a field of an object, and reports whether that has changed it.
func set(mapping map[string]string, object map[string]any, key string, by form) bool {
	value, changed := by(mapping, object[key])
	if changed {
		object[key] = value
	}
	return changed
}

// each maps a text, or the texts of a list. Of equal texts in the mapped list, the first one stays.
func each(value any, to func(string) (string, bool)) (any, bool) {
	if text, ok := value.(string); ok {
		return to(text)
	}
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	changed := false
	for i, element := range list {
		text, _ := element.(string)
		if mapped, is := to(text); is {
			list[i], changed = mapped, true
		}
	}
	if !changed {
		return nil, false
	}
	return unique(list), true
}
