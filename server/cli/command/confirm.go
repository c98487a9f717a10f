package command

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// ask asks a question that only "y" or "yes" says yes to.
func (a *App) Confirm(question string) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("there is no terminal to ask on; say --confirm")
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return errors.New("nothing was deleted")
	}
}
