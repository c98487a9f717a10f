package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// perPage is the number of objects that a page lists.
const perPage = 50

// list is the document of a page of objects: what "get -o json" prints, of one page.
type list[T any] struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Items      []T            `json:"items"`
	Total      int            `json:"total"` // objects that the filter selects, on all pages
	Page       int            `json:"page"`
	Pages      int            `json:"pages"`
	Phases     map[string]int `json:"phases"` // number of objects in each phase, without the filter of phases
	Problems   []string       `json:"problems,omitempty"`

	Table          layout.Table `json:"-"`
	Search, Phase  string       `json:"-"`
	Links          []phaseLink  `json:"-"`
	Previous, Next string       `json:"-"` // links; "" if there is none
	First, Last    int          `json:"-"` // numbers of the objects shown
}

// phaseLink leads to the objects in a phase.
type phaseLink struct {
	Phase, Href string
	Count       int
	Current     bool
}

// run is a backup or a restore.
type run interface {
	object
	metav1.Object
}

// newList returns the page of objects that a request asks for: those whose name or labels contain "search" and whose
// phase is "phase".
func newList[T run](l *console.Look, objects []T, phaseOf func(T) string, err error) (*list[T], error) {
	doc := &list[T]{APIVersion: status.APIVersion, Kind: "List", Search: l.Value("search"), Phase: l.Value("phase"),
		Page: 1, Phases: map[string]int{}, Problems: problems(err)}
	if text := l.Value("page"); text != "" {
		var wrong error
		if doc.Page, wrong = strconv.Atoi(text); wrong != nil || doc.Page < 1 {
			return nil, console.Wrong{Text: fmt.Sprintf("page=%q: want a number from 1", text)}
		}
	}
	search := strings.ToLower(doc.Search)
	var selected []T
	for _, o := range objects {
		if !matches(o, search) {
			continue
		}
		phase := phaseOf(o)
		doc.Phases[phase]++
		if doc.Phase == "" || doc.Phase == phase {
			selected = append(selected, o)
		}
	}
	doc.Total = len(selected)
	doc.Pages = max(1, (doc.Total+perPage-1)/perPage)
	from := min((doc.Page-1)*perPage, doc.Total)
	doc.Items = append([]T{}, selected[from:min(from+perPage, doc.Total)]...)
	doc.First, doc.Last = from+1, from+len(doc.Items)
	link := func(phase string, page int) string {
		values := url.Values{}
		if doc.Search != "" {
			values.Set("search", doc.Search)
		}
		if phase != "" {
			values.Set("phase", phase)
		}
		if page > 1 {
			values.Set("page", strconv.Itoa(page))
		}
		return l.Request.URL.Path + "?" + values.Encode()
	}
	if doc.Page > 1 {
		doc.Previous = link(doc.Phase, min(doc.Page-1, doc.Pages))
	}
	if doc.Page < doc.Pages {
		doc.Next = link(doc.Phase, doc.Page+1)
	}
	all := 0
	for _, phase := range slices.Sorted(maps.Keys(doc.Phases)) {
		doc.Links = append(doc.Links, phaseLink{phase, link(phase, 1), doc.Phases[phase], phase == doc.Phase})
		all += doc.Phases[phase]
	}
	doc.Links = append([]phaseLink{{"all", link("", 1), all, doc.Phase == ""}}, doc.Links...)
	return doc, nil
}

// matches reports whether the name or a label of an object contains a text in lower case.
func matches(o metav1.Object, search string) bool {
	if search == "" || strings.Contains(strings.ToLower(o.GetName()), search) {
		return true
	}
	for key, value := range o.GetLabels() {
		if strings.Contains(strings.ToLower(key+"="+value), search) {
			return true
		}
	}
	return false
}
