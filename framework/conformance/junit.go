package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
)

type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as the XML of JUnit, which CI systems read: a suite for each plugin, a case for each
// rule. A warning is a test case that passes, with the warning in its output.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{Name: r.Target}
	for _, plugin := range r.Plugins {
		suite := junitSuite{Name: plugin.String()}
		seconds := 0.0
		for _, result := range plugin.Results {
			seconds += result.Seconds
			one := junitCase{Name: result.Rule, Class: plugin.String(), Time: inSeconds(result.Seconds)}
			switch result.Outcome {
			case Failed:
				one.Failure = &junitMessage{Message: result.Text, Text: result.Seen}
				suite.Failures++
			case Warned:
				one.Output = fmt.Sprintf("warning: %s\nSeen: %s", result.Text, result.Seen)
			case Skipped:
				one.Skipped = &junitMessage{Message: result.Seen}
				suite.Skipped++
			case Passed:
			}
			suite.Cases = append(suite.Cases, one)
		}
		suite.Tests, suite.Time = len(suite.Cases), inSeconds(seconds)
		all.Suites = append(all.Suites, suite)
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Skipped += suite.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func inSeconds(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }
