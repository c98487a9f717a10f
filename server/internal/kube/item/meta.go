package item

// Meta has the fields that the server reads from an object without decoding the rest. Fields that the object lacks are
// zero; the caller decides whether, for example, a missing name is an error.
type Meta struct {
	APIVersion        string
	Kind              string
	Name              string
	GenerateName      string
	Namespace         string // "" for a cluster-scoped object
	UID               string
	ResourceVersion   string
	DeletionTimestamp string // RFC 3339; "" unless the object is being deleted
	Labels            map[string]string
	Annotations       map[string]string
	OwnerReferences   []OwnerReference
}

// OwnerReference names an object that owns this one, in the same namespace or cluster-scoped.
type OwnerReference struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Controller bool
}

// Deleting reports whether the object is being deleted.
func (m Meta) Deleting() bool { return m.DeletionTimestamp != "" }

// ParseMeta reads the metadata of one object in JSON and verifies the syntax of all of it. It returns an error if raw
// is not one JSON object or if a field has the wrong type. The error has the offset in bytes.
func ParseMeta(raw []byte) (Meta, error) { return parseMeta(raw, false) }

func parseMeta(raw []byte, isForeign bool) (Meta, error) {
	var m Meta
	err := decodeObject(raw, isForeign, func(d decoder, name string) error {
		switch name {
		case "apiVersion":
			return d.text(&m.APIVersion, "apiVersion")
		case "kind":
			return d.text(&m.Kind, "kind")
		case "metadata":
			if isNull, err := d.null(); isNull || err != nil {
				return err
			}
			return d.object("metadata", func(name string) error { return m.decodeField(d, name) })
		}
		return d.skip()
	})
	if err != nil {
		return Meta{}, err
	}
	return m, nil
}

// decodeField reads one field of metadata.
func (m *Meta) decodeField(d decoder, name string) error {
	switch name {
	case "name":
		return d.text(&m.Name, "metadata.name")
	case "generateName":
		return d.text(&m.GenerateName, "metadata.generateName")
	case "namespace":
		return d.text(&m.Namespace, "metadata.namespace")
	case "uid":
		return d.text(&m.UID, "metadata.uid")
	case "resourceVersion":
		return d.text(&m.ResourceVersion, "metadata.resourceVersion")
	case "deletionTimestamp":
		return d.text(&m.DeletionTimestamp, "metadata.deletionTimestamp")
	case "labels":
		return d.texts(&m.Labels, "metadata.labels")
	case "annotations":
		return d.texts(&m.Annotations, "metadata.annotations")
	case "ownerReferences":
		return m.decodeOwners(d)
	default:
		return d.skip()
	}
}

func (m *Meta) decodeOwners(d decoder) error {
	m.OwnerReferences = nil
	if isNull, err := d.null(); isNull || err != nil {
		return err
	}
	const field = "metadata.ownerReferences"
	return d.array(field, func() error {
		var o OwnerReference
		err := d.object(field, func(name string) error {
			switch name {
			case "apiVersion":
				return d.text(&o.APIVersion, field+".apiVersion")
			case "kind":
				return d.text(&o.Kind, field+".kind")
			case "name":
				return d.text(&o.Name, field+".name")
			case "uid":
				return d.text(&o.UID, field+".uid")
			case "controller":
				o.Controller = d.PeekKind() == 't'
			}
			return d.skip()
		})
		m.OwnerReferences = append(m.OwnerReferences, o)
		return err
	})
}
