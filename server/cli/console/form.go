package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	// mostEntered is how long the fields of a form may be together, in bytes: they are in addresses.
	mostEntered = 32 << 10
	// longestName leaves room for the name of the dry run.
	longestName = validation.DNS1123SubdomainMaxLength - 24
)

// form creates backups or restores. Its fields are the flags of the command that does the same, and what is entered is
// in the address of the page. So a link fills it in, and an error leaves it as it is.
type form struct {
	kind     string // "restore"
	sections []section
	watched  console.Kind // what is created
	path     func(*console.Look) string
	// make returns a new object, and its state.
	make func() (*runs.Object, func() status.Run)
	// flags returns new flags, and what makes the object that they describe.
	flags func(*console.Look) (*pflag.FlagSet, func(ctx context.Context, name string) (*runs.Object, error))
	// check finds what is wrong with an object, by its fields.
	check func(context.Context, *console.Look, *entered)
	// fill adds the result of a dry run to its page.
	fill func(context.Context, *console.Look, *dryRunDocument, *entered, *runs.Object) error
	// command returns the command that does the same, without its flags.
	command func(l *console.Look, name string) string
}

// section is a part of a form.
type section struct {
	Legend string
	Fields []field
	More   bool // it is folded
}

// field is a field of a form, with the name of the flag.
type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Error string `json:"error,omitempty"` // what is wrong, and what would be right

	Label   string   `json:"-"`
	Hint    string   `json:"-"`
	Choices []choice `json:"-"` // empty for a text
}

type choice struct{ Value, Text string }

