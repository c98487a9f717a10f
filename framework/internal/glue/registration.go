package glue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A Registration declares one part of a plugin: an implementation under a name, or the plugin's version.
type Registration struct {
	kind  string // on the wire; empty for a version
	name  string
	addTo func(*catalog) error
}

// Kind returns the kind's name on the wire, "BackupItemAction"; empty for a registration that is not an implementation.
func (r Registration) Kind() string { return r.kind }

// Name returns the implementation's name, "example.io/stamp"; empty for a registration that is not an implementation.
func (r Registration) Name() string { return r.name }

// Constructor creates an implementation of a kind, whose Go interface is H.
type Constructor[H any] func(ctx context.Context, setup *Setup) (H, error)

// Option modifies the registration of an implementation.
type Option func(*details)

// details holds what options set.
type details struct {
	config    *ConfigType
	adapterOf string
	objects   []string
	roles     []Role

	operationTimeout, stallTimeout *time.Duration
}

// WithConfig declares the configuration of an implementation.
func WithConfig(config *ConfigType) Option { return func(d *details) { d.config = config } }

// AdapterOf declares that an implementation adapts the one of the same name and another kind.
func AdapterOf(kind string) Option { return func(d *details) { d.adapterOf = kind } }

// Objects declares the resources whose objects a manifest writer gets.
func Objects(resources []string) Option { return func(d *details) { d.objects = resources } }

// OperationTimeout declares how long an operation of an action may take.
func OperationTimeout(longest time.Duration) Option {
	return func(d *details) { d.operationTimeout = &longest }
}

// StallTimeout declares how long an operation of an action may go on without progress.
func StallTimeout(longest time.Duration) Option {
	return func(d *details) { d.stallTimeout = &longest }
}

// shortestLimit is the shortest time that an author may declare for operations. Hosts look at them every few seconds.
const shortestLimit = time.Second

// checkLimits returns an error if the declared times of operations make no sense. starts is set for kinds that start
// operations.
func (d *details) checkLimits(starts bool) error {
	for name, limit := range map[string]*time.Duration{"WithOperationTimeout": d.operationTimeout,
		"WithStallTimeout": d.stallTimeout} {
		switch {
		case limit == nil:
		case !starts:
			return fmt.Errorf("%s is for kinds that start operations, which this one does not", name)
		case *limit < shortestLimit:
			return fmt.Errorf("%s(%s): want at least %s", name, *limit, shortestLimit)
		}
	}
	if d.operationTimeout != nil && d.stallTimeout != nil && *d.stallTimeout >= *d.operationTimeout {
		return fmt.Errorf("WithStallTimeout(%s): want less than the %s of WithOperationTimeout", *d.stallTimeout,
			*d.operationTimeout)
	}
	return nil
}

// checkObjects returns an error if the declared resources are not names of resources.
func checkObjects(resources []string) error {
	for _, resource := range resources {
		if resource != "*" && !resourceName.MatchString(resource) {
			return fmt.Errorf("%q is not a resource; want its plural name and group, such as pods or deployments.apps, or * "+
				"for all", resource)
		}
	}
	return nil
}

var resourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)*$`)

// NewRegistration returns the Registration of an implementation of kind. construct is called when a call needs the
// implementation.
func NewRegistration[H any](kind Kind[H], name string, construct Constructor[H], options ...Option) Registration {
	var d details
	for _, option := range options {
		option(&d)
	}
	return Registration{kind: kind.Wire, name: name, addTo: func(c *catalog) error {
		if err := ValidateName(name); err != nil {
			return err
		}
		if construct == nil {
			return errors.New("the constructor is nil")
		}
		if err := checkObjects(d.objects); err != nil {
			return err
		}
		if err := d.checkRoles(kind.Wire); err != nil {
			return err
		}
		if err := d.checkLimits(kind.Operations); err != nil {
			return err
		}
		if d.config != nil && d.config.err != nil {
			return d.config.err
		}
		known, ok := c.services[kind.Wire]
		if !ok {
			known = &kindService[H]{kind: kind, handlers: newHandlers(kind)}
			c.services[kind.Wire] = known
		}
		service, ok := known.(*kindService[H])
		if !ok {
			return fmt.Errorf("kind is registered with two different Go interfaces, %T and %T", known, service)
		}
		if err := service.handlers.add(name, construct, d.config, c.env); err != nil {
			return err
		}
		c.served = append(c.served, served{wire: kind.Wire, name: name, details: d})
		return nil
	}}
}

// Version returns the Registration of the plugin's own version.
func Version(version string) Registration {
	return Registration{addTo: func(c *catalog) error {
		if c.version != "" {
			return fmt.Errorf("the plugin's version is set twice, to %q and to %q", c.version, version)
		}
		c.version = version
		return nil
	}}
}

// ProcessPerRun returns the Registration of a plugin whose process serves one run.
func ProcessPerRun() Registration {
	return Registration{addTo: func(c *catalog) error {
		c.perRun = true
		return nil
	}}
}

// Environment describes the host to a process.
type Environment struct {
	// Log is the process's logger.
	Log hclog.Logger
	// Features are the host's feature flags.
	Features []string
	// StateDir is the directory in which implementations keep their state; empty for the default.
	StateDir string
}

// catalog holds everything that a process serves, by kind.
type catalog struct {
	env      Environment
	version  string // as the author set it
	perRun   bool   // the process serves one run
	services map[string]service
	served   []served
}

// served is one implementation in a catalog.
type served struct {
	wire    string
	name    string
	details details
}

// newCatalog groups regs by kind. Its error names all invalid registrations.
func newCatalog(env Environment, regs []Registration) (*catalog, error) {
	c := &catalog{env: env, services: map[string]service{}}
	var problems []error
	for _, reg := range regs {
		if reg.addTo == nil {
			problems = append(problems, errors.New("a registration is empty; Register returns one"))
			continue
		}
		err := reg.addTo(c)
		if err != nil && reg.kind != "" {
			err = fmt.Errorf("register %s %q: %w", reg.kind, reg.name, err)
		}
		problems = append(problems, err)
	}
	for _, s := range c.served {
		if s.details.adapterOf != "" && !c.serves(s.details.adapterOf, s.name) {
			problems = append(problems, fmt.Errorf("register %s %q: it adapts %s %q, which is not registered; register both",
				s.wire, s.name, s.details.adapterOf, s.name))
		}
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

// serves reports whether the catalog has an implementation of the kind in any version.
func (c *catalog) serves(kind, name string) bool {
	for _, s := range c.served {
		if known, _ := SplitWireKind(s.wire); known == kind && s.name == name {
			return true
		}
	}
	return false
}
