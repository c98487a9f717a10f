package deletion

import "fmt"

// maxFailures is the number of failures whose texts are kept. A request to delete a backup has to hold them.
const maxFailures = 20

// Failures is the error of a deletion in which actions failed for items, or volumes could not be removed.
type Failures struct {
	Count int     // all of them
	First []error // the first ones, each with its item or snapshot
}

func (f *Failures) add(err error) {
	if f.Count++; len(f.First) < maxFailures {
		f.First = append(f.First, err)
	}
}

// Error implements error.
func (f *Failures) Error() string {
	return fmt.Sprintf("plugins failed in %d calls for items of the backup, the first time for %s", f.Count, f.First[0])
}

// Messages returns a line for each of the first failures, and what follows from them.
func (f *Failures) Messages() []string {
	var lines []string
	for _, err := range f.First {
		lines = append(lines, err.Error())
	}
	if more := f.Count - len(f.First); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more failures, which are in the log of the server", more))
	}
	return append(lines, "the files of the backup were kept; remove the cause, or the plugin, and delete the backup again")
}

// Merge returns failures of the steps of a deletion as one error, nil if there are none. errs are those of whole steps:
// one that is no Failures comes first.
func Merge(failed []error, errs ...error) error {
	var all Failures
	for _, err := range errs {
		failures, ok := err.(*Failures) //nolint:errorlint // a step returns it as it is
		switch {
		case err == nil:
		case !ok:
			return err
		default:
			all.Count += failures.Count
			all.First = append(all.First, failures.First...)
		}
	}
	for _, err := range failed {
		all.add(err)
	}
	if all.Count == 0 {
		return nil
	}
	return &all
}