// formDocument is a form as its page shows it.
type formDocument struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`             // RestoreForm or BackupForm
	Backup     string   `json:"backup,omitempty"` // to restore from
	Fields     []field  `json:"fields"`
	Command    string   `json:"command"`           // that does the same
	Refused    string   `json:"refused,omitempty"` // why it cannot be done
	Problems   []string `json:"problems,omitempty"`
	Notes      []string `json:"notes,omitempty"`

	Sections []section `json:"-"`
	Wrong    []field   `json:"-"`
	What     string    `json:"-"` // is created
	Once     string    `json:"-"`
	Here     string    `json:"-"`
	Back     string    `json:"-"`
}

// refuse notes why nothing can be created, unless err is nil.
func (d *formDocument) refuse(err error) {
	if err != nil && d.Refused == "" {
		d.Refused = err.Error()
	}
}

// document returns the form with what the address of the page has. name is the name of what is created, unless the
// address has one. Parameters in besides are no fields.
func (f *form) document(ctx context.Context, l *console.Look, name string, besides ...string) (*formDocument, error) {
	values := l.Request.URL.Query()
	for _, key := range besides {
		values.Del(key)
	}
	given := len(values) > 0
	if values.Get("name") == "" {
		values.Set("name", name)
	}
	e, err := f.read(ctx, l, values)
	if err != nil {
		return nil, err
	}
	doc := &formDocument{APIVersion: status.APIVersion, Kind: status.Run{Kind: f.kind}.Title() + "Form",
		What: f.kind, Here: e.path, Once: newOnce(), Command: e.command(l)}
	doc.refuse(l.May(ctx, "create", group, f.kind+"s", ""))
	if given && doc.Refused == "" {
		if err := e.confirm(ctx, l); err != nil {
			return nil, err
		}
	}
	doc.Problems = e.problems
	set, _ := f.flags(l)
	set.String("name", "", "that no other "+f.kind+" has")
	for _, s := range f.sections {
		s.Fields = slices.Clone(s.Fields)
		for i := range s.Fields {
			one := &s.Fields[i]
			flag := set.Lookup(one.Name)
			one.Value, one.Error, one.Hint = e.values.Get(one.Name), e.wrong[one.Name], flag.Usage
			one.choose(flag.Value.Type())
			doc.Fields = append(doc.Fields, *one)
			if one.Error != "" {
				doc.Wrong = append(doc.Wrong, *one)
			}
		}
		doc.Sections = append(doc.Sections, s)
	}
	return doc, nil
}

// choose offers the values of a flag that has few. A value that is none of them is offered too, beside its error.
func (f *field) choose(kind string) {
	switch kind {
	case "bool":
		f.Choices = []choice{{"", "no"}, {"true", "yes"}}
	case "true|false":
		f.Choices = []choice{{"", "the default"}, {"true", "yes"}, {"false", "no"}}
	}
	known := func(c choice) bool { return c.Value == f.Value }
	if len(f.Choices) > 0 && !slices.ContainsFunc(f.Choices, known) {
		f.Choices = append(slices.Clone(f.Choices), choice{f.Value, f.Value})
	}
}

// offer has a field of a form choose between names, if there are some.
func (d *formDocument) offer(name, without string, names []string) {
	if len(names) == 0 {
		return
	}
	for _, s := range d.Sections {
		for i := range s.Fields {
			if one := &s.Fields[i]; one.Name == name {
				one.Choices = []choice{{"", without}}
				for _, offered := range names {
					one.Choices = append(one.Choices, choice{offered, offered})
				}
				one.choose("")
			}
		}
	}
}

// Open reports whether a folded section is shown.
func (s *section) Open() bool {
	return slices.ContainsFunc(s.Fields, func(f field) bool { return f.Value != "" || f.Error != "" })
}

// entered is what somebody has entered in a form.
type entered struct {
	form     *form
	path     string            // of the form
	values   url.Values        // of the fields that are not empty
	wrong    map[string]string // what is wrong with the value of a field
	problems []string          // what is wrong besides
	object   *runs.Object      // that is described; nil if that is not known
}

// read reads the fields of a form. It returns an error for what no page of the console sends.
func (f *form) read(ctx context.Context, l *console.Look, values url.Values) (*entered, error) {
	e := &entered{form: f, path: f.path(l), values: url.Values{}, wrong: map[string]string{}}
	set, build := f.flags(l)
	name := set.String("name", "", "")
	for _, key := range slices.Sorted(maps.Keys(values)) {
		flag := set.Lookup(key)
		if flag == nil || !f.has(key) {
			return nil, console.Wrong{Text: fmt.Sprintf("this form has no field %q", key)}
		}
		text, err := cleaned(flag, values[key])
		if err != nil {
			return nil, console.Wrong{Text: key + ": " + err.Error()}
		}
		if text == "" {
			continue
		}
		e.values.Set(key, text)
		if strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) {
			e.say(key, "it has characters that cannot be seen: write it again")
		} else if err := set.Set(key, text); err != nil || negative(flag, text) {
			e.say(key, wanted(flag, text, err))
		}
	}
	if most := mostEntered; len(e.values.Encode()) > most {
		return nil, console.Wrong{Text: fmt.Sprintf("the fields have more than %d KiB together: use patterns for names, or "+
			"the command", most>>10)}
	}
	e.checkName("name", *name)
	if len(*name) > longestName {
		e.say("name", fmt.Sprintf("it has %d characters: want at most %d", len(*name), longestName))
	}
	for _, key := range []string{"resource-modifier-configmap", "resource-policies-configmap", "storage-location",
		"from-schedule"} {
		if text := e.values.Get(key); text != "" {
			e.checkName(key, text)
		}
	}
	object, err := build(ctx, *name)
	if err = e.note(err); err != nil {
		return nil, err
	}
	if len(e.problems) == 0 && object != nil {
		e.object = object
		f.check(ctx, l, e)
	}
	return e, nil
}

func (f *form) has(name string) bool {
	return slices.ContainsFunc(f.sections, func(s section) bool {
		return slices.ContainsFunc(s.Fields, func(f field) bool { return f.Name == name })
	})
}

// cleaned returns the text of a field. Names in a list may have spaces and new lines between them.
func cleaned(flag *pflag.Flag, texts []string) (string, error) {
	isList := flag.Value.Type() == "stringSlice" || flag.Name == "namespace-mappings"
	var parts []string
	for _, text := range texts {
		if !isList {
			parts = append(parts, strings.TrimSpace(text))
			continue
		}
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	if !isList && len(parts) > 1 {
		return "", errors.New("it can be given once")
	}
	return strings.Join(parts, ","), nil
}

// negative reports whether a number or duration is less than zero, as none may be.
func negative(flag *pflag.Flag, text string) bool {
	return (flag.Value.Type() == "duration" || flag.Value.Type() == "int") && strings.HasPrefix(text, "-")
}

// wanted returns what is wrong with the value of a flag, and what would be right.
func wanted(flag *pflag.Flag, text string, err error) string {
	want := ""
	switch flag.Value.Type() {
	case "duration":
		want = "a duration such as 90m or 720h"
	case "int":
		want = "a number from 0"
	case "bool", "true|false":
		want = "true or false"
	case "stringToString":
		want = "KEY=VALUE, with commas between several"
	case "stringSlice":
		want = "names with commas between them, and no quotes"
	default:
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return err.Error()
	}
	return fmt.Sprintf("%q: want %s", text, want)
}

// say notes what is wrong with the value of a field. The first of several is said.
func (e *entered) say(field string, texts ...string) {
	if len(texts) > 0 && e.wrong[field] == "" {
		e.wrong[field] = texts[0]
	}
}

func (e *entered) checkName(field, text string) {
	if wrong := validation.IsDNS1123Subdomain(text); len(wrong) > 0 {
		e.say(field, fmt.Sprintf("%q is no name: want lower case letters, digits, %q and %q, with a letter or digit at "+
			"both ends", text, "-", "."))
	}
}

// isWrong reports whether nothing can be created.
func (e *entered) isWrong() bool { return len(e.wrong)+len(e.problems) > 0 }

// note notes what an error says about what is entered. It returns other errors.
func (e *entered) note(err error) error {
	var flag *command.FlagError
	var state apierrors.APIStatus
	switch {
	case errors.As(err, &flag):
		e.say(flag.Flag, flag.Err.Error())
	case apierrors.IsAlreadyExists(err):
		e.say("name", fmt.Sprintf("a %s named %s exists: choose another name", e.form.kind, e.values.Get("name")))
	case apierrors.IsInvalid(err) && errors.As(err, &state) && state.Status().Details != nil &&
		len(state.Status().Details.Causes) > 0:
		for _, cause := range state.Status().Details.Causes {
			_, field, _ := strings.Cut(cause.Field, "metadata.")
			if e.form.has(field) {
				e.say(field, cause.Message)
				continue
			}
			e.problems = append(e.problems, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
		}
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err): // by a webhook or a policy
		e.problems = append(e.problems, layout.OneLine(err.Error()))
	default:
		return err
	}
	return nil
}

// confirm has the API server check the object, without creating it.
func (e *entered) confirm(ctx context.Context, l *console.Look) error {
	if e.isWrong() {
		return nil
	}
	copied, _ := e.object.DeepCopyObject().(client.Object)
	return e.note(l.Create(ctx, copied, client.DryRunAll))
}

// link returns the address of a page below the form with what is entered, and with more parameters: pairs of a name and
// a text.
func (e *entered) link(below string, pairs ...string) string {
	values := maps.Clone(e.values)
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return e.path + below + "?" + values.Encode()
}

// command returns the command that does the same.
func (e *entered) command(l *console.Look) string {
	parts := []string{e.form.command(l, e.values.Get("name"))}
	for _, key := range slices.Sorted(maps.Keys(e.values)) {
		if key != "name" {
			parts = append(parts, "--"+key+"="+quoted(e.values.Get(key)))
		}
	}
	return strings.Join(parts, " ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./:,=@%+-]+$`)

