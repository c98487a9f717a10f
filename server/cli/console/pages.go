package console

import (
	"embed"
	"io/fs"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/internal/console"
)

//go:embed templates
var embedded embed.FS

func templates() fs.FS {
	files, _ := fs.Sub(embedded, "templates") // the folder exists
	return files
}

// pages returns all pages, in the order of the navigation.
func pages(a *command.App) []console.Page {
	return []console.Page{
		overviewPage(), queuePage(&queue.Forecaster{App: a}), explainPage(),
		backupsPage(), backupPage(), backupLogPage(), cancelBackupPage(), deleteBackupPage(),
		backupFormPage(), backupDryRunPage(), restoreFormPage(), restoreDryRunPage(),
		contentsPage(), itemPage(), itemContentPage(), graphPage(), differencePage(),
		restoresPage(), restorePage(), restoreLogPage(), cancelRestorePage(), deleteRestorePage(),
		operationsPage(), loadsPage(), schedulesPage(), schedulePage(), pausePage(), locationsPage(),
		pluginsPage(), pluginPage(),
	}
}

// group is the group of the custom resources.
var group = velerov1.SchemeGroupVersion.Group
