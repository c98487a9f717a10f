package restores

import (
	"sync"

	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/engine/restore"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Accounts holds the accounts of the restores, dry runs included, that are at work in this process. The zero value is
// ready for use, and so is nil, which holds none.
type Accounts struct {
	mu     sync.Mutex
	byName map[string]*restore.Account
}

// add adds the account of a restore. It returns a function that removes it.
func (a *Accounts) add(restoreName string, account *restore.Account) (remove func()) {
	if a == nil {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byName == nil {
		a.byName = map[string]*restore.Account{}
	}
	a.byName[restoreName] = account
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.byName, restoreName)
	}
}

// Report answers a question about a restore that is at work. It returns nil for another restore.
func (a *Accounts) Report(question serverreport.RestoreQuestion) (*serverreport.Restoring, error) {
	a.mu.Lock()
	account := a.byName[question.Restore]
	a.mu.Unlock()
	if account == nil {
		return nil, nil
	}
	report := &serverreport.Restoring{Restore: question.Restore, Plan: account.Plan()}
	if question.Left > 0 {
		report.Items, report.More = account.Left(min(question.Left, serverreport.MaxRestoring))
	}
	if question.Item == "" {
		return report, nil
	}
	name, err := itemname.Parse(question.Item)
	if err != nil {
		return nil, err
	}
	report.Items, err = account.Find(func(i *outcome.Item) bool {
		return i.Matches(name) || i.Covers(name)
	}, serverreport.MaxFound)
	return report, err
}