// quoted returns a text as a shell takes it.
func quoted(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// once is what a form has that was shown once, however often it is sent.
var once = regexp.MustCompile(`^[0-9a-f]{16}$`)

func newOnce() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// ticket identifies a form that was shown once, with what was entered.
func (e *entered) ticket(once string) string {
	sum := sha256.Sum256([]byte(once + " " + e.link("")))
	return hex.EncodeToString(sum[:6])
}

// dryRunName returns the name of the dry run of a form that was shown once.
func (e *entered) dryRunName(once string) string {
	return runs.DryRunName(e.values.Get("name")) + "-" + e.ticket(once)
}

// act does what a button of the form, or of the page of its dry run, is for.
func (f *form) act(ctx context.Context, l *console.Look) (next string, err error) {
	values := maps.Clone(l.Request.PostForm)
	shown, do := values.Get("once"), values.Get("do")
	for _, key := range []string{"token", "tab", "once", "do"} {
		values.Del(key)
	}
	if !once.MatchString(shown) {
		return "", console.Wrong{Text: "this form is not complete: load it again"}
	}
	if err := l.May(ctx, "create", group, f.kind+"s", ""); err != nil {
		return "", err
	}
	e, err := f.read(ctx, l, values)
	if err != nil {
		return "", err
	}
	switch do {
	case "dry-run":
		return e.beginDryRun(ctx, l, shown)
	case "start":
		return e.start(ctx, l, e.object, e.ticket(shown))
	case "accept":
		return e.accept(ctx, l, shown)
	case "stop":
		return e.stopDryRun(ctx, l, shown)
	default:
		return "", console.Wrong{Text: "the form does not say what to do: load it again"}
	}
}

// start creates an object, and returns the path of its page. A form that is sent again, with the same ticket, leads
// there too.
func (e *entered) start(ctx context.Context, l *console.Look, o *runs.Object, ticket string) (next string, err error) {
	if e.isWrong() {
		return e.link(""), nil
	}
	page := pathOf(e.form.kind+"s", o.GetName())
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[velerov1.RequestAnnotation] = ticket
	o.SetAnnotations(annotations)
	created, _ := o.DeepCopyObject().(client.Object)
	err = l.Create(ctx, created)
	if apierrors.IsAlreadyExists(err) {
		before, _ := e.form.make()
		if failed := l.Get(ctx, client.ObjectKeyFromObject(o), before.Object); failed != nil {
			return "", failed
		}
		if before.GetAnnotations()[velerov1.RequestAnnotation] == ticket {
			return page, nil
		}
	}
	if err == nil {
		return page, nil
	}
	if other := e.note(err); other != nil {
		return "", fmt.Errorf("create the %s: %w", e.form.kind, other)
	}
	return e.link(""), nil
}
