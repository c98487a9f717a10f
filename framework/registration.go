package framework

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
)

// A Registration is something that a process says of itself: an implementation under a name, which the Register
// function of a kind's package makes, or what WithVersion makes. Serve and RegisterAll take it.
type Registration interface {
	// Kind is the kind's name on the wire, "BackupItemAction"; empty when it is no implementation.
	Kind() string
	// Name is the plugin's name, "example.io/stamp"; empty when it is no implementation.
	Name() string
	// addTo is what keeps a registration typed: each adds itself to the service of its kind.
	addTo(catalog *catalog) error
}

// Register makes the Registration of an implementation of kind. newHandler is called at most once at a time
// and not before the first call for name; what it returns serves all later calls of the process, which come
// concurrently. When it fails, the call that needed it fails with its error, and the next call tries again:
// what was missing may have appeared by then.
func Register[H any](kind Kind[H], name string, newHandler func(hclog.Logger) (H, error), options ...Option) Registration {
	r := registration[H]{kind: kind, name: name, newHandler: newHandler}
	for _, option := range options {
		option(&r.details)
	}
	return r
}

type registration[H any] struct {
	kind       Kind[H]
	name       string
	newHandler func(hclog.Logger) (H, error)
	details    details
}

func (r registration[H]) Kind() string { return r.kind.Wire }
func (r registration[H]) Name() string { return r.name }

func (r registration[H]) addTo(catalog *catalog) error {
	if err := ValidateName(r.name); err != nil {
		return err
	}
	if r.newHandler == nil {
		return errors.New("the function that makes the handler is nil")
	}
	if err := r.details.check(); err != nil {
		return err
	}
	known, ok := catalog.services[r.kind.Wire]
	if !ok {
		known = &kindService[H]{kind: r.kind, handlers: newHandlers[H](r.kind.Wire)}
		catalog.services[r.kind.Wire] = known
	}
	service, ok := known.(*kindService[H])
	if !ok {
		return fmt.Errorf("kind is registered with two different Go interfaces, %T and %T", known, service)
	}
	if err := service.handlers.add(r.name, r.newHandler, catalog.log.With("plugin", r.name)); err != nil {
		return err
	}
	catalog.served = append(catalog.served, served{wire: r.kind.Wire, name: r.name, details: r.details})
	return nil
}

// WithVersion tells the host the version of the plugin, in the author's own style. Without it that is the version of
// the binary's main module, when it was built from one. It is passed to Serve along with the implementations.
func WithVersion(version string) Registration { return versionOf(version) }

type versionOf string

func (versionOf) Kind() string { return "" }
func (versionOf) Name() string { return "" }

func (v versionOf) addTo(catalog *catalog) error {
	if catalog.version != "" {
		return fmt.Errorf("the plugin's version is set twice, to %q and to %q", catalog.version, string(v))
	}
	catalog.version = string(v)
	return nil
}

// catalog is all that a process serves, by kind.
type catalog struct {
	log      hclog.Logger
	version  string // as the author set it
	services map[string]service
	served   []served
}

// served is one implementation of a catalog.
type served struct {
	wire    string
	name    string
	details details
}

// newCatalog sorts regs into kinds. It reports everything that is wrong with them at once.
func newCatalog(log hclog.Logger, regs []Registration) (*catalog, error) {
	c := &catalog{log: log, services: map[string]service{}}
	var problems []error
	for _, reg := range regs {
		err := reg.addTo(c)
		if err != nil && reg.Kind() != "" {
			err = fmt.Errorf("register %s %q: %w", reg.Kind(), reg.Name(), err)
		}
		problems = append(problems, err)
	}
	err := errors.Join(problems...)
	if err == nil && len(c.served) == 0 {
		err = errors.New("nothing is registered, so there is nothing to serve")
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
