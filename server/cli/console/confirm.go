package console

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/schedule"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
)

// confirmation is a page that asks before something is done.
type confirmation struct {
	Object   string   `json:"object"`
	UID      string   `json:"uid"`
	Verb     string   `json:"verb"`
	Follows  string   `json:"follows"`           // a sentence
	Gone     []string `json:"gone,omitempty"`    // what will be gone
	Refused  string   `json:"refused,omitempty"` // why it cannot be done
	Command  string   `json:"command"`           // that does the same
	Problems []string `json:"problems,omitempty"`

	Back string `json:"-"`
}

// refuse notes why something cannot be done, unless err is nil.
func (c *confirmation) refuse(err error) {
	if err != nil && c.Refused == "" {
		c.Refused = err.Error()
	}
}

// sameObject returns an error if o is not the object for which somebody has confirmed.
func sameObject(l *console.Look, o object) error {
	if uid := l.Request.PostFormValue("uid"); uid != string(o.GetUID()) {
		return console.Wrong{Text: fmt.Sprintf("%s was deleted and created again since you have looked: look again",
			o.GetName())}
	}
	return nil
}

// cancelPage returns the page that cancels the runs that make returns, with their states.
func cancelPage(kinds, kind string, make func() (*runs.Object, func() status.Run)) console.Page {
	return console.Page{Path: "/" + kinds + "/{name}/cancel", Title: "Cancel " + kind + " {name}",
		Template: "confirm.html", Still: true,
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			o, state := make()
			name := l.Request.PathValue("name")
			if err := get(ctx, clusterOf(l), kind, name, o.Object); err != nil {
				return nil, err
			}
			follows, err := state().Cancellation()
			doc := &confirmation{Object: name, UID: string(o.GetUID()), Verb: "Cancel", Back: pathOf(kinds, name),
				Follows: follows + ". This cannot be taken back.", Command: "cleat " + kind + " cancel " + name}
			doc.refuse(err)
			doc.refuse(l.Viewer.May(ctx, "patch", group, kinds, name))
			return doc, nil
		},
		Act: func(ctx context.Context, l *console.Look) (string, error) {
			o, _ := make()
			name := l.Request.PathValue("name")
			err := get(ctx, clusterOf(l), kind, name, o.Object)
			if err == nil {
				err = sameObject(l, o)
			}
			if err == nil {
				_, err = runs.Cancel(ctx, clusterOf(l), o)
			}
			return pathOf(kinds, name), err
		}}
}

// deletePage returns the page that deletes objects. follows is a sentence.
func deletePage(kinds, kind string, newObject func() object, follows string) console.Page {
	return console.Page{Path: "/" + kinds + "/{name}/delete", Title: "Delete " + kind + " {name}",
		Template: "confirm.html", Still: true,
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			o, name := newObject(), l.Request.PathValue("name")
			if err := get(ctx, clusterOf(l), kind, name, o); err != nil {
				return nil, err
			}
			doc := &confirmation{Object: name, UID: string(o.GetUID()), Verb: "Delete", Back: pathOf(kinds, name),
				Follows: follows, Gone: []string{kind + " " + name}, Command: "cleat " + kind + " delete " + name}
			doc.refuse(l.Viewer.May(ctx, "delete", group, kinds, name))
			return doc, nil
		},
		Act: func(ctx context.Context, l *console.Look) (string, error) {
			o, cluster := newObject(), clusterOf(l)
			err := get(ctx, cluster, kind, l.Request.PathValue("name"), o)
			if err == nil {
				err = sameObject(l, o)
			}
			if err == nil {
				uid := o.GetUID()
				err = cluster.Delete(ctx, o, client.Preconditions{UID: &uid})
			}
			return "/" + kinds, err
		}}
}

// pausePage returns the page that pauses a schedule, or has it go on.
func pausePage() console.Page {
	read := func(ctx context.Context, l *console.Look) (*velerov1.Schedule, error) {
		var s velerov1.Schedule
		err := get(ctx, clusterOf(l), "schedule", l.Request.PathValue("name"), &s)
		return &s, err
	}
	return console.Page{Path: "/schedules/{name}/pause", Title: "Pause or resume schedule {name}",
		Template: "confirm.html", Still: true,
		Document: func(ctx context.Context, l *console.Look) (any, error) {
			s, err := read(ctx, l)
			if err != nil {
				return nil, err
			}
			doc := &confirmation{Object: s.Name, UID: string(s.UID), Verb: "Pause", Back: pathOf("schedules", s.Name),
				Follows: "it makes no backups until it is resumed. Backups that it has made stay.",
				Command: "cleat schedule pause " + s.Name}
			if s.Spec.Paused {
				doc.Verb, doc.Command = "Resume", "cleat schedule unpause "+s.Name
				doc.Follows = "it makes backups again; one that is due at once is made, unless the setting of the server says " +
					"otherwise."
			}
			doc.refuse(l.Viewer.May(ctx, "patch", group, "schedules", s.Name))
			return doc, nil
		},
		Act: func(ctx context.Context, l *console.Look) (string, error) {
			s, err := read(ctx, l)
			if err == nil {
				err = sameObject(l, s)
			}
			verb := l.Request.PostFormValue("verb")
			if err == nil && verb != "Pause" && verb != "Resume" {
				err = console.Wrong{Text: "the form says neither Pause nor Resume"}
			}
			if err == nil {
				err = schedule.Pause(ctx, clusterOf(l), s, verb == "Pause", nil)
			}
			return pathOf("schedules", l.Request.PathValue("name")), err
		}}
}
