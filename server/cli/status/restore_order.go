package status

import (
	"fmt"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// maxWavesShown is the number of waves that are shown while a restore is at work, from the first that has not ended.
const maxWavesShown = 5

// PrintOrder writes the order of a restore. Without all, it writes the waves at work only, for a restore that is.
func PrintOrder(d *layout.Description, p *outcome.Plan, all bool) {
	if p == nil {
		return
	}
	d.Gap()
	d.Section("Order", func() {
		shown := 0
		for i, wave := range p.Waves {
			if !all && (wave.Done == wave.Items() || shown == maxWavesShown) {
				continue
			}
			shown++
			d.Line("%s", waveText(i, len(p.Waves), wave, !all))
		}
	})
	if !all {
		return
	}
	printSentences(d, "What waits for what", orderSentences(p))
	printSentences(d, "Needed, and not restored", missingSentences(p))
}

func waveText(i, of int, wave outcome.Wave, progress bool) string {
	var resources []string
	for _, c := range wave.Resources {
		resources = append(resources, fmt.Sprintf("%d %s", c.Items, c.Resource))
	}
	text := fmt.Sprintf("wave %d of %d: %s", i+1, of, strings.Join(resources, ", "))
	if progress {
		text += fmt.Sprintf("; %d of %d done", wave.Done, wave.Items())
	}
	return text
}

// OrderProgress describes the first wave that has not ended, "" if there is none.
func OrderProgress(p *outcome.Plan) string {
	if p == nil {
		return ""
	}
	for i, wave := range p.Waves {
		if wave.Done < wave.Items() {
			return fmt.Sprintf("wave %d of %d, %d of %s", i+1, len(p.Waves), wave.Done, layout.Count(wave.Items(), "item"))
		}
	}
	return ""
}

func printSentences(d *layout.Description, title string, sentences []string) {
	if len(sentences) == 0 {
		return
	}
	d.Gap()
	d.Section(title, func() {
		for _, sentence := range sentences {
			d.Line("%s", layout.OneLine(sentence))
		}
	})
}

func orderSentences(p *outcome.Plan) (sentences []string) {
	for _, pair := range p.Needs {
		text := fmt.Sprintf("%d %s wait for %s", pair.Items, pair.Resource, pair.Needs)
		if pair.Strict {
			text += ", without which they cannot be"
		}
		sentences = append(sentences, text)
	}
	for _, cycle := range p.Cycles {
		var broken []string
		for _, b := range cycle.Broken {
			broken = append(broken, fmt.Sprintf("%s is restored before %s", b.Item, b.Before))
		}
		sentences = append(sentences, fmt.Sprintf("%s need each other: %s",
			layout.Count(cycle.Items, "item"), strings.Join(broken, ", ")))
	}
	if p.MoreCycles > 0 {
		sentences = append(sentences, fmt.Sprintf("and %s", layout.Count(p.MoreCycles, "more cycle")))
	}
	return sentences
}

func missingSentences(p *outcome.Plan) (sentences []string) {
	for _, m := range p.Missing {
		text := m.String() + ", which is not in the backup"
		if m.LeftOut {
			text = m.String() + ", which the restore leaves out"
		}
		text += fmt.Sprintf(": needed by %s", m.Needer)
		if m.Items > 1 {
			text += fmt.Sprintf(" and %d more", m.Items-1)
		}
		sentences = append(sentences, text)
	}
	if p.MoreMissing > 0 {
		sentences = append(sentences, fmt.Sprintf("and %d more", p.MoreMissing))
	}
	return sentences
}
