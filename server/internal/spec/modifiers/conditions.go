package modifiers

import (
	"errors"
	"fmt"
	"regexp"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/gobwas/glob"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// Item identifies an object to be restored.
type Item struct {
	GroupResource schema.GroupResource
	Namespace     string // in the backup; empty for cluster-scoped objects
	Name          string
	Labels        map[string]string
}

// conditions select the objects that a rule applies to.
type conditions struct {
	namespaces    filter.Names
	groupResource *glob.Pattern
	resource      string // the text of groupResource
	name          *regexp.Regexp
	labels        labels.Selector
	matches       jsonpatch.Patch // tests; empty if there are none
}

// newConditions compiles conditions. Its errors begin with the name of the field.
func newConditions(d conditionsDocument) (c conditions, err error) {
	if d.GroupResource == "" {
		return c, errors.New("groupResource: it is missing, want a resource such as pods or deployments.apps, or a glob " +
			"such as *.apps")
	}
	if c.groupResource, err = glob.Compile(d.GroupResource, '.'); err != nil {
		return c, fmt.Errorf("groupResource: %q is not a glob: %w", d.GroupResource, err)
	}
	c.resource = d.GroupResource
	if c.namespaces, err = filter.NewNames(d.Namespaces, nil); err != nil {
		return c, fmt.Errorf("namespaces: %w", err)
	}
	if c.name, err = regexp.Compile(d.ResourceNameRegex); err != nil {
		return c, fmt.Errorf("resourceNameRegex: %q is not a regular expression: %w", d.ResourceNameRegex, err)
	}
	c.labels = labels.Everything()
	if d.LabelSelector != nil {
		if c.labels, err = metav1.LabelSelectorAsSelector(d.LabelSelector); err != nil {
			return c, fmt.Errorf("labelSelector: %w", err)
		}
	}
	var tests []operation
	for i, m := range d.Matches {
		test := operation{Operation: opTest, Path: m.Path, Value: m.Value}
		if err := test.check(); err != nil {
			return c, fmt.Errorf("matches[%d].%w", i, err)
		}
		tests = append(tests, test)
	}
	if len(tests) > 0 {
		if c.matches, err = newOperations(tests); err != nil {
			return c, fmt.Errorf("matches: %w", err)
		}
	}
	return c, nil
}

// selects reports whether the conditions other than matches hold for the item.
func (c *conditions) selects(item Item) bool {
	return (item.Namespace == "" || c.namespaces.Match(item.Namespace)) &&
		c.groupResource.Match(item.GroupResource.String()) &&
		c.name.MatchString(item.Name) &&
		c.labels.Matches(labels.Set(item.Labels))
}

// matchFields reports whether the fields of the object have the values in matches. A missing field equals only null.
func (c *conditions) matchFields(object []byte) (bool, error) {
	if len(c.matches) == 0 {
		return true, nil
	}
	_, err := applyOperations(c.matches, object)
	for _, differs := range []error{jsonpatch.ErrTestFailed, jsonpatch.ErrMissing, jsonpatch.ErrInvalidIndex} {
		if errors.Is(err, differs) {
			return false, nil
		}
	}
	return err == nil, err
}
