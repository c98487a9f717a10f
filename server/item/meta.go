package item

import "fmt"

// Meta is what the server knows of an object without decoding it. Fields that the object lacks are
// zero: it is for the caller to decide whether e.g. a missing name is an error.
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

// Deleting says whether the object is being deleted.
func (m Meta) Deleting() bool { return m.DeletionTimestamp != "" }

// ParseMeta reads the metadata of one object in JSON. It walks over the whole text once and checks
// its syntax. An error tells the offset in bytes; it comes when the text is not one JSON object, or
// when a field is of the wrong type.
func ParseMeta(raw []byte) (Meta, error) {
	var m Meta
	s := &scanner{data: raw}
	err := s.object(1, func(key []byte) error {
		switch string(key) {
		case "apiVersion":
			return s.set(&m.APIVersion, "apiVersion")
		case "kind":
			return s.set(&m.Kind, "kind")
		case "metadata":
			if isNull, err := s.null(); isNull || err != nil {
				return err
			}
			return s.object(2, func(key []byte) error { return s.metadata(&m, key) })
		}
		return s.skip(2)
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return Meta{}, err
	}
	return m, nil
}

func (s *scanner) metadata(m *Meta, key []byte) (err error) {
	switch string(key) {
	case "name":
		return s.set(&m.Name, "metadata.name")
	case "generateName":
		return s.set(&m.GenerateName, "metadata.generateName")
	case "namespace":
		return s.set(&m.Namespace, "metadata.namespace")
	case "uid":
		return s.set(&m.UID, "metadata.uid")
	case "resourceVersion":
		return s.set(&m.ResourceVersion, "metadata.resourceVersion")
	case "deletionTimestamp":
		return s.set(&m.DeletionTimestamp, "metadata.deletionTimestamp")
	case "labels":
		if m.Labels, err = s.stringMap(3); err != nil {
			return fmt.Errorf("metadata.labels: %w", err)
		}
	case "annotations":
		if m.Annotations, err = s.stringMap(3); err != nil {
			return fmt.Errorf("metadata.annotations: %w", err)
		}
	case "ownerReferences":
		if m.OwnerReferences, err = s.owners(); err != nil {
			return fmt.Errorf("metadata.ownerReferences: %w", err)
		}
	default:
		return s.skip(3)
	}
	return nil
}

func (s *scanner) owners() ([]OwnerReference, error) {
	if isNull, err := s.null(); isNull || err != nil {
		return nil, err
	}
	var owners []OwnerReference
	err := s.array(3, func() error {
		var o OwnerReference
		err := s.object(4, func(key []byte) error {
			switch string(key) {
			case "apiVersion":
				return s.set(&o.APIVersion, "apiVersion")
			case "kind":
				return s.set(&o.Kind, "kind")
			case "name":
				return s.set(&o.Name, "name")
			case "uid":
				return s.set(&o.UID, "uid")
			case "controller":
				o.Controller = s.peek() == 't'
			}
			return s.skip(5)
		})
		owners = append(owners, o)
		return err
	})
	return owners, err
}

func (s *scanner) set(field *string, name string) (err error) {
	if *field, err = s.str(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
